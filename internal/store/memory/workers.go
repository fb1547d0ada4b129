package memory

import (
	"context"
	"slices"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// present notes who polls, and for which revisions.
func (s *Store) present(r store.PollRequest, now execution.Instant) {
	w := store.Worker{Name: r.Worker, SeenAt: now.Millis()}
	for _, want := range r.Revisions {
		w.Revisions = append(w.Revisions, want.Revision)
	}
	s.workers = append(slices.DeleteFunc(s.workers, func(old store.Worker) bool {
		return old.Name == w.Name && slices.Equal(old.Revisions, w.Revisions)
	}), w)
}

// Workers implements [store.Store].
func (s *Store) Workers(ctx context.Context) (store.Workers, error) {
	if err := s.ready(ctx); err != nil {
		return store.Workers{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := store.Workers{Seen: slices.Clone(s.workers), Now: s.clock()}
	for i := range out.Seen {
		out.Seen[i].Revisions = slices.Clone(out.Seen[i].Revisions)
	}
	store.SortWorkers(&out)
	return out, nil
}

// forgetWorkers drops those that have polled no more for long.
func (s *Store) forgetWorkers(now execution.Instant) {
	s.workers = slices.DeleteFunc(s.workers, func(w store.Worker) bool {
		return w.SeenAt <= now.Millis()-store.WorkersKept.Milliseconds()
	})
}
