package runtime

import (
	"context"
	"slices"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

const (
	healthAge     = time.Second // how old a shared health may be
	healthTimeout = time.Second // a read of the store that takes longer is a degraded store
	servedWithin  = 3           // polls within which a process must have said that it serves a revision
)

// States of the store.
const (
	StoreOK       = "ok"
	StoreDegraded = "degraded"
)

// Health is the state of the runtime and of its store.
type Health struct {
	Healthy     bool // every deployment is
	Draining    bool
	Store       StoreHealth
	Deployments []DeploymentHealth
	// Others are revisions with unfinished work that this process does not serve; none are known while the store is degraded.
	Others []RevisionHealth
	Loops  []LoopHealth
	At     time.Time
}

// StoreHealth is what the last read of the store showed. A store is degraded when that failed, or a condition is severe.
type StoreHealth struct {
	Status    string         // StoreOK or StoreDegraded
	Code      execution.Code // why the read failed; empty: it did not
	Since     time.Time      // when the status came to be what it is
	Latency   time.Duration  // of that read
	Malformed int64          // controls that can't be read, listed for repair
	// Conditions are what the store says of itself, whether or not it answers.
	Conditions []store.Condition
}

// DeploymentHealth is the state of a deployment in this process.
type DeploymentHealth struct {
	Name, Revision string
	Healthy        bool // it takes work, all loops run, and the store answers
	Slots          int
	Running        int // slots that take work: all, or none once the runtime is quiesced or its claimer is down
	Draining       int // attempts that still run although the runtime is quiesced
	Active         int // attempts
	ErrorStreak    int64
	Counts         *Counts // nil: the store is degraded
}

// Counts is what the store holds of a deployment, over all processes.
type Counts struct {
	Nonterminal         int64 // of all revisions
	RevisionNonterminal int64
	RevisionRunnable    int64 // queued, delayed included
	RevisionDelayed     int64 // of those, not yet due
	LeaseExpiry         int64 // running, of all deployments, by the lease index
}

// RevisionHealth is a revision that this process does not serve.
type RevisionHealth struct {
	Deployment, Revision  string
	Nonterminal, Runnable int64
	Served                bool // by some process, in the last three poll intervals
	ServedAt              time.Time
}

// LoopHealth is the state of one background component.
type LoopHealth struct {
	Name        string
	Running     bool
	Restarts    int64
	ErrorStreak int64
}

// health reads the state at most once in a while, for all who ask.
type health struct {
	runtime *Runtime
	turn    chan struct{} // guards the following; a channel, since a reader of the store holds it

	last  Health
	valid bool
}

func newHealth(r *Runtime) *health { return &health{runtime: r, turn: make(chan struct{}, 1)} }

// Health is the state as it was at most a second ago. It never fails: what the store does not tell is missing. It takes about
// a second at most, and is not cut short by ctx, since all who ask share the answer.
func (r *Runtime) Health(ctx context.Context) Health {
	h := r.health
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	if !h.valid || time.Since(h.last.At) >= healthAge {
		h.last, h.valid = r.look(context.WithoutCancel(ctx), h.last.Store), true
	}
	return h.last
}

// Ready reports whether this process should get requests: it runs, is not quiesced, and the store proves to work within a
// second. Errors: CodeDraining, CodeUnavailable.
func (r *Runtime) Ready(ctx context.Context) error {
	r.mu.Lock()
	started := r.started
	r.mu.Unlock()
	switch {
	case r.registry.isQuiesced():
		return execution.Errorf(execution.CodeDraining, "this process shuts down")
	case !started:
		return execution.Errorf(execution.CodeUnavailable, "this process has not started")
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	return r.Store.Check(ctx)
}

// Alive reports whether the process still does its work, which never depends on the store: an exchange that fails, or takes for
// ever, is given up in time. An error says that it should be started anew.
func (r *Runtime) Alive() error {
	if !r.registry.isQuiesced() && r.claimer.stuck() {
		return execution.Errorf(execution.CodeUnavailable, "this process has stopped looking for work")
	}
	return nil
}

func (r *Runtime) look(ctx context.Context, before StoreHealth) Health {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	counts, err := r.Store.Counts(ctx)
	took := time.Since(began)
	if err == nil && took > healthTimeout {
		err = execution.Errorf(execution.CodeUnavailable, "the store took %s to answer", took)
	}
	out := Health{Healthy: true, Draining: r.registry.isQuiesced(), At: time.Now(), Loops: r.loopHealth()}
	out.Store = storeHealth(before, err, r.conditions(), out.At, took)
	known := &counts
	if err != nil {
		known = nil
	} else {
		out.Store.Malformed = counts.Malformed
		out.Others = r.others(counts)
	}
	for _, l := range r.registry.loads() {
		d := r.deploymentHealth(l, out, known)
		out.Healthy = out.Healthy && d.Healthy
		out.Deployments = append(out.Deployments, d)
	}
	return out
}

// conditions are what the store says of itself, where it does.
func (r *Runtime) conditions() []store.Condition {
	if reporter, ok := r.Store.(store.Reporter); ok {
		return reporter.Conditions()
	}
	return nil
}

func storeHealth(before StoreHealth, err error, conditions []store.Condition, now time.Time, took time.Duration) StoreHealth {
	out := StoreHealth{Status: StoreOK, Code: execution.CodeOf(err), Since: before.Since, Latency: took, Conditions: conditions}
	if err != nil || slices.ContainsFunc(conditions, func(c store.Condition) bool { return c.Severe }) {
		out.Status = StoreDegraded
	}
	if out.Status != before.Status {
		out.Since = now
	}
	return out
}

func (r *Runtime) loopHealth() []LoopHealth {
	var out []LoopHealth
	for _, l := range append(slices.Clip(r.loops), r.beating) {
		out = append(out, LoopHealth{Name: l.name, Running: l.running.Load(), Restarts: l.restarts.Load(), ErrorStreak: l.streak.Load()})
	}
	return out
}

func (r *Runtime) deploymentHealth(l load, h Health, counts *store.Counts) DeploymentHealth {
	out := DeploymentHealth{Name: l.Name, Revision: l.Revision, Slots: l.slots, Active: l.active}
	up := !h.Draining
	for _, loop := range h.Loops {
		up = up && loop.Running
		out.ErrorStreak = max(out.ErrorStreak, loop.ErrorStreak)
	}
	out.Healthy = up && out.ErrorStreak == 0 && h.Store.Code == ""
	if !h.Draining && h.Loops[0].Running { // the claimer
		out.Running = l.slots
	}
	if h.Draining {
		out.Draining = l.active + l.ending
	}
	if counts != nil {
		out.Counts = countsOf(l.revision(), *counts)
	}
	return out
}

func countsOf(rev store.Revision, counts store.Counts) *Counts {
	out := &Counts{LeaseExpiry: counts.Leases}
	for _, c := range counts.Revisions {
		if c.Deployment != rev.Deployment {
			continue
		}
		out.Nonterminal += c.Nonterminal
		if c.Revision == rev {
			out.RevisionNonterminal, out.RevisionRunnable, out.RevisionDelayed = c.Nonterminal, c.Ready+c.Delayed, c.Delayed
		}
	}
	return out
}

func (r *Runtime) others(counts store.Counts) []RevisionHealth {
	var out []RevisionHealth
	recent := r.recent(counts.Now)
	for _, c := range counts.Revisions {
		if c.Nonterminal == 0 || r.registry.placeOf(c.Revision) != nil {
			continue
		}
		h := RevisionHealth{Deployment: c.Deployment, Revision: c.Revision.Revision, Nonterminal: c.Nonterminal,
			Runnable: c.Ready + c.Delayed, Served: c.ServedAt > 0 && c.ServedAt >= recent}
		if c.ServedAt > 0 {
			h.ServedAt = time.UnixMilli(c.ServedAt).UTC()
		}
		out = append(out, h)
	}
	return out
}
