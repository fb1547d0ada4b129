package stream

import (
	"sync/atomic"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// Event is one thing that a viewer is told. The set is closed: [*Opened], [*Status], [*Progress], [*Chunk], [*Gap], [*End],
// [*Interrupted], [*Keepalive]. Events are shared between viewers and must not be changed.
type Event interface {
	// Cursor is where a viewer stands after the event; false where the event is no place of its own, so that a viewer
	// stands where it stood before.
	Cursor() (execution.Cursor, bool)
	// Frame returns what render made of the event the first time that Frame was called on it. All viewers of an execution
	// share live events, so the bytes must be the same for each of them.
	Frame(render func() []byte) []byte

	event()
}

// Opened is the first event of every viewer. Its cursor leads back to where the viewer begins.
type Opened struct{ base }

// Status is a change of status, or the present status where the log does not show it.
type Status struct {
	base
	execution.StatusEntry
}

// Progress is one rendered progress event.
type Progress struct {
	base
	Data []byte // JSON
}

// Chunk is one piece of streamed output. An attempt with a higher number than before says that earlier output is void.
type Chunk struct {
	base
	Attempt int64
	Payload []byte // JSON
}

// Gap says that something between the event before and the one after was lost to this viewer. It has no cursor: who
// breaks off here is told again.
type Gap struct {
	base
	Detail string // for clients
}

// End is the terminal event, the last one: the execution as it ended.
type End struct {
	base
	Record store.Record
}

// Interrupted says that the stream breaks off before the end. It is the last event; the viewer comes back by its cursor if
// the reason allows.
type Interrupted struct {
	base
	Reason Reason
}

// Keepalive says that there is nothing to say, so that the connection is not taken for dead. It has a cursor where the viewer has
// passed events that it is not told of.
type Keepalive struct{ base }

// Kinds are events that a viewer can do without.
type Kinds uint8

// The kinds. All other events are told to every viewer.
const (
	Statuses Kinds = 1 << iota
	Progresses
	Chunks

	Skippable = Statuses | Progresses | Chunks
)

func kindOf(e Event) Kinds {
	switch e.(type) {
	case *Status:
		return Statuses
	case *Progress:
		return Progresses
	case *Chunk:
		return Chunks
	}
	return 0
}

// Reason says why a stream broke off. The set is closed.
type Reason string

// The reasons. After all but the last two it makes sense to come back by the cursor.
const (
	ReasonShutdown   Reason = "shutdown"   // this process is going away
	ReasonSlow       Reason = "slow"       // the viewer fell too far behind
	ReasonUnreadable Reason = "unreadable" // the execution, or its event log, can't be read
	ReasonErased     Reason = "erased"     // the execution does not exist any more
)

// Detail says it in a sentence for clients.
func (r Reason) Detail() string {
	switch r {
	case ReasonShutdown:
		return "the server is shutting down; reconnect to go on"
	case ReasonSlow:
		return "the stream was not read fast enough; reconnect to go on"
	case ReasonUnreadable:
		return "the stored events can't be read"
	case ReasonErased:
		return "the execution does not exist any more"
	}
	return "the stream broke off"
}

// What gaps say.
const (
	gapLost    = "events after the cursor are not available any more; what follows begins with the oldest event kept"
	gapStart   = "the beginning of the output is not available any more"
	gapChunks  = "some of the output is not available any more"
	gapGarbled = "some of the output can't be read"
)

// base is what events have in common.
type base struct {
	cursor execution.Cursor
	placed bool
	frame  atomic.Pointer[[]byte]
}

func at(c execution.Cursor) base { return base{cursor: c, placed: true} }

func (b *base) Cursor() (execution.Cursor, bool) { return b.cursor, b.placed }

func (b *base) Frame(render func() []byte) []byte {
	if f := b.frame.Load(); f != nil {
		return *f
	}
	f := render()
	if !b.frame.CompareAndSwap(nil, &f) {
		return *b.frame.Load()
	}
	return f
}

func (b *base) event() {}

// final reports whether nothing comes after the event.
func final(e Event) bool {
	switch e.(type) {
	case *End, *Interrupted:
		return true
	}
	return false
}

// overhead is about what an event costs beside its payload.
const overhead = 128

// size is about how many bytes the event holds in memory.
func size(e Event) int64 {
	switch e := e.(type) {
	case *Chunk:
		return overhead + int64(len(e.Payload))
	case *Progress:
		return overhead + int64(len(e.Data))
	case *Status:
		return overhead + int64(len(e.Wait))
	}
	return overhead
}
