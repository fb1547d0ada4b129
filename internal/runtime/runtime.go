package runtime

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/store"
)

// Params of a runtime.
type Params struct {
	Store       store.Store
	Deployments []handler.Deployment
	Settings    Settings
	// Worker names this process to the store, at most 32 bytes and unlike any other's; empty: a random name.
	Worker string
	// Compact checks that a document is strict JSON and returns it without insignificant white space.
	Compact func(document []byte) ([]byte, error)
	// CompileSchema makes a Schema from a JSON Schema. Its error goes to the log only.
	CompileSchema func(schema []byte) (handler.Schema, error)
	// Feed begins to tell of an attempt of an execution; nil: nobody wants to know.
	Feed    func(id string, attempt int64) Feed
	Logger  *slog.Logger // nil: nothing is logged
	Metrics Metrics      // nil: nothing is measured
}

// Runtime runs the executions of its deployments. Its methods are safe for concurrent use.
type Runtime struct {
	deps
	loops      []*loop // end when the runtime is quiesced
	claimer    *claimer
	listener   *listener
	beating    *loop // ends last
	outages    *outages
	waits      *waits
	health     *health
	overview   *overview
	intake     context.Context // until the runtime is quiesced
	stopIntake context.CancelFunc
	closing    context.Context // until Close, or the end of Run's context
	close      context.CancelFunc
	giveUp     context.CancelFunc // ends every exchange about a claim

	mu      sync.Mutex // guards the following
	started bool
	closed  *closure
}

// New checks the parameters and makes a runtime. It starts nothing and does not touch the store.
func New(p Params) (*Runtime, error) {
	p, deployments, err := p.complete()
	if err != nil {
		return nil, fmt.Errorf("runtime: %w", err)
	}
	r := &Runtime{waits: newWaits()}
	r.deps = deps{Params: p, registry: newRegistry(deployments), clock: newClock(), beats: newSignal(),
		schemas: newSchemas(p.CompileSchema)}
	r.base, r.giveUp = context.WithCancel(context.Background())
	r.intake, r.stopIntake = context.WithCancel(context.Background())
	r.closing, r.close = context.WithCancel(context.Background())
	r.wire(deployments)
	return r, nil
}

// complete returns a copy with every default filled in, and the deployments as they will run.
func (p Params) complete() (Params, []*deployment, error) {
	switch {
	case p.Store == nil:
		return p, nil, errors.New("no store")
	case p.Compact == nil:
		return p, nil, errors.New("no check of JSON")
	case p.CompileSchema == nil:
		return p, nil, errors.New("no compiler of schemas")
	case len(p.Worker) > 32:
		return p, nil, fmt.Errorf("worker: %d bytes are over 32", len(p.Worker))
	}
	if p.Worker == "" {
		p.Worker = token()
	}
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	if p.Feed == nil {
		p.Feed = func(string, int64) Feed { return noFeed{} }
	}
	if p.Metrics == nil {
		p.Metrics = noMetrics{}
	}
	p.Settings = p.Settings.WithDefaults()
	if err := p.Settings.validate(); err != nil {
		return p, nil, err
	}
	deployments, err := newDeployments(p.Deployments, p.Settings)
	if err != nil {
		return p, nil, err
	}
	return p, deployments, checkShares(deployments, p.Store.Partitions())
}

// token is a text of 80 random bits, which nobody has drawn before. It travels with every command.
func token() string { return rand.Text()[:16] }

// checkShares refuses a ceiling that can't be kept: each partition needs a share of at least one, since a submission with a key
// has no other partition to go to.
func checkShares(all []*deployment, partitions int) error {
	for _, d := range all {
		if d.maxNonterminal > 0 && d.maxNonterminal < int64(partitions) {
			return fmt.Errorf("deployment %q: a ceiling of %d unfinished executions is below the %d partitions, each of which has a share of "+
				"at least one: raise the ceiling", d.Name, d.maxNonterminal, partitions)
		}
	}
	return nil
}

// wire makes the components and their loops.
func (r *Runtime) wire(deployments []*deployment) {
	slots, shortest := 0, r.Settings.Lease
	for _, d := range deployments {
		slots += d.slots
		shortest = min(shortest, d.lease)
	}
	r.Metrics.SetSlots(slots)
	r.outages = newOutages(r.Logger, r.Metrics)
	maintaining, claiming, listening := r.newLoop("maintainer"), r.newLoop("claimer"), r.newLoop("listener")
	m := &maintainer{store: r.Store, registry: r.registry, loop: maintaining, metrics: r.Metrics, settings: r.Settings,
		safety: max(r.Settings.MaintenanceInterval, shortest), wake: newSignal()}
	r.claimer = &claimer{store: r.Store, registry: r.registry, clock: r.clock, loop: claiming, metrics: r.Metrics,
		settings: r.Settings, worker: r.Worker, lease: shortest, base: r.base, start: r.begin, overdue: m.tell}
	r.listener = &listener{store: r.Store, registry: r.registry, loop: listening}
	maintaining.run, claiming.run, listening.run = m.Run, r.claimer.Run, r.listener.Run
	r.beating = r.newLoop("beater")
	b := &beater{store: r.Store, registry: r.registry, clock: r.clock, loop: r.beating, settings: r.Settings,
		wake: r.beats, base: r.base}
	r.beating.run = b.Run
	r.loops = []*loop{claiming, listening, maintaining}
	r.health, r.overview = newHealth(r), &overview{turn: make(chan struct{}, 1)}
}

func (r *Runtime) newLoop(name string) *loop {
	return &loop{name: name, log: r.Logger, metrics: r.Metrics, outages: r.outages,
		backoff: backoff{r.Settings.BackoffMin, r.Settings.BackoffMax}}
}

// begin starts a session for what a poll has claimed.
func (r *Runtime) begin(c claim) {
	rev := store.Revision{Deployment: c.Control.Deployment, Revision: c.Control.Revision}
	place := r.registry.placeOf(rev)
	if place == nil {
		r.Logger.Error("claimed a revision that is not served here", "execution", c.Control.ID, "deployment", rev.Deployment,
			"revision", rev.Revision)
		return
	}
	s := newSession(&r.deps, place.deployment, c)
	start := r.registry.add(s)
	if c.solitary {
		s.log.Info("nothing else is claimed until this attempt has ended: the next lost lease would fail it")
	}
	go s.run(start)
}

// wakeFor has the claimer look for work that this process has just made due, where the store's doorbell is not heard now.
func (r *Runtime) wakeFor(c execution.Control) {
	if c.Status == execution.Queued && !r.listener.subscribed.Load() {
		r.registry.ring(store.Revision{Deployment: c.Deployment, Revision: c.Revision})
	}
}

// exchange bounds one exchange on behalf of a caller.
func (r *Runtime) exchange(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.Settings.ExchangeTimeout)
}
