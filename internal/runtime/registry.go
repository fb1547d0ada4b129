package runtime

import (
	"context"
	"slices"
	"sync"

	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/store"
)

// registry is who runs what in this process: the slots of each deployment, the sessions that take them, and where there may
// be more work than was claimed.
type registry struct {
	wake signal // for the claimer: some deployment has a free slot and may have due work

	mu       sync.Mutex // guards the following; never held over anything that blocks
	places   []*place
	sessions map[*session]struct{}
	quiesced bool // nothing new starts
	draining bool // what runs is handed over at its next checkpoint
	intake   bool // polls may still bring claims
	changed  chan struct{}

	// See solitary.go.
	held  bool     // work on its last chance waits
	yield yield    // how the process becomes empty for it
	alone *session // it runs here, and nothing else is asked for until it has ended
}

// place is a deployment's share of the process.
type place struct {
	*deployment
	active int  // sessions that have a slot
	ending int  // sessions whose handler has ended, and which wait for their end to be stored
	more   bool // due work may be waiting that this process has not asked for yet
}

// free is how much may be asked for. An attempt needs no slot while its end is stored, so that the next one is claimed meanwhile; no more
// of them wait for that than there are slots.
func (p *place) free() int { return max(min(p.slots, 2*p.slots-p.ending)-p.active, 0) }

// signal is a wake-up. Raising it again before it was taken changes nothing, and raising it while nobody waits is not lost.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

func newRegistry(deployments []*deployment) *registry {
	r := &registry{wake: newSignal(), sessions: map[*session]struct{}{}, changed: make(chan struct{})}
	for i, d := range deployments {
		if i == 0 || d.lease < r.yield.first {
			r.yield.first = d.lease
		}
		r.places = append(r.places, &place{deployment: d, more: true})
	}
	r.yield.done()
	return r
}

func (r *registry) find(name string) *deployment {
	for _, p := range r.places { // never changes after New
		if p.Name == name {
			return p.deployment
		}
	}
	return nil
}

func (r *registry) placeOf(rev store.Revision) *place {
	for _, p := range r.places {
		if p.revision() == rev {
			return p
		}
	}
	return nil
}

// ring notes that work of a revision may be due; of every one where rev is zero. Where no slot is free nothing is asked for
// until one is.
func (r *registry) ring(rev store.Revision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.places {
		if rev == (store.Revision{}) || rev == p.revision() {
			p.more = true
		}
	}
	r.wakeLocked()
}

func (r *registry) wakeLocked() {
	if r.hungryLocked() {
		r.wake.raise()
	}
}

// hungry reports whether it makes sense to ask for work now.
func (r *registry) hungry() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hungryLocked()
}

func (r *registry) hungryLocked() bool {
	switch {
	case r.quiesced || r.alone != nil:
		return false
	case r.lonelyLocked():
		return true
	case r.yield.active:
		return false
	}
	return slices.ContainsFunc(r.places, func(p *place) bool { return p.more && p.free() > 0 })
}

// ask is the next request for work, as far as it depends on what runs. A ring that arrives after this is not forgotten: it
// sets more again.
func (r *registry) ask() store.PollRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := store.PollRequest{Revisions: make([]store.Want, len(r.places)), Solitary: !r.quiesced && r.lonelyLocked(),
		Yields: r.yieldsLocked()}
	for i, p := range r.places {
		w := &out.Revisions[i]
		*w = store.Want{Revision: p.revision(), Lease: p.lease}
		switch {
		case r.quiesced || r.yield.active && !out.Solitary || r.alone != nil:
		case out.Solitary:
			w.Count = 1
		default:
			w.Count = p.free()
			p.more = p.more && w.Count == 0
		}
	}
	return out
}

// answered takes in what a poll brought: where it brought all that was wanted, there may be more, and so there may after a brief one,
// which looks at less. It reports whether from now on the process yields to work on its last chance.
func (r *registry) answered(asked store.PollRequest, polled store.Polled) (yields bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	yields = r.toldLocked(asked, polled)
	if !asked.Solitary {
		all := fulfilled(asked, polled)
		r.moreLocked(asked, func(w store.Want) bool { return asked.Brief || polled.More || all(w) })
	}
	return yields
}

// fulfilled tells of which wants a poll brought as many as were asked for.
func fulfilled(asked store.PollRequest, polled store.Polled) func(store.Want) bool {
	got := make(map[store.Revision]int, len(asked.Revisions))
	for _, c := range polled.Claimed {
		got[store.Revision{Deployment: c.Control.Deployment, Revision: c.Control.Revision}]++
	}
	return func(w store.Want) bool { return w.Count > 0 && got[w.Revision] >= w.Count }
}

// unanswered takes in that a poll failed: there may be more of all that it asked for.
func (r *registry) unanswered(asked store.PollRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moreLocked(asked, func(store.Want) bool { return true })
}

func (r *registry) moreLocked(asked store.PollRequest, more func(store.Want) bool) {
	for _, w := range asked.Revisions {
		if w.Count > 0 && more(w) {
			r.placeOf(w.Revision).more = true
		}
	}
}

// add takes a slot for the session and reports whether its handler may start.
func (r *registry) add(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions[s] = struct{}{}
	if s.solitary {
		r.alone = s
	}
	r.placeOf(s.d.revision()).active++
	return !r.quiesced
}

// idle gives the slot of a session back whose handler has ended.
func (r *registry) idle(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.sessions[s]; !ok || s.idle {
		return
	}
	s.idle = true
	p := r.placeOf(s.d.revision())
	p.active--
	p.ending++
	r.wakeLocked()
}

// remove takes the session out, and gives its slot back where it still has one. A second call changes nothing and returns false.
func (r *registry) remove(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.sessions[s]; !ok {
		return false
	}
	delete(r.sessions, s)
	p := r.placeOf(s.d.revision())
	if s.idle {
		p.ending--
	} else {
		p.active--
	}
	if r.alone == s {
		r.togetherLocked()
	}
	r.wakeLocked()
	r.changedLocked()
	return true
}

func (r *registry) all() []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*session, 0, len(r.sessions))
	for s := range r.sessions {
		out = append(out, s)
	}
	return out
}

// stop ends the contexts of all attempts of the execution, or of all executions where id is empty.
func (r *registry) stop(id string, cause error) {
	for _, s := range r.all() {
		if id == "" || s.claimed.Control.ID == id {
			s.stop(cause)
		}
	}
}

func (r *registry) setIntake(open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.intake = open
	r.changedLocked()
}

func (r *registry) quiesce() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.quiesced = true
}

// drain has attempts handed over at their next checkpoint.
func (r *registry) drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
}

func (r *registry) isQuiesced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.quiesced
}

// handingOver is why an attempt must stop at its checkpoint; nil while it may go on.
func (r *registry) handingOver() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return handler.ErrShutdown
	}
	return nil
}

func (r *registry) changedLocked() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// waitEmpty returns once nothing runs and nothing can arrive, or with ctx's error.
func (r *registry) waitEmpty(ctx context.Context) error {
	for {
		r.mu.Lock()
		empty, changed := len(r.sessions) == 0 && !r.intake, r.changed
		r.mu.Unlock()
		if empty {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// load is what the health of one deployment is made of.
type load struct {
	*deployment
	active, ending int
}

func (r *registry) loads() []load {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]load, len(r.places))
	for i, p := range r.places {
		out[i] = load{p.deployment, p.active, p.ending}
	}
	return out
}
