package stream

import (
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// whole stands for all chunks of an entry.
const whole = execution.MaxBatchChunks + 1

// trail is a position in an event log and what must hold of what comes next (invariant 6). It is a value: a copy goes its own way.
type trail struct {
	epoch string          // of the log; "": none was begun yet
	pos   execution.LogID // the entry taken last; zero: none
	seen  int64           // how many chunks of that entry were seen

	attempt int64 // newest attempt seen; 0: none
	next    int64 // number of the chunk of it that must come next
	loose   bool  // the next chunk may be any: a gap was told, or the past is not known

	status        execution.Status // newest status told; "": none
	statusAttempt int64
	version       int64 // of the newest status told

	ended bool // the end marker was taken: nothing that follows counts
	stray bool // stands where no log can continue from
}

// newTrail is where a viewer with that cursor stands, or a fresh one where c is nil.
func newTrail(c *execution.Cursor) trail {
	switch {
	case c == nil:
		return trail{}
	case c.End:
		return trail{epoch: c.Epoch, stray: true}
	case c.Entry.IsZero():
		return trail{epoch: c.Epoch}
	}
	return trail{epoch: c.Epoch, pos: c.Entry, seen: c.Chunk + 1, loose: true}
}

// page takes a page that was read from the trail's position on, that entry included, and returns what has to be told, in order.
// Where the page does not continue the trail, that is a gap only: the trail then stands before the oldest entry, and again
// says that the page did not begin there and must be read once more.
func (t *trail) page(rec store.Record) (events []Event, again bool) {
	log := rec.Log
	if !t.continues(rec) {
		again = !t.pos.IsZero()
		*t = trail{loose: true}
		events = append(events, &Gap{Detail: gapLost})
	} else if !t.pos.IsZero() && len(log) > 0 && log[0].ID == t.pos {
		events, log = t.rest(log[0]), log[1:]
	}
	t.epoch = rec.Control.LogEpoch
	if again {
		return events, true
	}
	for _, e := range log {
		events = append(events, t.take(e)...)
	}
	return events, false
}

// continues reports whether nothing is missing between the trail and a page that was read from its position on.
func (t *trail) continues(rec store.Record) bool {
	epoch, log := rec.Control.LogEpoch, rec.Log
	switch {
	case t.stray:
		return false
	case t.ended:
		return true
	case !t.pos.IsZero():
		return t.epoch == epoch && len(log) > 0 && log[0].ID == t.pos
	case t.epoch != "" && t.epoch != epoch:
		return false
	}
	// A log that was begun holds something, unless it is gone; that is told once.
	return epoch == "" || len(log) > 0 || t.loose
}

// rest is what is still to be told of the entry that the trail stands at. It also tells a trail that was made from a cursor where it is.
func (t *trail) rest(e execution.Entry) []Event {
	from := t.seen
	if from >= whole {
		return nil
	}
	t.seen = whole
	switch e.Kind {
	case execution.EntryChunks:
		b, err := execution.DecodeChunkBatch(e.Data)
		if err != nil {
			return []Event{&Gap{Detail: gapGarbled}}
		}
		t.follow(b)
		return t.chunks(e.ID, b, from)
	case execution.EntryStatus:
		t.note(e)
	}
	return nil
}

// take takes the next entry. An entry that the trail has passed tells nothing.
func (t *trail) take(e execution.Entry) []Event {
	if t.ended || !t.pos.Less(e.ID) {
		return nil
	}
	begins := t.pos.IsZero()
	t.pos, t.seen = e.ID, whole
	switch e.Kind {
	case execution.EntryChunks:
		return t.batch(e, begins)
	case execution.EntryProgress:
		return []Event{&Progress{base: at(t.cursor(0)), Data: e.Data}}
	case execution.EntryStatus:
		if s, ok := t.note(e); ok {
			return []Event{&Status{base: at(t.cursor(0)), StatusEntry: s}}
		}
	case execution.EntryEnd:
		t.ended = true
	}
	return nil // a kind of a newer release, or garbled: control tells
}

func (t *trail) batch(e execution.Entry, begins bool) []Event {
	b, err := execution.DecodeChunkBatch(e.Data)
	if err != nil {
		t.loose = true
		return []Event{&Gap{Detail: gapGarbled}}
	}
	if b.Attempt < t.attempt {
		return nil // void since the newer attempt began
	}
	gap := t.missing(b, begins)
	t.follow(b)
	chunks := t.chunks(e.ID, b, 0)
	if gap == "" {
		return chunks
	}
	return append([]Event{&Gap{Detail: gap}}, chunks...)
}

// missing says what, if anything, is lost between the trail and the batch.
func (t *trail) missing(b execution.ChunkBatch, begins bool) string {
	switch {
	case t.loose:
		return ""
	case b.Attempt == t.attempt && b.First != t.next:
		return gapChunks
	case b.Attempt == t.attempt:
		return ""
	case t.attempt == 0 || begins:
		if b.First > 0 {
			return gapStart
		}
		return ""
	}
	// A log shows that an attempt begins before it shows its output. This one did not.
	return gapChunks
}

func (t *trail) follow(b execution.ChunkBatch) {
	t.attempt, t.next, t.loose = b.Attempt, b.First+int64(len(b.Chunks)), false
}

// chunks makes the events of the batch from a chunk on, in one piece.
func (t *trail) chunks(id execution.LogID, b execution.ChunkBatch, from int64) []Event {
	if from >= int64(len(b.Chunks)) {
		return nil
	}
	chunks := make([]Chunk, len(b.Chunks)-int(from))
	events := make([]Event, len(chunks))
	for i := range chunks {
		c, n := &chunks[i], from+int64(i)
		c.cursor, c.placed = execution.Cursor{Epoch: t.epoch, Entry: id, Chunk: n}, true
		c.Attempt, c.Payload = b.Attempt, b.Chunks[n]
		events[i] = c
	}
	return events
}

// note takes a logged status.
func (t *trail) note(e execution.Entry) (execution.StatusEntry, bool) {
	s, err := execution.DecodeStatusEntry(e.Data)
	if err != nil {
		return s, false
	}
	if s.Attempt > t.attempt {
		t.loose = false // the attempt begins here
	}
	t.tell(s)
	return s, true
}

func (t *trail) tell(s execution.StatusEntry) {
	t.status, t.statusAttempt, t.version = s.Status, s.Attempt, s.Version
	if s.Attempt > t.attempt {
		t.attempt, t.next = s.Attempt, 0
	}
}

// settle tells the status as control has it where the log did not. rec must have been read at the end of the log. Status and attempt
// together never come twice: a new claim is a new attempt.
func (t *trail) settle(rec store.Record) *Status {
	c := rec.Control
	if t.shows(c.Status, c.Attempt) || c.Version < t.version {
		return nil
	}
	s := execution.StatusEntry{Status: c.Status, Attempt: c.Attempt, Version: c.Version,
		AvailableAt: c.AvailableAt, WaitUntil: c.WaitUntil}
	if c.Status == execution.Waiting {
		s.Wait = rec.Wait
	}
	t.tell(s)
	return &Status{StatusEntry: s}
}

// shows reports whether that status was told last.
func (t *trail) shows(s execution.Status, attempt int64) bool {
	return t.status == s && t.statusAttempt == attempt
}

func (t *trail) cursor(chunk int64) execution.Cursor {
	return execution.Cursor{Epoch: t.epoch, Entry: t.pos, Chunk: chunk}
}

// end is the terminal event of the execution.
func end(rec store.Record) *End {
	rec.Log = nil
	return &End{base: at(execution.Cursor{Epoch: rec.Control.LogEpoch, End: true}), Record: rec}
}
