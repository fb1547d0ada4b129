package hayhooks

import (
	"strconv"
	"strings"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/sse"
	"github.com/windrow-run/windrow/internal/stream"
)

// chunkBits are those of the second number of an id that say which chunk of an entry is meant; there are at most
// execution.MaxBatchChunks.
const chunkBits = 14

// ID is the place after a chunk as hayhooks writes places: two numbers. The epoch of the log is left out.
func ID(c execution.Cursor) string {
	return execution.LogID{Ms: c.Entry.Ms, Seq: c.Entry.Seq<<chunkBits | uint64(c.Chunk)}.String()
}

// ParseID reads a place, of the log with that epoch: an entry is never in a log other than the one that it was written to. Two
// zeros are the beginning; what no chunk has is a place that is gone. Errors are of CodeCursorInvalid.
func ParseID(text string) (execution.Cursor, error) {
	ms, rest, ok := strings.Cut(text, "-")
	entry, errEntry := number(ms)
	place, errPlace := number(rest)
	chunk := min(place&(1<<chunkBits-1), execution.MaxBatchChunks)
	if !ok || errEntry != nil || errPlace != nil {
		return execution.Cursor{}, execution.Errorf(execution.CodeCursorInvalid, "the Last-Event-ID is not one that this server gave out")
	}
	return execution.Cursor{Entry: execution.LogID{Ms: entry, Seq: place >> chunkBits}, Chunk: int64(chunk)}, nil
}

// number reads 1 to 20 digits that fit in 64 bits.
func number(text string) (uint64, error) {
	if len(text) > 20 {
		return 0, strconv.ErrRange
	}
	return strconv.ParseUint(text, 10, 64)
}

// Details of events.
const (
	gapDetail   = "Requested stream history is no longer available"
	errorDetail = "Execution stream interrupted"
)

// Teller tells a viewer of an execution's events. The zero value tells one that begins at the beginning.
type Teller struct {
	// Resumed says that the viewer goes on from a place, or has seen a chunk.
	Resumed bool
	lost    bool // a gap waits for a chunk
}

// Tell is what a viewer is sent of an event, and the name of the last event in it; no name: there is none. Nothing is sent at a
// shutdown. What hayhooks has no event for is a heartbeat, so that the silence it ended is none.
func (t *Teller) Tell(event stream.Event) (frames []byte, name string) {
	switch event := event.(type) {
	case *stream.Chunk:
		return t.chunk(event), "chunk"
	case *stream.Gap:
		if !t.Resumed { // a viewer that asked for no history, and gets none, has lost nothing
			t.lost = true
			break
		}
		return detail("gap", gapDetail), "gap"
	case *stream.End:
		data, _ := Projection(event.Record) // only a wait can be unreadable, and what has ended has none
		name = string(event.Record.Control.Status)
		return frame(sse.Event{Name: name, Data: string(data)}), name
	case *stream.Interrupted:
		if event.Reason == stream.ReasonShutdown {
			return nil, ""
		}
		return detail("error", errorDetail), "error"
	}
	return sse.AppendComment(nil, "heartbeat"), ""
}

func (t *Teller) chunk(c *stream.Chunk) (frames []byte) {
	if t.lost {
		frames = detail("gap", gapDetail)
	}
	t.Resumed, t.lost = true, false
	data := append([]byte(`{"attempt":`), strconv.FormatInt(c.Attempt, 10)...)
	data = append(append(append(data, `,"payload":`...), c.Payload...), '}')
	cursor, _ := c.Cursor() // a chunk has one
	return append(frames, frame(sse.Event{ID: ID(cursor), Name: "chunk", Data: string(data)})...)
}

func detail(name, text string) []byte {
	data, err := contract.Encode(contract.GapEvent{Detail: text})
	if err != nil { // a text can always be encoded
		panic(err)
	}
	return frame(sse.Event{Name: name, Data: string(data)})
}

func frame(event sse.Event) []byte {
	text, err := sse.AppendEvent(nil, event)
	if err != nil { // neither ids nor names have line breaks
		panic(err)
	}
	return text
}
