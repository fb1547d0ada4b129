package memory

import (
	"context"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// Erase implements [store.Store].
func (s *Store) Erase(ctx context.Context, id string, scope store.Scope) (store.Erased, error) {
	if err := s.ready(ctx); err != nil {
		return store.Erased{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	it, err := s.find(id, scope)
	if err != nil {
		return store.Erased{}, err
	}
	out := store.Erased{Now: s.clock()}
	s.erase(it, &out)
	return out, nil
}

// EraseOwner implements [store.Store].
func (s *Store) EraseOwner(ctx context.Context, owner string) (store.Erased, error) {
	if err := s.ready(ctx); err != nil {
		return store.Erased{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := store.Erased{Now: s.clock()}
	var its []*item
	for _, place := range s.index.shelf {
		it := s.items[place.ID]
		if it.control.Owner != owner {
			continue
		}
		if its = append(its, it); len(its) == maxClaims {
			out.More = true
			break
		}
	}
	for _, it := range its {
		s.erase(it, &out)
	}
	return out, nil
}

func (s *Store) erase(it *item, out *store.Erased) {
	out.Executions++
	if !it.control.Status.Terminal() {
		out.Unfinished++
	}
	if it.control.Status == execution.Running {
		out.Ran = append(out.Ran, it.control.ID)
	}
	if it.key != (bindingKey{}) {
		out.Keys++
	}
	s.index.count(it.control, -1)
	s.remove(it)
}
