package memory

import (
	"context"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// Maintain implements [store.Store].
func (s *Store) Maintain(ctx context.Context, limit int) (store.Maintained, error) {
	if err := s.ready(ctx); err != nil {
		return store.Maintained{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	s.rein(now)
	var m store.Maintained
	for _, work := range []struct {
		agenda *agenda
		do     func(*item, execution.Instant, *store.Maintained) error
	}{{s.index.leases, s.recover}, {s.index.waits, s.expire}, {s.index.ended, s.retire}} {
		for range limit {
			id, _, ok := work.agenda.due(now.Millis())
			if !ok {
				break
			}
			if err := work.do(s.items[id], now, &m); err != nil {
				return m, err
			}
		}
	}
	s.forget(now)
	m.More = s.index.overdue(now.Millis())
	return m, nil
}

// rein shortens leases that lie further ahead than any that was asked for: they were set before the clock was set back.
func (s *Store) rein(now execution.Instant) {
	most := now.Millis() + s.longest
	for id, d := range s.index.leases.byID {
		if it := s.items[id]; d.at > most {
			before := it.control
			it.control.LeaseUntil = most
			s.index.follow(before, it.control, now)
		}
	}
	if s.index.leases.len() == 0 {
		s.longest = 0
	}
}

// recover takes work back from a worker whose lease has run out.
func (s *Store) recover(it *item, now execution.Instant, m *store.Maintained) error {
	p, err := execution.Decide(it.control, execution.Recover{Fence: it.control.Fence}, now)
	if err != nil {
		return err
	}
	s.commit(it, p, now)
	switch p.Status {
	case execution.Queued:
		m.Requeued++
	case execution.Failed:
		m.Failed++
	case execution.Canceled:
		m.Canceled++
	}
	return nil
}

// expire ends what is queued or waits and whose time is over.
func (s *Store) expire(it *item, now execution.Instant, m *store.Maintained) error {
	p, err := execution.Decide(it.control, execution.Expired(it.control, it.payloads[execution.PayloadWait], now), now)
	if err != nil {
		return err
	}
	s.commit(it, p, now)
	if p.Status == execution.Failed {
		m.Failed++
	} else {
		m.Defaulted++
	}
	return nil
}

// retire erases an ended execution after its retention.
func (s *Store) retire(it *item, _ execution.Instant, m *store.Maintained) error {
	s.remove(it)
	m.Removed++
	return nil
}

// forget drops what only time makes useless: batches after their leases, logs of ended executions, empty revisions.
func (s *Store) forget(now execution.Instant) {
	for worker, b := range s.batches {
		if b.until <= now.Millis() {
			delete(s.batches, worker)
		}
	}
	for {
		id, _, ok := s.index.logs.due(now.Millis())
		if !ok {
			break
		}
		s.index.logs.drop(id)
		s.items[id].log.expire(now)
	}
	s.index.prune(now.Millis())
	s.forgetWorkers(now)
}
