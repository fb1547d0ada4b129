package memory

import (
	"context"
	"slices"

	"github.com/windrow-run/windrow/internal/store"
)

// doorbells are those who listen.
type doorbells map[*listener]struct{}

// listener holds what it has not been told yet: each revision once, so it never holds more than there are revisions.
type listener struct {
	pending []store.Revision
	news    chan struct{}
}

func (d doorbells) ring(r store.Revision) {
	for l := range d {
		if !slices.Contains(l.pending, r) {
			l.pending = append(l.pending, r)
		}
		signal(l.news)
	}
}

// Listen implements [store.Store]. It returns nil when ctx ends.
func (s *Store) Listen(ctx context.Context, ring func(store.Revision)) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	l := &listener{news: make(chan struct{}, 1)}
	s.subscribe(l)
	defer s.unsubscribe(l)
	ring(store.Revision{})
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.closed:
			return errClosed()
		case <-l.news:
			for _, r := range s.take(l) {
				ring(r)
			}
		}
	}
}

func (s *Store) subscribe(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bells[l] = struct{}{}
}

func (s *Store) unsubscribe(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bells, l)
}

func (s *Store) take(l *listener) []store.Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	pending := l.pending
	l.pending = nil
	return pending
}
