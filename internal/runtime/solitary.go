package runtime

import (
	"time"

	"github.com/windrow-run/windrow/internal/store"
)

// An execution whose next lost lease would fail it runs alone in its process: what runs beside it could be what takes
// processes down, and would fail it with itself. The rules, here for the registry's side and in lua/poll.lua for the store's:
//
//   - An empty process that is told of such work asks for one of it, and for nothing else until that attempt has ended.
//   - After that, other work has a turn: at least one poll for it comes first.
//   - A process that is not empty takes its turn, which the store gives to one at a time once the work has waited for a lease:
//     it claims nothing until it is empty. Where that takes longer than its patience, it claims as before for as long, and is
//     twice as patient the next time: neither a handler that never ends stops a process, nor does constant load of long ones
//     keep such work waiting for ever.

// yield is how a process becomes empty for work that must run alone.
type yield struct {
	active   bool          // nothing is asked for until the process is empty
	changed  time.Time     // when active last began, or was given up
	patience time.Duration // how long it may take, and the process rests after it took longer
	first    time.Duration // what patience begins with: the shortest lease
	gaveUp   bool          // since it was last empty
}

// tire gives up what takes too long, and reports whether the process rests from it.
func (y *yield) tire(now time.Time) bool {
	over := now.Sub(y.changed) >= y.patience
	switch {
	case y.active && over:
		y.active, y.gaveUp, y.changed = false, true, now
	case y.gaveUp && over && !y.active:
		y.gaveUp, y.patience = false, 2*y.patience
	}
	return y.gaveUp
}

func (y *yield) set(active bool, now time.Time) {
	if active && !y.active {
		y.changed = now
	}
	y.active = active
}

// done begins anew, since the process became empty.
func (y *yield) done() { *y = yield{patience: y.first, first: y.first} }

// lonelyLocked reports whether the next poll is to be a solitary one.
func (r *registry) lonelyLocked() bool { return r.held && len(r.sessions) == 0 }

// yieldsLocked reports whether the process may be asked to become empty: not while work on its last chance runs here, nor
// while a handler goes on that has lost its lease, which may never end.
func (r *registry) yieldsLocked() bool {
	if r.quiesced || r.alone != nil || r.yield.tire(time.Now()) {
		return false
	}
	for s := range r.sessions {
		if !s.alive() {
			return false
		}
	}
	return true
}

// toldLocked takes in what a poll says of work on its last chance, and reports whether from now on the process yields to it.
// A poll that was sent while such work ran here counts for nothing: other work comes first.
func (r *registry) toldLocked(asked store.PollRequest, polled store.Polled) bool {
	before := r.yield.active
	switch {
	case asked.Brief: // it tells nothing of that
	case asked.Solitary:
		r.held = false
		r.yield.done()
	case before || asked.Yields:
		r.held = polled.Held
		r.yield.set(polled.Drain, time.Now())
	}
	return r.yield.active && !before
}

// lost ends the isolation of an execution that has lost its lease: it has failed, whatever its handler still does.
func (r *registry) lost(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.alone == s {
		r.togetherLocked()
		r.wakeLocked()
	}
}

// togetherLocked ends the time in which an execution ran alone. Nothing was asked for meanwhile, so there may be anything.
func (r *registry) togetherLocked() {
	r.alone = nil
	for _, p := range r.places {
		p.more = true
	}
}

// wanted reports whether a request asked for work at all.
func wanted(asked store.PollRequest) bool {
	for _, w := range asked.Revisions {
		if w.Count > 0 {
			return true
		}
	}
	return false
}
