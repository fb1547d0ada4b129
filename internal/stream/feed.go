package stream

import (
	"slices"
	"sync"

	"github.com/windrow-run/windrow/internal/execution"
)

// feedLanes is how many kinds of exchanges add to a log side by side: flushes and transitions.
const feedLanes = 2

// Feed carries what an attempt of this process leaves in the event log of its execution to whoever follows it here, from the
// store's replies, so that the log need not be read. As long as the attempt owns the execution nobody else adds to the log:
// a topic that stands behind the claim, and behind all that the feed has let go, misses nothing. Wherever that can't be said the
// topic reads the log, as that of any other execution. See runtime.Feed for what the methods mean.
//
// Locks are taken in this order: Hub.mu, Feed.mu, topic.mu.
type Feed struct {
	hub     *Hub
	id      string
	attempt int64

	mu     sync.Mutex // guards the following
	topic  *topic     // nil: nobody follows
	lanes  [feedLanes]lane
	held   []execution.Entry // settled, in order, behind what an open lane may still tell of
	newest execution.LogID   // of all that were settled
	gone   execution.LogID   // the newest of those that were let go
	holes  int               // how often something was left in the log that nobody told of
	hole   bool              // and no entry is known that stands behind it
	closed bool
}

// lane is an exchange on its way.
type lane struct {
	open    bool
	unknown bool            // its first try failed
	floor   execution.LogID // what it leaves in the log stands behind this
	holes   int             // Feed.holes when it began
}

// Feed begins to tell of an attempt of this process.
func (h *Hub) Feed(id string, attempt int64) *Feed {
	f := &Feed{hub: h, id: id, attempt: attempt}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.feeds[id] = f
	if t := h.topics[id]; t != nil {
		f.attach(t)
	}
	return f
}

// attach gives the feed its topic. Hub.mu is held.
func (f *Feed) attach(t *topic) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.topic = t
	t.source.Store(f)
}

// detach takes it away.
func (f *Feed) detach(t *topic) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.topic == t {
		f.topic = nil
	}
}

// Sending implements runtime.Feed.
func (f *Feed) Sending(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := &f.lanes[n]; !l.open {
		*l = lane{open: true, floor: f.newest, holes: f.holes}
	}
}

// Unknown implements runtime.Feed.
func (f *Feed) Unknown(n int) {
	f.mu.Lock()
	f.lanes[n].unknown = true
	t := f.releaseLocked()
	f.mu.Unlock()
	t.ring()
}

// Settled implements runtime.Feed.
func (f *Feed) Settled(n int, epoch string, log []execution.Entry, whole bool) {
	f.mu.Lock()
	t := f.settleLocked(n, epoch, log, whole)
	f.mu.Unlock()
	t.ring()
}

// settleLocked returns the topic if it has to be looked after.
func (f *Feed) settleLocked(n int, epoch string, log []execution.Entry, whole bool) *topic {
	began := f.lanes[n]
	f.lanes[n] = lane{}
	if f.closed {
		return nil
	}
	if len(log) > 0 {
		f.newest = later(f.newest, log[len(log)-1].ID)
	}
	switch {
	case !whole:
		f.hole = true
		f.holes++
		f.held, f.gone = nil, f.newest
		return f.releaseLocked()
	case f.hole && len(log) > 0 && began.holes == f.holes:
		f.hole = false // these stand behind it, and so does a topic that has seen them
		f.gone = later(f.gone, log[len(log)-1].ID)
	}
	free := f.letGoLocked(log)
	if f.topic == nil || !f.topic.feed(f, epoch, free) {
		return nil
	}
	return f.topic
}

// letGoLocked adds entries to those that are held, and returns those that nothing can come before.
func (f *Feed) letGoLocked(log []execution.Entry) []execution.Entry {
	f.held = append(f.held, log...)
	slices.SortFunc(f.held, func(a, b execution.Entry) int {
		if a.ID.Less(b.ID) {
			return -1
		}
		return 1
	})
	n := len(f.held)
	for _, l := range f.lanes {
		for l.open && n > 0 && l.floor.Less(f.held[n-1].ID) {
			n--
		}
	}
	free := f.held[:n:n]
	if n > 0 {
		f.gone = later(f.gone, free[n-1].ID)
	}
	if f.held = f.held[n:]; len(f.held) == 0 {
		f.held = nil
	}
	return free
}

// releaseLocked lets the topic read its log again, and returns it if it did not.
func (f *Feed) releaseLocked() *topic {
	if f.topic == nil || !f.topic.unfeed(f) {
		return nil
	}
	return f.topic
}

// feeds reports whether the topic takes what the feed tells, and so need not read its log. It does from the moment on that it
// stands where the feed goes on.
func (f *Feed) feeds(t *topic) bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.topic != t || f.hole || f.lanes[0].unknown || f.lanes[1].unknown {
		return false
	}
	return t.takeFrom(f, f.attempt, f.gone)
}

// Close implements runtime.Feed.
func (f *Feed) Close() {
	f.hub.mu.Lock()
	if f.hub.feeds[f.id] == f {
		delete(f.hub.feeds, f.id)
	}
	f.hub.mu.Unlock()
	f.mu.Lock()
	t := f.releaseLocked()
	if f.topic != nil {
		f.topic.source.CompareAndSwap(f, nil)
	}
	f.topic, f.held, f.closed = nil, nil, true
	f.mu.Unlock()
	t.ring()
}

func later(a, b execution.LogID) execution.LogID {
	if a.Less(b) {
		return b
	}
	return a
}
