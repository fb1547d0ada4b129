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
	for _, w := range r.Revisions {
		rev := s.index.revision(w.Revision)
		rev.servedAt = now.Millis()
		rev.promote(now.Millis(), w.Count)
	}
	out, repeated := s.repeat(r, now)
	if !repeated {
		if err := s.claim(r, &out, now); err != nil {
			return store.Polled{}, err
		}
	}
	out.Now = now
	out.NextDue = s.nextDue(r.Revisions, now.Millis())
	out.Overdue = s.index.overdue(now.Millis())
	return out, nil
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

// claim takes what each revision wants, as far as there is room, and remembers the batch.
func (s *Store) claim(r store.PollRequest, out *store.Polled, now execution.Instant) error {
	room := room{bytes: r.MaxBytes, count: maxClaims}
	b := batch{token: r.Token, number: r.Number}
	for _, w := range r.Revisions {
		if r.Doubt {
			b.until = max(b.until, now.Millis()+w.Lease.Milliseconds())
		}
		cmd := execution.Claim{Worker: r.Worker, Token: r.Token, Lease: w.Lease}
		ready := s.index.revision(w.Revision).ready
		for range w.Count {
			id, _, ok := ready.first()
			if !ok {
				break
			}
			if room.full() {
				out.More, b.more = true, true
				break
			}
			c, err := s.claimOne(id, cmd, now)
			if err != nil {
				return err
			}
			room.take(c)
			out.Claimed = append(out.Claimed, c)
			b.ids = append(b.ids, id)
			b.until = max(b.until, c.Control.LeaseUntil)
		}
	}
	if len(b.ids) > 0 || r.Doubt {
		for _, w := range r.Revisions {
			s.longest = max(s.longest, w.Lease.Milliseconds())
		}
		s.batches[r.Worker] = b
	}
	return nil
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
