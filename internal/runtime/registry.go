package runtime

import (
	"context"
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
}

// place is a deployment's share of the process.
type place struct {
	*deployment
	active int
	more   bool // due work may be waiting that this process has not asked for yet
}

func (p *place) free() int { return max(p.slots-p.active, 0) }

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
	for _, d := range deployments {
		r.places = append(r.places, &place{deployment: d, more: true})
	}
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
			r.wakeLocked(p)
		}
	}
}

func (r *registry) wakeLocked(p *place) {
	if p.more && p.free() > 0 && !r.quiesced {
		r.wake.raise()
	}
}

// hungry reports whether it makes sense to ask for work now.
func (r *registry) hungry() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.places {
		if p.more && p.free() > 0 {
			return !r.quiesced
		}
	}
	return false
}

// wants is what the process can take now. A ring that arrives after this is not forgotten: it sets more again.
func (r *registry) wants() []store.Want {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]store.Want, len(r.places))
	for i, p := range r.places {
		out[i] = store.Want{Revision: p.revision(), Lease: p.lease}
		if !r.quiesced {
			out[i].Count = p.free()
		}
		if out[i].Count > 0 {
			p.more = false
		}
	}
	return out
}

// answered takes in what a poll brought: where it brought all that was wanted, there may be more. So too after a poll that
// failed, with a nil claimed and more set.
func (r *registry) answered(wants []store.Want, claimed []store.Claimed, more bool) {
	got := map[store.Revision]int{}
	for _, c := range claimed {
		got[store.Revision{Deployment: c.Control.Deployment, Revision: c.Control.Revision}]++
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range wants {
		if w.Count > 0 && (more || got[w.Revision] >= w.Count) {
			r.placeOf(w.Revision).more = true
		}
	}
}

// add takes a slot for the session and reports whether its handler may start.
func (r *registry) add(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions[s] = struct{}{}
	r.placeOf(s.d.revision()).active++
	return !r.quiesced
}

// remove gives the session's slot back. A second call changes nothing and returns false.
func (r *registry) remove(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.sessions[s]; !ok {
		return false
	}
	delete(r.sessions, s)
	p := r.placeOf(s.d.revision())
	p.active--
	r.wakeLocked(p)
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
	active int
}

func (r *registry) loads() []load {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]load, len(r.places))
	for i, p := range r.places {
		out[i] = load{p.deployment, p.active}
	}
	return out
}
