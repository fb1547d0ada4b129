package memory

import (
	"cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// index is everything that is found otherwise than by id. It is derived from controls, in follow alone.
type index struct {
	terminalTTL int64 // milliseconds
	streamTTL   int64
	revisions   map[store.Revision]*revision
	nonterminal map[string]int64 // by deployment: what admission ceilings are compared with
	owned       map[string]int64 // by owner, those admitted under a ceiling
	leases      *agenda          // running, by the end of the lease
	waits       *agenda          // queued or waiting, by expiry
	ended       *agenda          // terminal, by the end of retention
	shelf       shelf            // all, for those who list them
	logs        *agenda          // terminal, by the end of the event log's retention
}

// revision is what is known of one revision.
type revision struct {
	ready       *agenda // may be claimed, by rank
	delayed     *agenda // queued, not yet moved to ready
	solitary    *agenda // on its last chance, by the time since when
	turn        turn    // who is to become empty for it
	nonterminal int64
	waiting     int64
	servedAt    int64
}

// turn is a worker's, for a while.
type turn struct {
	worker string
	until  int64
}

func newIndex(l store.Limits) *index {
	return &index{
		terminalTTL: l.TerminalTTL.Milliseconds(),
		streamTTL:   l.StreamTTL.Milliseconds(),
		revisions:   map[store.Revision]*revision{},
		nonterminal: map[string]int64{},
		owned:       map[string]int64{},
		leases:      newAgenda(),
		waits:       newAgenda(),
		ended:       newAgenda(),
		logs:        newAgenda(),
	}
}

func revisionOf(c execution.Control) store.Revision {
	return store.Revision{Deployment: c.Deployment, Revision: c.Revision}
}

func (x *index) revision(name store.Revision) *revision {
	r := x.revisions[name]
	if r == nil {
		r = &revision{ready: newAgenda(), delayed: newAgenda(), solitary: newAgenda()}
		x.revisions[name] = r
	}
	return r
}

// follow moves an execution from where its control stood to where it stands, and counts. The zero control stands nowhere.
// It reports whether the doorbell of the revision is to be rung.
func (x *index) follow(before, after execution.Control, now execution.Instant) (ring bool) {
	if after.Status == execution.Running {
		x.leases.put(after.ID, after.LeaseUntil)
	}
	if before.Status == after.Status && before.Revision == after.Revision {
		return false
	}
	if before.Status == "" {
		x.shelf.put(after)
	}
	held := x.placeOf(before)
	x.leave(before)
	x.count(before, -1)
	x.count(after, 1)
	if at := after.Expiry(); at != 0 {
		x.waits.put(after.ID, at)
	}
	switch {
	case after.Status == execution.Queued:
		return x.revision(revisionOf(after)).enqueue(after, now.Millis(), held)
	case after.Status.Terminal():
		x.ended.put(after.ID, now.Millis()+x.terminalTTL)
		x.logs.put(after.ID, now.Millis()+x.streamTTL)
	}
	return false
}

// placeOf is the place among what may be claimed of an execution that keeps it, since it is moved to another revision; 0: none.
func (x *index) placeOf(c execution.Control) int64 {
	if c.Status != execution.Queued {
		return 0
	}
	r := x.revision(revisionOf(c))
	for _, a := range []*agenda{r.ready, r.solitary} {
		if d := a.byID[c.ID]; d != nil {
			return d.at
		}
	}
	return 0
}

// stands reports whether an execution that is idle is counted as such: a poll leaves to maintenance what is over.
func (x *index) stands(c execution.Control) bool {
	_, delayed := x.revision(revisionOf(c)).delayed.byID[c.ID]
	return c.Status == execution.Waiting || delayed || x.placeOf(c) != 0
}

func (x *index) leave(c execution.Control) {
	x.waits.drop(c.ID)
	switch {
	case c.Status == execution.Queued:
		r := x.revision(revisionOf(c))
		r.ready.drop(c.ID)
		r.delayed.drop(c.ID)
		r.solitary.drop(c.ID)
	case c.Status == execution.Running:
		x.leases.drop(c.ID)
	case c.Status.Terminal():
		x.ended.drop(c.ID)
		x.logs.drop(c.ID)
	}
}

// count adds to the counters of unfinished work what the control stands for.
func (x *index) count(c execution.Control, n int64) {
	if c.Status == "" || c.Status.Terminal() {
		return
	}
	r := x.revision(revisionOf(c))
	r.nonterminal += n
	if c.Status == execution.Waiting {
		r.waiting += n
	}
	x.nonterminal[c.Deployment] += n
	if x.nonterminal[c.Deployment] == 0 {
		delete(x.nonterminal, c.Deployment)
	}
}

// enqueue enters a queued execution and reports whether a sleeping worker must hear of it: nothing was due before, and it
// is due now or sooner than all that was known. One that was queued already keeps the place that it held; 0: it had none.
func (r *revision) enqueue(c execution.Control, now, held int64) (ring bool) {
	if c.AvailableAt <= now && c.LastChance() {
		return r.isolate(c.ID, cmp.Or(held, now))
	}
	_, next, delayed := r.delayed.first()
	quiet := r.ready.len() == 0 && !(delayed && next <= now)
	if c.AvailableAt <= now { // also when it names no time
		r.ready.put(c.ID, cmp.Or(held, c.Rank(now)))
		return quiet
	}
	r.delayed.put(c.ID, c.AvailableAt)
	return quiet && (!delayed || c.AvailableAt < next)
}

// isolate enters an execution on its last chance, which only a process that runs nothing else claims, and reports whether a
// sleeping worker must hear of it.
func (r *revision) isolate(id string, now int64) (ring bool) {
	r.solitary.put(id, now)
	return r.solitary.len() == 1
}

// heldSince is since when the one waits that has waited longest for a process that runs nothing else: from now on, where the
// clock was set back since it came.
func (r *revision) heldSince(now int64) (since int64, held bool) {
	id, since, held := r.solitary.first()
	if since > now {
		since = now
		r.solitary.put(id, now)
	}
	return since, held
}

// yields reports whether it is this worker's turn to become empty. Nobody else takes it for as long as lease; one that lasts for
// longer than the longest lease was taken before the clock was set back.
func (r *revision) yields(worker string, now, lease, longest int64) bool {
	if r.turn.worker != worker && r.turn.until > now && r.turn.until-now <= max(lease, longest) {
		return false
	}
	r.turn = turn{worker, now + max(lease, 1)}
	return true
}

// promote moves what has fallen due, as much as may be claimed, from delayed to ready. rank tells the place of one that is due
// since then.
func (r *revision) promote(now int64, most int, rank func(id string, since int64) int64) {
	for range most {
		id, at, ok := r.delayed.due(now)
		if !ok {
			return
		}
		r.delayed.drop(id)
		r.ready.put(id, rank(id, at))
	}
}

// overdue reports whether there is maintenance to do.
func (x *index) overdue(now int64) bool {
	for _, a := range []*agenda{x.leases, x.waits, x.ended} {
		if _, _, ok := a.due(now); ok {
			return true
		}
	}
	return false
}

// prune forgets revisions that hold nothing and that nobody served for as long as an ended execution is kept.
func (x *index) prune(now int64) {
	for name, r := range x.revisions {
		if r.nonterminal == 0 && r.servedAt+x.terminalTTL <= now {
			delete(x.revisions, name)
		}
	}
}
