package faultstore

import (
	"context"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// Submit implements [store.Store].
func (s *Store) Submit(ctx context.Context, sub store.Submission) (store.Submitted, error) {
	return call(ctx, s.next(Submit, ""), func() (store.Submitted, error) { return s.Store.Submit(ctx, sub) })
}

// FindKey implements [store.Store].
func (s *Store) FindKey(ctx context.Context, key store.Key) (store.Submitted, error) {
	return call(ctx, s.next(FindKey, ""), func() (store.Submitted, error) { return s.Store.FindKey(ctx, key) })
}

// Poll implements [store.Store].
func (s *Store) Poll(ctx context.Context, r store.PollRequest) (store.Polled, error) {
	return call(ctx, s.next(Poll, ""), func() (store.Polled, error) { return s.Store.Poll(ctx, r) })
}

// Transition implements [store.Store].
func (s *Store) Transition(ctx context.Context, c execution.Control, cmd execution.Command) (store.Transitioned, error) {
	return call(ctx, s.next(Transition, execution.Name(cmd)), func() (store.Transitioned, error) {
		return s.Store.Transition(ctx, c, cmd)
	})
}

// Beat implements [store.Store].
func (s *Store) Beat(ctx context.Context, beats []store.Beat) ([]store.Beaten, error) {
	return call(ctx, s.next(Beat, ""), func() ([]store.Beaten, error) { return s.Store.Beat(ctx, beats) })
}

// Resume implements [store.Store].
func (s *Store) Resume(ctx context.Context, r store.ResumeRequest) (store.Resumed, error) {
	return call(ctx, s.next(Resume, ""), func() (store.Resumed, error) { return s.Store.Resume(ctx, r) })
}

// Cancel implements [store.Store].
func (s *Store) Cancel(ctx context.Context, id string, scope store.Scope, reason string) (store.Record, error) {
	return call(ctx, s.next(Cancel, ""), func() (store.Record, error) { return s.Store.Cancel(ctx, id, scope, reason) })
}

// Maintain implements [store.Store].
func (s *Store) Maintain(ctx context.Context, limit int) (store.Maintained, error) {
	return call(ctx, s.next(Maintain, ""), func() (store.Maintained, error) { return s.Store.Maintain(ctx, limit) })
}

// Displace implements [store.Store].
func (s *Store) Displace(ctx context.Context, rev store.Revision, cmd execution.Command) (store.Displaced, error) {
	return call(ctx, s.next(Displace, ""), func() (store.Displaced, error) { return s.Store.Displace(ctx, rev, cmd) })
}

// Erase implements [store.Store].
func (s *Store) Erase(ctx context.Context, id string, scope store.Scope) (store.Erased, error) {
	return call(ctx, s.next(Erase, ""), func() (store.Erased, error) { return s.Store.Erase(ctx, id, scope) })
}

// EraseOwner implements [store.Store].
func (s *Store) EraseOwner(ctx context.Context, owner string) (store.Erased, error) {
	return call(ctx, s.next(EraseOwner, ""), func() (store.Erased, error) { return s.Store.EraseOwner(ctx, owner) })
}

// Read implements [store.Store].
func (s *Store) Read(ctx context.Context, r store.ReadRequest) (store.Record, error) {
	return call(ctx, s.next(Read, ""), func() (store.Record, error) { return s.Store.Read(ctx, r) })
}

// List implements [store.Store].
func (s *Store) List(ctx context.Context, r store.ListRequest) (store.Listed, error) {
	return call(ctx, s.next(List, ""), func() (store.Listed, error) { return s.Store.List(ctx, r) })
}

// Controls implements [store.Store].
func (s *Store) Controls(ctx context.Context, ids []string) ([]execution.Control, error) {
	return call(ctx, s.next(Controls, ""), func() ([]execution.Control, error) { return s.Store.Controls(ctx, ids) })
}

// Tail implements [store.Store]. Reads of the tail are subject to faults of TailRead.
func (s *Store) Tail(ctx context.Context, partition int) (store.Tail, error) {
	return call(ctx, s.next(Tail, ""), func() (store.Tail, error) {
		t, err := s.Store.Tail(ctx, partition)
		if err != nil {
			return nil, err
		}
		return &tail{t, s}, nil
	})
}

// Listen implements [store.Store]. A lost reply is a subscription that breaks off when it ends.
func (s *Store) Listen(ctx context.Context, ring func(store.Revision)) error {
	return run(ctx, s.next(Listen, ""), func() error { return s.Store.Listen(ctx, ring) })
}

// Counts implements [store.Store].
func (s *Store) Counts(ctx context.Context) (store.Counts, error) {
	return call(ctx, s.next(Counts, ""), func() (store.Counts, error) { return s.Store.Counts(ctx) })
}

// Workers implements [store.Store].
func (s *Store) Workers(ctx context.Context) (store.Workers, error) {
	return call(ctx, s.next(Workers, ""), func() (store.Workers, error) { return s.Store.Workers(ctx) })
}

// Check implements [store.Store].
func (s *Store) Check(ctx context.Context) error {
	return run(ctx, s.next(Check, ""), func() error { return s.Store.Check(ctx) })
}

type tail struct {
	store.Tail
	faults *Store
}

// Read implements [store.Tail].
func (t *tail) Read(ctx context.Context, logs []store.Position, wait time.Duration) ([]store.Entries, error) {
	return call(ctx, t.faults.next(TailRead, ""), func() ([]store.Entries, error) { return t.Tail.Read(ctx, logs, wait) })
}
