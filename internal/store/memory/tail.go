package memory

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// tail waits for entries of logs. Its channels hold one token each, so that a signal is never lost and never blocks.
type tail struct {
	store  *Store
	news   chan struct{} // entries were appended to a log that the present Read waits for
	wakes  chan struct{} // Wake was called
	closed chan struct{}
	close  sync.Once
}

// Tail implements [store.Store]. There is one partition, so every execution is in it.
func (s *Store) Tail(ctx context.Context, _ int) (store.Tail, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	return &tail{store: s, news: make(chan struct{}, 1), wakes: make(chan struct{}, 1), closed: make(chan struct{})}, nil
}

// Read implements [store.Tail].
func (t *tail) Read(ctx context.Context, logs []store.Position, wait time.Duration) ([]store.Entries, error) {
	defer t.leave(logs)
	if found := t.look(logs); len(found) > 0 || wait <= 0 {
		return found, nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-t.news:
			if found := t.look(logs); len(found) > 0 {
				return found, nil
			}
		case <-t.wakes:
			return nil, nil
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, nil
		case <-t.closed:
			return nil, execution.Errorf(execution.CodeUnavailable, "the tail is closed")
		case <-t.store.closed:
			return nil, errClosed()
		}
	}
}

// look returns what stands after the positions. Where there is nothing, t hears of the next entry.
func (t *tail) look(logs []store.Position) []store.Entries {
	s := t.store
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	var found []store.Entries
	for _, p := range logs {
		it := s.items[p.ID]
		if it == nil {
			continue
		}
		after := execution.LogID{Ms: p.After.Ms, Seq: p.After.Seq + 1}
		if entries := it.log.from(after, math.MaxInt, now); len(entries) > 0 {
			found = append(found, store.Entries{ID: p.ID, Entries: entries})
		}
	}
	if len(found) == 0 {
		t.join(logs)
	}
	return found
}

func (t *tail) join(logs []store.Position) {
	for _, p := range logs {
		waiting := t.store.tails[p.ID]
		if waiting == nil {
			waiting = map[*tail]struct{}{}
			t.store.tails[p.ID] = waiting
		}
		waiting[t] = struct{}{}
	}
}

func (t *tail) leave(logs []store.Position) {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	for _, p := range logs {
		delete(t.store.tails[p.ID], t)
		if len(t.store.tails[p.ID]) == 0 {
			delete(t.store.tails, p.ID)
		}
	}
}

func (t *tail) notify() { signal(t.news) }

// Wake implements [store.Tail].
func (t *tail) Wake() { signal(t.wakes) }

// Close implements [store.Tail].
func (t *tail) Close() error {
	t.close.Do(func() { close(t.closed) })
	return nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
