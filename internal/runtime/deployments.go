package runtime

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// Deployment is a kind of work as it stands over all processes.
type Deployment struct {
	Name        string
	Revision    string // under which this process submits; empty: it does not serve the deployment
	Input       []byte // JSON Schema of the inputs of that revision; nil: any, or not known here
	Limit       int64  // of unfinished executions; 0: none; negative: not known here
	Nonterminal int64
	Revisions   []RevisionState // by their names
}

// RevisionState is a revision as it stands over all processes.
type RevisionState struct {
	store.RevisionCount
	Running int64
	Served  bool           // by some process, in the last three poll intervals, or by this one
	Workers []store.Worker // who does, the newest first; without their revisions
}

// Stranded reports whether there is unfinished work and nobody who would take it up.
func (s RevisionState) Stranded() bool { return s.Nonterminal > 0 && !s.Served }

// overview is read at most once in a while, for all who ask.
type overview struct {
	turn chan struct{} // guards the following; a channel, since a reader of the store holds it
	last []Deployment
	at   time.Time
}

// Deployments are all that this process serves, that have unfinished work, or that somebody served of late, by their names. The
// answer is shared, at most a second old, and must not be changed. Errors: CodeUnavailable.
func (r *Runtime) Deployments(ctx context.Context) ([]Deployment, error) {
	d := r.overview
	d.turn <- struct{}{}
	defer func() { <-d.turn }()
	if !d.at.IsZero() && time.Since(d.at) < healthAge {
		return d.last, nil
	}
	all, err := r.survey(context.WithoutCancel(ctx))
	if err == nil {
		d.last, d.at = all, time.Now()
	}
	return all, err
}

func (r *Runtime) survey(ctx context.Context) ([]Deployment, error) {
	ctx, cancel := r.exchange(ctx)
	defer cancel()
	counts, err := r.Store.Counts(ctx)
	if err != nil {
		return nil, err
	}
	workers, err := r.Store.Workers(ctx)
	if err != nil {
		return nil, err
	}
	live := r.live(workers)
	byName := map[string]*Deployment{}
	of := func(name string) *Deployment {
		if byName[name] == nil {
			byName[name] = &Deployment{Name: name, Limit: -1}
		}
		return byName[name]
	}
	for _, p := range r.registry.places {
		d := of(p.Name)
		d.Revision, d.Limit = p.Revision, p.maxNonterminal
		if p.Input != nil {
			d.Input = p.Input.JSON()
		}
		if !slices.ContainsFunc(counts.Revisions, func(c store.RevisionCount) bool { return c.Revision == p.revision() }) {
			counts.Revisions = append(counts.Revisions, store.RevisionCount{Revision: p.revision()})
		}
	}
	for _, c := range counts.Revisions {
		d := of(c.Deployment)
		d.Nonterminal += c.Nonterminal
		d.Revisions = append(d.Revisions, RevisionState{RevisionCount: c, Served: r.served(c, counts.Now), Workers: live[c.Revision],
			Running: max(c.Nonterminal-c.Ready-c.Delayed-c.Waiting, 0)})
	}
	return inOrder(byName), nil
}

func inOrder(byName map[string]*Deployment) []Deployment {
	out := make([]Deployment, 0, len(byName))
	for _, d := range byName {
		slices.SortFunc(d.Revisions, func(a, b RevisionState) int { return cmp.Compare(a.Revision.Revision, b.Revision.Revision) })
		out = append(out, *d)
	}
	slices.SortFunc(out, func(a, b Deployment) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// served reports whether some process takes up work of a revision: this one, or one that polled of late.
func (r *Runtime) served(c store.RevisionCount, now execution.Instant) bool {
	here := r.registry.placeOf(c.Revision) != nil && !r.registry.isQuiesced()
	return here || c.ServedAt > 0 && c.ServedAt >= r.recent(now)
}

// recent is the time since when a process must have polled to count as one that is there.
func (r *Runtime) recent(now execution.Instant) int64 {
	return now.Millis() - servedWithin*r.Settings.PollInterval.Milliseconds()
}

// live are the processes that polled of late, by what they serve, the newest first.
func (r *Runtime) live(workers store.Workers) map[store.Revision][]store.Worker {
	out, seen := map[store.Revision][]store.Worker{}, map[store.Revision]map[string]bool{}
	for _, w := range workers.Seen {
		if w.SeenAt < r.recent(workers.Now) {
			continue
		}
		for _, rev := range w.Revisions {
			if seen[rev] == nil {
				seen[rev] = map[string]bool{}
			}
			if !seen[rev][w.Name] {
				seen[rev][w.Name] = true
				out[rev] = append(out[rev], store.Worker{Name: w.Name, SeenAt: w.SeenAt})
			}
		}
	}
	return out
}
