package redis

import (
	"context"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// Maintain implements [store.Store].
func (s *Store) Maintain(ctx context.Context, limit int) (store.Maintained, error) {
	var m store.Maintained
	left := budget{limit, limit, limit}
	for p := range s.config.Partitions {
		if err := s.maintain(ctx, p, &left, &m); err != nil {
			return m, err
		}
	}
	return m, nil
}

// budget is how much of each kind of work a pass may still do.
type budget struct{ leases, waits, ended int }

// chore is one thing to do, with what it counts as.
type chore struct {
	id      string
	plan    execution.Plan
	expired bool // a wait
}

// page is what lua/overdue.lua lists.
type page struct {
	chores                []chore
	ended                 []string
	skipLeases, skipWaits int // of a schema that this release does not know
	leases, waits         int // listed
	malformed             int
	more                  bool
}

// maintain works on one partition a page at a time, until nothing is left or the budget is spent.
func (s *Store) maintain(ctx context.Context, partition int, left *budget, m *store.Maintained) error {
	skipLeases, skipWaits := 0, 0
	for {
		pg, err := s.overdue(ctx, partition, *left, skipLeases, skipWaits)
		if err != nil {
			return err
		}
		m.Malformed += pg.malformed
		m.Skipped += pg.skipLeases + pg.skipWaits
		skipLeases, skipWaits = skipLeases+pg.skipLeases, skipWaits+pg.skipWaits
		left.leases, left.waits, left.ended = left.leases-pg.leases, left.waits-pg.waits, left.ended-len(pg.ended)
		if err := s.settle(ctx, partition, pg, m); err != nil {
			return err
		}
		idle := len(pg.chores) == 0 && len(pg.ended) == 0 && pg.skipLeases+pg.skipWaits == 0 && pg.malformed == 0
		if !pg.more || idle {
			m.More = m.More || pg.more
			return nil
		}
	}
}

// overdue lists what there is to do, and decides what to do about it.
func (s *Store) overdue(ctx context.Context, partition int, left budget, skipLeases, skipWaits int) (page, error) {
	var head packer
	head.array(5).number(int64(min(left.leases, bound))).number(int64(skipLeases))
	head.number(int64(min(left.waits, bound))).number(int64(skipWaits)).number(int64(min(left.ended, bound)))
	v, err := s.run(ctx, s.scripts.overdue, partition, head.bytes())
	if err != nil {
		return page{}, err
	}
	r := read(v)
	counts := readPacked(r.next())
	counts.instant()
	pg := page{malformed: int(counts.number()), skipLeases: int(counts.number()), skipWaits: int(counts.number()), more: counts.flag()}
	r.failed(counts)
	pg.recoveries(r)
	pg.expiries(r)
	for ended := r.list(); ended.more(); {
		pg.ended = append(pg.ended, ended.text())
	}
	return pg, r.fault()
}

// recoveries decides about leases that ran out.
func (pg *page) recoveries(r *reader) {
	list := r.list()
	for list.more() {
		id, c := list.text(), list.control()
		if list.err != nil {
			break
		}
		pg.leases++
		if p, err := execution.Decide(c, execution.Recover{Fence: c.Fence}, execution.Forever); err == nil {
			pg.chores = append(pg.chores, chore{id: id, plan: p})
		}
	}
	r.failed(list)
}

// expiries decides about waits that nobody answered. A wait that can't be read has no default answer.
func (pg *page) expiries(r *reader) {
	list := r.list()
	for list.more() {
		id, c, wait := list.text(), list.control(), list.payload()
		if list.err != nil {
			break
		}
		pg.waits++
		cmd := execution.ExpireWait{Sequence: c.WaitSequence}
		if w, err := execution.DecodeWait(wait); err == nil {
			cmd.Default = w.Default
		}
		if p, err := execution.Decide(c, cmd, execution.Forever); err == nil {
			pg.chores = append(pg.chores, chore{id: id, plan: p, expired: true})
		}
	}
	r.failed(list)
}

// settle does the chores of a page and erases what is past its retention, in one exchange.
func (s *Store) settle(ctx context.Context, partition int, pg page, m *store.Maintained) error {
	calls := make([]call, 0, len(pg.chores)+1)
	for _, c := range pg.chores {
		calls = append(calls, s.applyCall(partition, c.id, c.plan))
	}
	if len(pg.ended) > 0 {
		ids := make([]any, len(pg.ended))
		for i, id := range pg.ended {
			ids[i] = id
		}
		calls = append(calls, call{s.scripts.remove, s.keys.anchor(partition), ids})
	}
	if len(calls) == 0 {
		return nil
	}
	replies := s.exchange(ctx, calls...)
	for i, c := range pg.chores {
		if err := s.settled(c, replies[i], m); err != nil {
			return err
		}
	}
	if len(pg.ended) > 0 {
		return removed(replies[len(replies)-1], m)
	}
	return nil
}

// settled counts what became of a chore. One whose guard did not hold was seen to by somebody else.
func (s *Store) settled(c chore, rep reply, m *store.Maintained) error {
	if rep.err != nil {
		return rep.err
	}
	out, err := s.decodeApplied(c.id, c.plan, rep.value)
	switch {
	case execution.Is(err, execution.CodeUnavailable):
		return err
	case err != nil || out.moved || out.stale:
		return nil
	}
	switch {
	case out.control.Status == execution.Failed:
		m.Failed++
	case out.control.Status == execution.Canceled:
		m.Canceled++
	case c.expired:
		m.Defaulted++
	default:
		m.Requeued++
	}
	return nil
}

func removed(rep reply, m *store.Maintained) error {
	if rep.err != nil {
		return rep.err
	}
	r := readPacked(rep.value)
	m.Removed += int(r.number())
	m.Malformed += int(r.number())
	m.Skipped += int(r.number())
	return r.fault()
}
