package redis

import (
	"sync"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// histories knows what the event logs of this process's attempts hold, from what it appended itself, so that each append
// can say which entries it leaves no room for, and no script has to look. What is not known is asked for once.
type histories struct {
	chunks, bytes int // what a log keeps

	mu   sync.Mutex // guards the following
	logs map[string]*history
}

// maxHistories bounds the memory. A log that was dropped is asked for again.
const maxHistories = 10_000

// history is the log of one execution during one attempt.
type history struct {
	fence   int64
	entries []weight // oldest first
	total   weight
}

// weight is how much an entry counts against the bounds. One that holds no chunks counts as one chunk.
type weight struct {
	id            execution.LogID
	chunks, bytes int
}

func newHistories(l store.Limits) *histories {
	return &histories{chunks: l.HistoryChunks, bytes: l.HistoryBytes, logs: map[string]*history{}}
}

// claimed begins the log of an attempt. One that was begun before the attempt holds entries of others.
func (h *histories) claimed(c execution.Control) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.logs, c.ID)
	if c.LogEpoch == "" {
		h.put(c.ID, &history{fence: c.Fence})
	}
}

func (h *histories) put(id string, log *history) {
	if len(h.logs) >= maxHistories {
		clear(h.logs)
	}
	h.logs[id] = log
}

func (h *histories) forget(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.logs, id)
}

// applied adds what went into the log with a transition. What leaves running ends the attempt.
func (h *histories) applied(c execution.Control, entries []execution.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	log := h.logs[c.ID]
	if log == nil {
		return
	}
	if c.Status != execution.Running || c.Fence != log.fence {
		delete(h.logs, c.ID)
		return
	}
	for _, e := range entries {
		log.add(weight{e.ID, 1, len(e.Data)})
	}
	log.shorten(h.chunks)
}

// trim says what an append of this weight leaves no room for, as lua/beat.lua takes it.
func (h *histories) trim(id string, fence int64, chunks, bytes int) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	log := h.logs[id]
	if log == nil || log.fence != fence {
		return "?"
	}
	rest := weight{chunks: log.total.chunks + chunks, bytes: log.total.bytes + bytes}
	for i, e := range log.entries {
		rest.chunks, rest.bytes = rest.chunks-e.chunks, rest.bytes-e.bytes
		if rest.chunks < h.chunks && rest.bytes < h.bytes {
			if i == 0 {
				return ""
			}
			return e.id.String()
		}
	}
	if len(log.entries) == 0 {
		return ""
	}
	return "1"
}

// appended adds a batch that stands in the log now.
func (h *histories) appended(id string, fence int64, w weight) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if log := h.logs[id]; log != nil && log.fence == fence {
		log.add(w)
		log.drop(h.chunks, h.bytes)
	}
}

// learned takes over what a log holds.
func (h *histories) learned(id string, fence int64, entries []weight) {
	h.mu.Lock()
	defer h.mu.Unlock()
	log := &history{fence: fence}
	for _, e := range entries {
		log.add(e)
	}
	h.put(id, log)
}

func (l *history) add(w weight) {
	l.entries = append(l.entries, w)
	l.total.chunks += w.chunks
	l.total.bytes += w.bytes
}

// drop lets the oldest entries go while the rest is as much as is to be kept.
func (l *history) drop(chunks, bytes int) {
	for len(l.entries) > 0 {
		e := l.entries[0]
		rest := weight{chunks: l.total.chunks - e.chunks, bytes: l.total.bytes - e.bytes}
		if rest.chunks < chunks && rest.bytes < bytes {
			return
		}
		l.entries, l.total = l.entries[1:], rest
	}
}

// shorten keeps the newest entries, as lua/log.lua does.
func (l *history) shorten(most int) {
	for len(l.entries) > most {
		e := l.entries[0]
		l.entries = l.entries[1:]
		l.total.chunks -= e.chunks
		l.total.bytes -= e.bytes
	}
}
