package memory

import (
	"context"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// batch is what a worker was handed by its last poll that claimed something, or was in doubt.
type batch struct {
	token  string
	number int64
	ids    []string
	until  int64 // end of the longest lease
	more   bool
}

// Poll implements [store.Store]. What is due longest is claimed first.
func (s *Store) Poll(ctx context.Context, r store.PollRequest) (store.Polled, error) {
	if err := s.ready(ctx); err != nil {
		return store.Polled{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	if !r.Brief {
		s.appear(r, now)
	}
	out, repeated := s.repeat(r, now)
	if !repeated {
		if err := s.claim(r, &out, now); err != nil {
			return store.Polled{}, err
		}
	}
	out.Now = now
	if !r.Solitary && !r.Brief {
		s.lookAhead(r, &out, now.Millis())
	}
	return out, nil
}

// appear notes who serves what, and moves what has fallen due to where it is claimed from.
func (s *Store) appear(r store.PollRequest, now execution.Instant) {
	for _, w := range r.Revisions {
		rev := s.index.revision(w.Revision)
		rev.servedAt = now.Millis()
		if !r.Solitary {
			rev.promote(now.Millis(), w.Count, s.rank)
		}
	}
	s.present(r, now)
}

func (s *Store) rank(id string, since int64) int64 { return s.items[id].control.Rank(since) }

// lookAhead tells of all but what was claimed.
func (s *Store) lookAhead(r store.PollRequest, out *store.Polled, now int64) {
	out.NextDue = s.nextDue(r.Revisions, now)
	out.Overdue = s.index.overdue(now)
	if _, end, ok := s.index.leases.first(); ok && !out.Overdue {
		out.LeaseEnd = end
	}
	lease := longestLease(r)
	for _, w := range r.Revisions {
		rev := s.index.revision(w.Revision)
		since, held := rev.heldSince(now)
		out.Held = out.Held || held
		if held && r.Yields && now-since >= lease && rev.yields(r.Worker, now, lease, s.longest) {
			out.Drain = true
		}
	}
}

// longestLease of those that a request names, in milliseconds.
func longestLease(r store.PollRequest) (ms int64) {
	for _, w := range r.Revisions {
		ms = max(ms, millis(w.Lease))
	}
	return ms
}

// repeat hands out what is left of the batch that the same request got before.
func (s *Store) repeat(r store.PollRequest, now execution.Instant) (store.Polled, bool) {
	b, ok := s.batches[r.Worker]
	if !ok || b.until <= now.Millis() {
		return store.Polled{}, false
	}
	if b.token != r.Token {
		return store.Polled{}, r.Number > 0 && r.Number < b.number // a late copy claims nothing
	}
	out := store.Polled{More: b.more}
	for _, id := range b.ids {
		it := s.items[id]
		if it == nil {
			continue
		}
		c := it.control
		if c.Status == execution.Running && c.Worker == r.Worker && c.Token == r.Token && now.Millis() < c.LeaseUntil {
			out.Claimed = append(out.Claimed, it.claimed())
		}
	}
	return out, true
}

// claim takes what is asked for, and remembers the batch.
func (s *Store) claim(r store.PollRequest, out *store.Polled, now execution.Instant) error {
	hand := s.claimEach
	if r.Solitary {
		hand = s.claimSolitary
	}
	if err := hand(r, out, now); err != nil {
		return err
	}
	b := batch{token: r.Token, number: r.Number, more: out.More}
	for _, c := range out.Claimed {
		b.ids = append(b.ids, c.Control.ID)
		b.until = max(b.until, c.Control.LeaseUntil)
	}
	lease := longestLease(r)
	if r.Doubt {
		b.until = max(b.until, now.Millis()+lease)
	}
	if len(b.ids) > 0 {
		s.longest = max(s.longest, lease)
	}
	if len(b.ids) > 0 || r.Doubt {
		s.batches[r.Worker] = b
	}
	return nil
}

// claimEach takes what each revision wants, as far as there is room.
func (s *Store) claimEach(r store.PollRequest, out *store.Polled, now execution.Instant) error {
	room := room{bytes: r.MaxBytes, count: maxClaims}
	for _, w := range r.Revisions {
		rev := s.index.revision(w.Revision)
		for range w.Count {
			id, ok := s.next(rev, now)
			if !ok {
				break
			}
			if room.full() {
				out.More = true
				break
			}
			c, err := s.claimOne(id, claimOf(r, w), now)
			if err != nil {
				return err
			}
			room.take(c)
			out.Claimed = append(out.Claimed, c)
		}
	}
	return nil
}

// next is the first that is ready. What had fallen due before the clock was set back is put back, and what is to be ended is
// left out. Those on their last chance, which were delayed, go where they are claimed from.
func (s *Store) next(rev *revision, now execution.Instant) (id string, ok bool) {
	for {
		id, _, ok = rev.ready.first()
		if !ok {
			return "", false
		}
		c := s.items[id].control
		switch {
		case c.AvailableAt > now.Millis():
			rev.ready.drop(id)
			rev.delayed.put(id, c.AvailableAt)
		case c.Expiry() != 0 && c.Expiry() <= now.Millis():
			rev.ready.drop(id) // for maintenance to end
		case c.LastChance():
			rev.ready.drop(id)
			if rev.isolate(id, now.Millis()) {
				s.bells.ring(revisionOf(c))
			}
		default:
			return id, true
		}
	}
}

// claimSolitary takes the one execution on its last chance that waits longest.
func (s *Store) claimSolitary(r store.PollRequest, out *store.Polled, now execution.Instant) error {
	var longest *store.Want
	var oldest int64
	for i, w := range r.Revisions {
		since, held := s.index.revision(w.Revision).heldSince(now.Millis())
		if held && w.Count > 0 && (longest == nil || since < oldest) {
			longest, oldest = &r.Revisions[i], since
		}
	}
	if longest == nil {
		return nil
	}
	rev := s.index.revision(longest.Revision)
	id, _, _ := rev.solitary.first()
	c, err := s.claimOne(id, claimOf(r, *longest), now)
	if err != nil {
		return err
	}
	if rev.turn.worker == r.Worker {
		rev.turn = turn{}
	}
	out.Claimed = append(out.Claimed, c)
	return nil
}

func claimOf(r store.PollRequest, w store.Want) execution.Claim {
	return execution.Claim{Worker: r.Worker, Token: r.Token, Lease: w.Lease}
}

func (s *Store) claimOne(id string, cmd execution.Claim, now execution.Instant) (store.Claimed, error) {
	it := s.items[id]
	p, err := execution.Decide(it.control, cmd, now)
	if err != nil {
		return store.Claimed{}, err
	}
	s.commit(it, p, now)
	return it.claimed(), nil
}

// nextDue is the earliest time at which delayed work of the revisions falls due; 0: there is none.
func (s *Store) nextDue(wants []store.Want, now int64) int64 {
	var next int64
	for _, w := range wants {
		at, ok := s.index.revision(w.Revision).delayed.after(now)
		if ok && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}

// room is what a reply may still hold. The first claim always fits.
type room struct {
	bytes, used int64 // bytes 0: no bound
	count       int
	taken       bool
}

func (r *room) full() bool {
	return r.count == 0 || r.taken && r.bytes > 0 && r.used >= r.bytes
}

func (r *room) take(c store.Claimed) {
	r.used += int64(len(c.Input) + len(c.Checkpoint) + len(c.Answer))
	r.count--
	r.taken = true
}
