package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// Read implements [store.Store].
func (s *Store) Read(ctx context.Context, r store.ReadRequest) (store.Record, error) {
	if err := s.ready(ctx); err != nil {
		return store.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	it, err := s.find(r.ID, r.Scope)
	if err != nil {
		return store.Record{}, err
	}
	if r.Watch {
		s.watch(it, now)
	}
	out := s.record(it, now)
	switch {
	case r.LogNewest:
		out.Log = it.log.newest(now)
	case r.Log:
		out.Log = it.log.from(r.LogFrom, r.LogLimit, now)
	}
	if r.History > 0 {
		out.History = it.history.Newest(r.History)
		out.History.Entries = slices.Clone(out.History.Entries)
	}
	if r.Input {
		out.Input = it.payload(execution.PayloadInput)
	}
	return out, nil
}

// Controls implements [store.Store].
func (s *Store) Controls(ctx context.Context, ids []string) ([]execution.Control, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	out := make([]execution.Control, len(ids))
	for i, id := range ids {
		out[i].ID = id
		if it := s.items[id]; it != nil {
			s.watch(it, now)
			out[i] = it.control
		}
	}
	return out, nil
}

// watch marks the log of an unfinished execution as followed by somebody. It is no business transition.
func (s *Store) watch(it *item, now execution.Instant) {
	if !it.control.Status.Terminal() {
		it.control.WatchedUntil = now.Millis() + s.limits.WatchTTL.Milliseconds()
	}
}

// Counts implements [store.Store]. Revisions stand in the order of their names.
func (s *Store) Counts(ctx context.Context) (store.Counts, error) {
	if err := s.ready(ctx); err != nil {
		return store.Counts{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	out := store.Counts{Leases: int64(s.index.leases.len()), Now: now}
	for name, r := range s.index.revisions {
		out.Revisions = append(out.Revisions, s.counts(name, r, now.Millis()))
	}
	slices.SortFunc(out.Revisions, func(a, b store.RevisionCount) int {
		return cmp.Or(cmp.Compare(a.Deployment, b.Deployment), cmp.Compare(a.Revision.Revision, b.Revision.Revision))
	})
	return out, nil
}

func (s *Store) counts(name store.Revision, r *revision, now int64) store.RevisionCount {
	var oldest int64
	if id, rank, ok := r.ready.first(); ok {
		oldest = s.items[id].control.Since(rank)
	}
	if _, at, ok := r.solitary.first(); ok && (oldest == 0 || at < oldest) {
		oldest = at
	}
	if _, at, ok := r.delayed.due(now); ok && (oldest == 0 || at < oldest) {
		oldest = at
	}
	due := r.delayed.count(now)
	return store.RevisionCount{
		Revision:    name,
		Nonterminal: r.nonterminal,
		Ready:       int64(r.ready.len() + r.solitary.len() + due),
		Delayed:     int64(r.delayed.len() - due),
		Waiting:     r.waiting,
		OldestReady: oldest,
		ServedAt:    r.servedAt,
	}
}
