package memory

import (
	"context"
	"slices"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// shelf keeps executions in the order of their creation, the oldest first. Nearly all that comes is put at the end.
type shelf []store.Place

// find is where a place stands, or would.
func (s shelf) find(p store.Place) (at int, there bool) {
	return slices.BinarySearchFunc(s, p, func(a, b store.Place) int { return -a.Older(b) })
}

func (s *shelf) put(c execution.Control) {
	p := store.PlaceOf(c)
	if at, there := s.find(p); !there {
		*s = slices.Insert(*s, at, p)
	}
}

func (s *shelf) drop(c execution.Control) {
	if at, there := s.find(store.PlaceOf(c)); there {
		*s = slices.Delete(*s, at, at+1)
	}
}

// List implements [store.Store].
func (s *Store) List(ctx context.Context, r store.ListRequest) (store.Listed, error) {
	if err := s.ready(ctx); err != nil {
		return store.Listed{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := store.Listed{Now: s.clock()}
	at := len(s.index.shelf)
	if from := r.Start(); from != (store.Place{}) {
		at, _ = s.index.shelf.find(from)
	}
	for at--; at >= 0 && s.index.shelf[at].CreatedAt >= r.CreatedFrom; at-- {
		place := s.index.shelf[at]
		out.Looked++
		if c := s.items[place.ID].control; r.Passes(c) {
			out.Executions = append(out.Executions, c)
		}
		switch more := at > 0 && s.index.shelf[at-1].CreatedAt >= r.CreatedFrom; {
		case !more:
			return out, nil
		case len(out.Executions) == r.Limit:
			out.Next = place
			return out, nil
		case out.Looked == r.Look(1):
			out.Next = place.Hidden()
			return out, nil
		}
	}
	return out, nil
}
