package redis

import (
	"context"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// walkRounds bounds how often a pass looks at running executions alone, a hundred of a partition each time.
const walkRounds = 100

// Maintain implements [store.Store]. It works in rounds, each of one exchange that lists and one that does, over all
// partitions that have more.
func (s *Store) Maintain(ctx context.Context, limit int) (store.Maintained, error) {
	var m store.Maintained
	fronts := make([]front, s.config.Partitions)
	for p := range fronts {
		fronts[p].partition = p
	}
	left := budget{limit, limit, limit}
	for walks := 0; len(fronts) > 0 && walks < walkRounds; {
		next, did, err := s.round(ctx, fronts, &left, &m)
		if err != nil {
			return m, err
		}
		m.More = len(next) > 0
		if did == nothing && len(next) == len(fronts) {
			break // what is left is not for this pass
		}
		if did == walked {
			walks++
		}
		fronts = next
	}
	return m, nil
}

// progress is what a round got on with.
type progress int

const (
	nothing progress = iota
	walked           // it looked at what runs, and there is more to look at
	worked
)

// front is where the work on a partition stands: so many members of a schema that this release does not know are passed over.
type front struct{ partition, skipLeases, skipWaits, skipEnded int }

// budget is how much of each kind of work a pass may still do.
type budget struct{ leases, waits, ended int }

// portion is the part of it for the i-th of n partitions.
func (b budget) portion(i, n int) budget {
	part := func(count int) int { return min(int(max(portion(count, i, n), 0)), bound) }
	return budget{part(b.leases), part(b.waits), part(b.ended)}
}

// chore is one thing to do, with what it counts as.
type chore struct {
	from    execution.Control
	plan    execution.Plan
	expired bool // not a lease
}

// page is what lua/overdue.lua lists.
type page struct {
	front         // as it stands afterwards
	now           execution.Instant
	held, stamp   int64 // the partition's stamp as it was, and as it is
	chores        []chore
	ended         []string
	leases, waits int // listed
	malformed     int
	foreign       int
	more          bool
	walking       bool // over what runs, with more to look at
}

// round lists what is due, does it, and returns the partitions that have more.
func (s *Store) round(ctx context.Context, fronts []front, left *budget, m *store.Maintained) (next []front, did progress, err error) {
	pages, err := s.overdue(ctx, fronts, *left)
	if err != nil {
		return nil, nothing, err
	}
	for _, pg := range pages {
		m.Malformed += pg.malformed
		m.Skipped += pg.foreign
		left.leases, left.waits, left.ended = left.leases-pg.leases, left.waits-pg.waits, left.ended-len(pg.ended)
		did = max(did, pg.did())
	}
	if err := s.settle(ctx, pages, m); err != nil {
		return nil, nothing, err
	}
	for _, pg := range pages {
		if pg.more || pg.walking {
			next = append(next, pg.front)
		}
	}
	return next, did, nil
}

func (pg *page) did() progress {
	switch {
	case pg.leases+pg.waits+len(pg.ended)+pg.malformed+pg.foreign > 0:
		return worked
	case pg.walking:
		return walked
	}
	return nothing
}

// overdue lists what there is to do, and decides what to do about it.
func (s *Store) overdue(ctx context.Context, fronts []front, left budget) ([]page, error) {
	calls, known := make([]call, len(fronts)), make([]int64, len(fronts))
	for i, f := range fronts {
		known[i] = s.stamps.of(f.partition)
		part := left.portion(i, len(fronts))
		var head packer
		head.array(6).number(int64(part.leases)).number(int64(f.skipLeases))
		head.number(int64(part.waits)).number(int64(f.skipWaits))
		head.number(int64(part.ended)).number(int64(f.skipEnded))
		calls[i] = call{script: s.scripts.overdue, anchor: s.keys.anchor(f.partition), args: []any{head.bytes()}}
	}
	pages := make([]page, len(fronts))
	var gone window
	defer func() { s.lost(gone) }()
	for i, rep := range s.exchange(ctx, calls...) {
		if rep.err != nil {
			return nil, rep.err
		}
		pages[i].front = fronts[i]
		if err := pages[i].decode(rep.value); err != nil {
			return nil, err
		}
		gone.stamped(pages[i].held, known[i])
		s.stamps.set(fronts[i].partition, pages[i].stamp)
	}
	return pages, nil
}

func (pg *page) decode(v any) error {
	r := read(v)
	counts := readPacked(r.next())
	pg.now = counts.instant()
	pg.malformed = int(counts.number())
	leases, waits := int(counts.number()), int(counts.number())
	pg.more = counts.flag()
	pg.held, pg.stamp = counts.number(), counts.number()
	pg.walking = counts.flag()
	r.failed(counts)
	pg.skipLeases, pg.skipWaits, pg.foreign = pg.skipLeases+leases, pg.skipWaits+waits, leases+waits
	pg.recoveries(r)
	pg.expiries(r)
	for ended := r.list(); ended.more(); {
		pg.ended = append(pg.ended, ended.text())
	}
	return r.fault()
}

// recoveries decides about leases that ran out.
func (pg *page) recoveries(r *reader) {
	list := r.list()
	for list.more() {
		_, c := list.text(), list.control() // its id, which the control has too
		if list.err != nil {
			break
		}
		pg.leases++
		if p, err := execution.Decide(c, execution.Recover{Fence: c.Fence}, pg.now); err == nil {
			pg.chores = append(pg.chores, chore{from: c, plan: p})
		}
	}
	r.failed(list)
}

// expiries decides about what is queued or waits and whose time is over.
func (pg *page) expiries(r *reader) {
	list := r.list()
	for list.more() {
		_, c, wait := list.text(), list.control(), list.payload()
		if list.err != nil {
			break
		}
		pg.waits++
		if p, err := execution.Decide(c, execution.Expired(c, wait, pg.now), pg.now); err == nil {
			pg.chores = append(pg.chores, chore{from: c, plan: p, expired: true})
		}
	}
	r.failed(list)
}

// settle does the chores of the pages and erases what is past its retention, in one exchange.
func (s *Store) settle(ctx context.Context, pages []page, m *store.Maintained) error {
	var calls []call
	for _, pg := range pages {
		if len(pg.chores)+len(pg.ended) == 0 {
			continue
		}
		for _, c := range pg.chores {
			calls = append(calls, s.applyCall(pg.partition, c.from.ID, c.plan))
		}
		ids := make([]any, len(pg.ended))
		for i, id := range pg.ended {
			ids[i] = id
		}
		calls = append(calls, call{script: s.scripts.remove, anchor: s.keys.anchor(pg.partition), args: ids})
	}
	if len(calls) == 0 {
		return nil
	}
	replies := s.exchange(ctx, calls...)
	for at := range pages {
		pg := &pages[at]
		if len(pg.chores)+len(pg.ended) == 0 {
			continue
		}
		for i, c := range pg.chores {
			if err := s.settled(c, replies[i], m); err != nil {
				return err
			}
		}
		foreign, err := removed(replies[len(pg.chores)], m)
		if err != nil {
			return err
		}
		pg.skipEnded += foreign
		replies = replies[len(pg.chores)+1:]
	}
	return nil
}

// settled counts what became of a chore. One whose guard did not hold, or whose execution is gone, was seen to by somebody
// else. What can't be carried out never stalls its neighbours.
func (s *Store) settled(c chore, rep reply, m *store.Maintained) error {
	parts, err := partsOf(rep, 1)
	if err != nil {
		return err
	}
	if rep = s.part(parts[0]); rep.err != nil {
		return rep.err
	}
	out, err := s.decodeApplied(c.from, c.plan, rep.value)
	switch {
	case execution.Is(err, execution.CodeCorrupt):
		m.Malformed++
	case err != nil || out.moved || out.stale:
	case out.control.Status == execution.Failed:
		m.Failed++
	case out.control.Status == execution.Canceled:
		m.Canceled++
	case c.expired:
		m.Defaulted++
	default:
		m.Requeued++
	}
	return nil //nolint:nilerr // counted, or nothing to count
}

// removed counts what was erased. It returns how many stay where they are, since this release does not know their schema.
func removed(rep reply, m *store.Maintained) (foreign int, err error) {
	if rep.err != nil {
		return 0, rep.err
	}
	r := readPacked(rep.value)
	m.Removed += int(r.number())
	m.Malformed += int(r.number())
	foreign = int(r.number())
	m.Skipped += foreign
	return foreign, r.fault()
}
