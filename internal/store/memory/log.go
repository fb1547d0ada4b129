package memory

import (
	"bytes"
	"slices"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// eventLog is the log of one execution. Its epoch stands in the control.
type eventLog struct {
	last    execution.LogID
	entries []weighed
	total   weight
	until   int64 // end of its retention, set when the execution ends
}

type weighed struct {
	execution.Entry
	weight
}

// weight is what counts against the bounds of history. An entry that holds no chunks weighs one and its bytes.
type weight struct{ chunks, bytes int }

// append stores the entry under the next id. The log keeps no more entries than chunks, also where nobody streams: each
// weighs a chunk at least.
func (l *eventLog) append(e execution.Entry, limits store.Limits, now execution.Instant) {
	l.add(e, weight{1, len(e.Data)}, now)
	l.drop(max(0, len(l.entries)-limits.HistoryChunks))
}

// stream appends a batch of chunks, then lets the oldest entries go while the rest is as much as is to be kept.
func (l *eventLog) stream(b execution.ChunkBatch, limits store.Limits, now execution.Instant) {
	e := execution.Entry{Kind: execution.EntryChunks, Data: b.Encode()}
	l.add(e, weight{len(b.Chunks), b.Size()}, now)
	gone, kept := 0, l.total
	for _, e := range l.entries {
		rest := weight{kept.chunks - e.chunks, kept.bytes - e.bytes}
		if rest.chunks < limits.HistoryChunks && rest.bytes < limits.HistoryBytes {
			break
		}
		gone, kept = gone+1, rest
	}
	l.drop(gone)
}

// drop lets the oldest entries go.
func (l *eventLog) drop(n int) {
	if n == 0 {
		return
	}
	for _, e := range l.entries[:n] {
		l.total = weight{l.total.chunks - e.chunks, l.total.bytes - e.bytes}
	}
	l.entries = slices.Clone(l.entries[n:])
}

// add stores the entry under the next id. IDs grow also when the clock stands still or steps back (invariant 6).
func (l *eventLog) add(e execution.Entry, w weight, now execution.Instant) {
	next := execution.LogID{Ms: uint64(now.Millis())}
	if !l.last.Less(next) {
		next = execution.LogID{Ms: l.last.Ms, Seq: l.last.Seq + 1}
	}
	l.last, e.ID = next, next
	l.entries = append(l.entries, weighed{e, w})
	l.total = weight{l.total.chunks + w.chunks, l.total.bytes + w.bytes}
}

// holds returns the entry that is exactly this batch: a repeat of it was applied before. nil: there is none.
func (l *eventLog) holds(b execution.ChunkBatch) []execution.Entry {
	data := b.Encode()
	for _, e := range l.entries {
		if e.Kind == execution.EntryChunks && bytes.Equal(e.Data, data) {
			return []execution.Entry{{ID: e.ID, Kind: e.Kind, Data: data}}
		}
	}
	return nil
}

// after returns copies of the entries behind the id.
func (l *eventLog) after(id execution.LogID) []execution.Entry {
	var out []execution.Entry
	for i := len(l.entries) - 1; i >= 0 && id.Less(l.entries[i].ID); i-- {
		e := l.entries[i].Entry
		e.Data = bytes.Clone(e.Data)
		out = append(out, e)
	}
	slices.Reverse(out)
	return out
}

// from returns at most limit entries from the id on, that one included.
func (l *eventLog) from(id execution.LogID, limit int, now execution.Instant) []execution.Entry {
	l.expire(now)
	at, _ := slices.BinarySearchFunc(l.entries, id, func(e weighed, id execution.LogID) int {
		if e.ID.Less(id) {
			return -1
		}
		return 1
	})
	var out []execution.Entry
	for _, e := range l.entries[at:] {
		if len(out) >= limit {
			break
		}
		e.Data = bytes.Clone(e.Data)
		out = append(out, e.Entry)
	}
	return out
}

// newest returns the newest entry, if there is one.
func (l *eventLog) newest(now execution.Instant) []execution.Entry {
	l.expire(now)
	if len(l.entries) == 0 {
		return nil
	}
	return l.from(l.entries[len(l.entries)-1].ID, 1, now)
}

// expire drops the log when its retention is over.
func (l *eventLog) expire(now execution.Instant) {
	if l.until != 0 && l.until <= now.Millis() {
		l.entries, l.total = nil, weight{}
	}
}
