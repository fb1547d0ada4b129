package stream

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// topic is the live side of one execution.
type topic struct {
	hub *Hub
	id  string

	group *group // set once, when the topic begins
	slot  int    // in group.topics; guarded by Hub.mu

	// stale says that the position has to be proved again before the log is read on, or a feed goes on.
	stale atomic.Bool

	// source is the feed of the attempt that this process runs; nil: there is none.
	source atomic.Pointer[Feed]

	// Of the group's goroutine.
	strikes   int       // failed reads of this log alone, in a row
	notBefore time.Time // not to be read before
	read      int       // number of the last read of the tail that it was part of

	mu      sync.Mutex // guards the following
	trail   trail
	fed     *Feed // tells of what is new; nil: the log is read
	gate    *gate // the one that is shut
	viewers []*Viewer
	done    bool // nothing more will be told: nobody may come in
}

// gate is where viewers stand. Once it is open, there is something to take and a next gate. A shut gate holds nothing, so
// that a viewer at rest keeps no events alive.
type gate struct {
	opened chan struct{}
	told   told
	next   *gate

	events, bytes int64 // of all before this gate
}

// told is what viewers take when they pass a gate: one of the following.
type told struct {
	events []Event
	after  trail   // with an entry of the log: where it leads; zero in all other cases
	status *Status // a status that the log does not show
	rejoin bool    // go back to the past, and come again
}

func newTopic(h *Hub, id string, t trail) *topic {
	return &topic{hub: h, id: id, trail: t, gate: &gate{opened: make(chan struct{})}}
}

// admission is the answer to a viewer that wants to come in.
type admission int

const (
	admitted  admission = iota
	behind              // the topic has passed the viewer: read on first
	elsewhere           // one of the two follows a log that is gone: read on in a moment
)

// admit lets a viewer stand at the shut gate, unless the topic has passed it or follows another log.
func (t *topic) admit(v *Viewer) admission {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch own, its := &t.trail, &v.trail; {
	case t.done, own.epoch != "" && its.epoch == "", own.epoch == its.epoch && its.pos.Less(own.pos):
		if !v.refused {
			return behind
		}
		fallthrough // it read once more and got no further: the topic is where the log does not reach
	case own.epoch != "" && own.epoch != its.epoch:
		t.suspectLocked()
		return elsewhere
	}
	v.topic, v.slot = t, len(t.viewers)
	v.gate.Store(t.gate)
	t.viewers = append(t.viewers, v)
	return admitted
}

// release takes the viewer out and reports whether it was the last one.
func (t *topic) release(v *Viewer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.viewers[len(t.viewers)-1]
	t.viewers[v.slot], last.slot = last, v.slot
	t.viewers[len(t.viewers)-1] = nil
	t.viewers = t.viewers[:len(t.viewers)-1]
	v.gate.Store(nil)
	return len(t.viewers) == 0
}

// position is where the log is to be read on.
func (t *topic) position() store.Position {
	t.mu.Lock()
	defer t.mu.Unlock()
	return store.Position{ID: t.id, After: t.trail.pos}
}

// differs reports whether the control shows what the topic does not know.
func (t *topic) differs(c execution.Control) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return c.Status.Terminal() || c.LogEpoch != t.trail.epoch || !t.trail.shows(c.Status, c.Attempt)
}

// deliver takes entries that a tail read. It reports whether the topic has to be proved: at the end, for the terminal event; at the
// first entry of a log, whose epoch only control tells; where so much came at once that some may be gone before it; and where
// the number of the next chunk is not known, so that none could be missed.
func (t *topic) deliver(entries []execution.Entry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.trail.loose || t.deliverLocked(entries)
}

func (t *topic) deliverLocked(entries []execution.Entry) bool {
	if t.trail.epoch == "" || len(entries) >= pageLimit {
		return true
	}
	t.tellLocked(t.entriesLocked(entries))
	return t.trail.ended
}

// takeFrom lets the topic take what the feed tells of that attempt behind gone, where it stands behind the claim and behind gone. It
// reports whether the topic does.
func (t *topic) takeFrom(f *Feed, attempt int64, gone execution.LogID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fed == f {
		return true
	}
	if t.done || t.stale.Load() || t.trail.ended || t.trail.attempt != attempt || t.trail.pos.Less(gone) {
		return false
	}
	t.fed = f
	return true
}

// feed takes entries from the feed, of the log of that epoch if one is given, and reports whether the topic has to be proved, as
// deliver does.
func (t *topic) feed(f *Feed, epoch string, entries []execution.Entry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fed != f || len(entries) == 0 {
		return false
	}
	if t.trail.epoch == cmp.Or(epoch, t.trail.epoch) && !t.deliverLocked(entries) {
		return false
	}
	t.suspectLocked()
	return true
}

// unfeed has the log read from the topic's position on, and reports whether it was not.
func (t *topic) unfeed(f *Feed) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fed != f {
		return false
	}
	t.fed = nil
	return true
}

// suspect has the position proved before anything else is told.
func (t *topic) suspect() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.suspectLocked()
}

func (t *topic) suspectLocked() {
	t.fed = nil
	t.stale.Store(true)
}

// ring has the topic looked after at once; nil: there is none.
func (t *topic) ring() {
	if t != nil {
		t.group.ring()
	}
}

// prove takes what was read from the topic's position on, and reports whether the topic goes on. Where the read does not
// continue the topic, or has no end yet, its viewers go back to the past, each by its own position.
func (t *topic) prove(rec store.Record) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.trail.continues(rec) || len(rec.Log) >= pageLimit {
		t.finishLocked(told{rejoin: true})
		return false
	}
	t.trail.epoch = rec.Control.LogEpoch
	t.tellLocked(t.entriesLocked(rec.Log))
	if rec.Control.Status.Terminal() {
		t.finishLocked(told{events: []Event{end(rec)}})
		return false
	}
	t.trail.ended = false // control is the authority
	if s := t.trail.settle(rec); s != nil {
		t.tellLocked([]told{{events: []Event{s}, status: s}})
	}
	return true
}

// interrupt ends all viewers for that reason.
func (t *topic) interrupt(r Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finishLocked(told{events: []Event{&Interrupted{Reason: r}}})
}

func (t *topic) finishLocked(last told) {
	t.tellLocked([]told{last})
	t.done = true
}

// entriesLocked takes all entries that a log keeps behind the trail. Where chunks are missing, the log has lost them before the first of
// these, since it loses its oldest ones and keeps its newest chunks: the gap is told there, as who breaks off behind an entry is not told what is
// missing before it (invariant 6).
func (t *topic) entriesLocked(entries []execution.Entry) []told {
	var news []told
	for _, e := range entries {
		events := t.trail.take(e)
		if len(events) == 0 {
			continue
		}
		if g, ok := events[0].(*Gap); ok && g.Detail != gapGarbled && len(news) > 0 {
			first := &news[0]
			first.events, events = append([]Event{g}, first.events...), events[1:]
		}
		news = append(news, told{events: events, after: t.trail})
	}
	return news
}

// tellLocked opens one gate after the other. Who was too far behind before is cut first, so that what comes at once cuts
// nobody by its own size.
func (t *topic) tellLocked(news []told) {
	if len(news) == 0 {
		return
	}
	t.cutLocked()
	for _, n := range news {
		g := t.gate
		next := &gate{opened: make(chan struct{}), events: g.events + int64(len(n.events)), bytes: g.bytes}
		for _, e := range n.events {
			next.bytes += size(e)
		}
		g.told, g.next, t.gate = n, next, next
		close(g.opened)
	}
}

// cutLocked takes the gate from every viewer that is too far behind, so that it keeps nothing alive.
func (t *topic) cutLocked() {
	for _, v := range t.viewers {
		g := v.gate.Load()
		if g == nil || t.gate.events-g.events <= int64(t.hub.p.BufferEvents) && t.gate.bytes-g.bytes <= int64(t.hub.p.BufferBytes) {
			continue
		}
		v.gate.CompareAndSwap(g, nil) // where it has just moved on, it is spared until the next time
	}
}
