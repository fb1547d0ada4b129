package redis

import (
	"context"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// decisions is how often a command is decided anew because the control moved on. Only a cancel, once, and this worker's own
// commands move it, so that the second try settles it.
const decisions = 4

// Transition implements [store.Store].
func (s *Store) Transition(ctx context.Context, control execution.Control, cmd execution.Command) (store.Transitioned, error) {
	partition, err := s.locate(control.ID)
	if err != nil {
		return store.Transitioned{}, lost("the execution is gone")
	}
	for range decisions {
		p, err := execution.Decide(control, cmd, 0)
		if err != nil {
			return store.Transitioned{}, err
		}
		if p.Guard.Kind != execution.GuardOwned {
			return store.Transitioned{}, execution.Errorf(execution.CodeInvalidTransition, "%s is not for the owner of a lease", execution.Name(cmd))
		}
		out, err := s.apply(ctx, partition, control, p)
		if err != nil || !out.moved {
			return store.Transitioned{Control: out.control, Log: out.log, Untold: out.untold}, err
		}
		control = out.control
	}
	return store.Transitioned{}, execution.Errorf(execution.CodeUnavailable, "the execution changes too fast")
}

func lost(message string) error { return execution.Errorf(execution.CodeLeaseLost, "%s", message) }

// applied is what became of a plan. moved: nothing was written, since the control is not the one that the plan was made from.
type applied struct {
	control execution.Control
	log     []execution.Entry // what it left in the event log
	untold  bool              // it was carried out before, and may have left entries that log does not tell of
	moved   bool
	stale   bool // nothing was written, since what the plan is for is no longer so
}

// apply carries out one plan with a guard, made from that control.
func (s *Store) apply(ctx context.Context, partition int, c execution.Control, p execution.Plan) (applied, error) {
	r := s.shared(ctx, s.applying[partition], packApply(c.ID, p), s.data(p))
	if r.err != nil {
		s.history.forget(c.ID)
		return applied{}, r.err
	}
	out, err := s.decodeApplied(c, p, r.value)
	if out.moved {
		return out, err // nothing was changed
	}
	return acknowledged(r, out, err)
}

func (s *Store) applyCall(partition int, id string, p execution.Plan) call {
	var head packer
	packApply(id, p)(head.array(3), 2)
	return call{script: s.scripts.apply, anchor: s.keys.anchor(partition), args: append([]any{head.bytes()}, s.data(p)...)}
}

// packApply adds a plan for an execution as lua/apply.lua reads it.
func packApply(id string, p execution.Plan) func(head *packer, at int) {
	return func(head *packer, at int) {
		head.text(id).plan(p)
		head.number(int64(at))
	}
}

// decodeApplied reads what became of a plan that was made from the control. Where it was carried out, the guard held that very
// version, so that the plan says what it has become, but for what changes without a version.
func (s *Store) decodeApplied(from execution.Control, p execution.Plan, v any) (applied, error) {
	id := from.ID
	r := readPacked(v)
	outcome, now := r.text(), r.instant()
	switch {
	case r.err != nil:
		return applied{}, r.fault()
	case outcome == "missing":
		s.history.forget(id)
		return applied{}, lost("the execution is gone")
	case !r.more():
		return applied{}, refused(outcome)
	}
	if outcome == "ok" {
		c, ids := p.Apply(from, now), r.list()
		c.LeaseUntil, c.WatchedUntil, c.LogEpoch = r.number(), r.number(), r.text()
		log := logged(p, c, s.history.chunks, ids)
		r.failed(ids)
		s.history.applied(c, log)
		return applied{control: c, log: log}, r.fault()
	}
	c := r.control()
	if r.err != nil {
		return applied{}, r.fault()
	}
	switch outcome {
	case "done":
		s.history.forget(id)
		repeated, _ := c.Repeated(p.Guard.Operation)
		return applied{control: repeated, untold: true}, nil
	case "moved":
		return applied{control: c, moved: true}, nil
	case "stale":
		return applied{control: c, stale: true}, nil
	case "lost":
		s.history.forget(id)
		return applied{}, lost("the execution is owned by another attempt, or the lease has run out")
	}
	return applied{}, refused(outcome)
}

// logged is what a plan left in the event log under these ids, given the control after: its progress, at most as many events as
// the log keeps, then the change of status.
func logged(p execution.Plan, after execution.Control, most int, ids *reader) []execution.Entry {
	var entries []execution.Entry
	for _, e := range p.Progress[max(0, len(p.Progress)-most):] {
		entries = append(entries, execution.Entry{ID: ids.logID(), Kind: execution.EntryProgress, Data: e})
	}
	if ids.more() {
		e := p.StatusEntry(after)
		e.ID = ids.logID()
		entries = append(entries, e)
	}
	return entries
}

// Cancel implements [store.Store].
func (s *Store) Cancel(ctx context.Context, id string, scope store.Scope, reason string) (store.Record, error) {
	partition, err := s.locate(id)
	if err != nil {
		return store.Record{}, err
	}
	var head packer
	head.array(6).text(id).flag(scope.All).text(scope.Owner)
	var args []any
	for _, status := range []execution.Status{execution.Queued, execution.Running, execution.Waiting} {
		p, err := execution.Decide(execution.Control{Status: status}, execution.Cancel{Reason: reason, Actor: scope.By}, 0)
		if err != nil {
			return store.Record{}, err
		}
		head.plan(p)
		args = s.data(p) // the reason, the same in every phase
	}
	r := s.change(ctx, s.scripts.cancel, partition, append([]any{head.bytes()}, args...)...)
	if r.err != nil {
		return store.Record{}, r.err
	}
	record, err := decodeRecord(r.value)
	return acknowledged(r, record, err)
}

// decodeRecord reads {outcome, now, view}.
func decodeRecord(v any) (store.Record, error) {
	r := read(v)
	outcome, now := r.text(), r.instant()
	switch {
	case r.err != nil:
		return store.Record{}, r.fault()
	case outcome != "ok":
		return store.Record{}, refused(outcome)
	}
	rec := r.record(now)
	return rec, r.fault()
}
