package runtime

import "github.com/windrow-run/windrow/internal/store"

// An execution whose next lost lease would fail it runs alone in its process: what runs beside it could be what takes
// processes down, and would fail it with itself. The rules, here for the registry's side and in lua/poll.lua for the store's:
//
//   - An empty process that is told of such work asks for one of it, and for nothing else until that attempt has ended.
//   - After that, other work has a turn: at least one poll for it comes first.
//   - A process that is not empty takes its turn, which the store gives to one at a time once the work has waited for a lease:
//     it claims nothing until it is empty.

// lonelyLocked reports whether the next poll is to be a solitary one.
func (r *registry) lonelyLocked() bool { return r.held && len(r.sessions) == 0 }

// yieldsLocked reports whether the process may be asked to become empty: not while work on its last chance runs here, nor
// while a handler goes on that has lost its lease, which may never end.
func (r *registry) yieldsLocked() bool {
	if r.quiesced || r.alone != nil {
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
	before := r.yielding
	switch {
	case asked.Solitary:
		r.held, r.yielding = false, false
	case r.yielding || asked.Yields:
		r.held, r.yielding = polled.Held, polled.Drain
	}
	return r.yielding && !before
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
