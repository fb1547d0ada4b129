package memory

import (
	"context"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// Transition implements [store.Store]. It decides against the stored control; the caller's tells whether the command makes
// sense at all, as it does for a store that can't look first.
func (s *Store) Transition(ctx context.Context, control execution.Control, cmd execution.Command) (store.Transitioned, error) {
	if err := s.ready(ctx); err != nil {
		return store.Transitioned{}, err
	}
	p, err := execution.Decide(control, cmd, 0)
	if err != nil {
		return store.Transitioned{}, err
	}
	if p.Guard.Kind != execution.GuardOwned {
		return store.Transitioned{}, execution.Errorf(execution.CodeInvalidTransition, "%s is not for the owner of a lease", execution.Name(cmd))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.items[control.ID]
	if it == nil {
		return store.Transitioned{}, execution.Errorf(execution.CodeLeaseLost, "the execution is gone")
	}
	if c, ok := it.control.Repeated(p.Guard.Operation); ok {
		return store.Transitioned{Control: c, Untold: true}, nil
	}
	now := s.clock()
	if p, err = execution.Decide(it.control, cmd, now); err != nil {
		return store.Transitioned{}, err
	}
	before := it.log.last
	s.commit(it, p, now)
	return store.Transitioned{Control: it.control, Log: it.log.after(before)}, nil
}

// Beat implements [store.Store].
func (s *Store) Beat(ctx context.Context, beats []store.Beat) ([]store.Beaten, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	out := make([]store.Beaten, len(beats))
	for i, b := range beats {
		out[i] = s.beat(b, now)
	}
	return out, nil
}

func (s *Store) beat(b store.Beat, now execution.Instant) store.Beaten {
	it := s.items[b.ID]
	if it == nil {
		return store.Beaten{Err: execution.Errorf(execution.CodeLeaseLost, "the execution is gone"), Now: now}
	}
	if err := execution.CheckOwner(it.control, b.Ownership, now); err != nil {
		return store.Beaten{Err: err, Now: now}
	}
	if b.Lease > 0 {
		before := it.control
		it.control.LeaseUntil = now.Millis() + millis(b.Lease)
		s.index.follow(before, it.control, now)
	}
	c := it.control
	out := store.Beaten{Version: c.Version, LeaseUntil: c.LeaseUntil, Canceled: c.CanceledAt != 0, Now: now}
	if c := b.Chunks; c != nil && len(c.Chunks) > 0 {
		out.Log = s.stream(it, *c, b.Repeat, now)
	}
	return out
}

// millis rounds up, as plans do.
func millis(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

// Resume implements [store.Store].
func (s *Store) Resume(ctx context.Context, r store.ResumeRequest) (store.Resumed, error) {
	if err := s.ready(ctx); err != nil {
		return store.Resumed{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	it, err := s.find(r.ID, r.Scope)
	if err != nil {
		return store.Resumed{}, err
	}
	if digest, ok := it.answers[r.Key]; ok && r.Key != "" {
		if digest != r.Digest {
			return store.Resumed{}, errKeyReused()
		}
		return store.Resumed{Record: s.record(it, now), Replayed: true}, nil
	}
	return s.answer(it, r, now)
}

// answer applies an answer that was checked against the open wait, and asks for a check of any other.
func (s *Store) answer(it *item, r store.ResumeRequest, now execution.Instant) (store.Resumed, error) {
	c := it.control
	sequence := r.Sequence
	if sequence == 0 {
		sequence = c.WaitSequence
	}
	p, err := execution.Decide(c, execution.Resume{Sequence: sequence, Answer: r.Answer, Actor: r.Scope.By}, now)
	if err != nil {
		return store.Resumed{}, err
	}
	if r.Checked != c.WaitSequence {
		return store.Resumed{Record: s.record(it, now), Unchecked: true}, nil
	}
	if r.Key != "" {
		it.answers[r.Key] = r.Digest
	}
	s.commit(it, p, now)
	return store.Resumed{Record: s.record(it, now)}, nil
}

// Cancel implements [store.Store].
func (s *Store) Cancel(ctx context.Context, id string, scope store.Scope, reason string) (store.Record, error) {
	if err := s.ready(ctx); err != nil {
		return store.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	it, err := s.find(id, scope)
	if err != nil {
		return store.Record{}, err
	}
	p, err := execution.Decide(it.control, execution.Cancel{Reason: reason, Actor: scope.By}, now)
	if err != nil {
		return store.Record{}, err
	}
	s.commit(it, p, now)
	return s.record(it, now), nil
}

// stream appends chunks, beginning the log with the first, unless it is a repeat of what stands there. It returns their entry.
func (s *Store) stream(it *item, b execution.ChunkBatch, repeat bool, now execution.Instant) []execution.Entry {
	if repeat {
		if there := it.log.holds(b); there != nil {
			return there
		}
	}
	if it.control.LogEpoch == "" {
		it.control.LogEpoch = execution.NewLogEpoch(now)
	}
	before := it.log.last
	it.log.stream(b, s.limits, now)
	for t := range s.tails[it.control.ID] {
		t.notify()
	}
	return it.log.after(before)
}
