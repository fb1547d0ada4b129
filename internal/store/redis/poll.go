package redis

import (
	"context"
	"hash/fnv"
	"slices"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// round is one exchange of a poll. The first one asks every partition; where that leaves work wanted and some to be had,
// others follow.
type round struct {
	request store.PollRequest
	plans   []execution.Plan
	planOf  []int // plan of each want
	longest time.Duration
	counts  []int   // what is still wanted of each revision
	left    [][]int // by partition of the last exchange: the revisions of which there was more than it was asked for
	offset  int     // partition that is asked first: the same for a repeat, which so asks each for the same share
	shared  bool    // there are several partitions: each remembers also that it gave nothing
}

// Poll implements [store.Store].
func (s *Store) Poll(ctx context.Context, r store.PollRequest) (store.Polled, error) {
	rd, err := newRound(r)
	if err != nil {
		return store.Polled{}, err
	}
	rd.offset = int(fnv32(r.Token) % uint32(s.config.Partitions))
	rd.shared = s.config.Partitions > 1
	asked := make([]int, s.config.Partitions)
	for i := range asked {
		asked[i] = (rd.offset + i) % len(asked)
	}
	var out store.Polled
	if r.Solitary {
		err := s.pollSolitary(ctx, rd, asked, &out)
		return out, err
	}
	for again := false; len(asked) > 0; again = true {
		if asked, err = s.pollRound(ctx, rd, asked, again, &out); err != nil {
			return store.Polled{}, err
		}
	}
	return out, nil
}

// pollSolitary asks one partition after the other, until one has something: two that are asked at once could both hand
// out some. A repeat asks them in the same order, and each that gave nothing remembers that.
func (s *Store) pollSolitary(ctx context.Context, rd *round, asked []int, out *store.Polled) error {
	rd.left = make([][]int, 1)
	for _, p := range asked {
		v, err := s.run(ctx, s.scripts.poll, p, rd.pack(0, 1, false))
		if err == nil {
			err = s.polled(rd, 0, v, out)
		}
		if err != nil || len(out.Claimed) > 0 {
			return err
		}
	}
	return nil
}

func newRound(r store.PollRequest) (*round, error) {
	rd := &round{request: r}
	known := map[time.Duration]int{}
	for _, w := range r.Revisions {
		at, ok := known[w.Lease]
		if !ok {
			p, err := execution.Decide(execution.Control{Status: execution.Queued},
				execution.Claim{Worker: r.Worker, Token: r.Token, Lease: w.Lease}, 0)
			if err != nil {
				return nil, err
			}
			rd.plans = append(rd.plans, p)
			at = len(rd.plans)
			known[w.Lease] = at
		}
		rd.planOf = append(rd.planOf, at)
		rd.counts = append(rd.counts, w.Count)
		rd.longest = max(rd.longest, w.Lease)
	}
	return rd, nil
}

// pollRound asks some partitions, adds to out, and returns the partitions that are worth asking once more.
func (s *Store) pollRound(ctx context.Context, rd *round, asked []int, again bool, out *store.Polled) ([]int, error) {
	calls := make([]call, len(asked))
	for i, p := range asked {
		calls[i] = call{script: s.scripts.poll, anchor: s.keys.anchor(p), args: []any{rd.pack(i, len(asked), again)}}
	}
	rd.left = make([][]int, len(asked))
	for i, rep := range s.exchange(ctx, calls...) {
		if rep.err != nil {
			return nil, rep.err
		}
		if err := s.polled(rd, i, rep.value, out); err != nil {
			return nil, err
		}
	}
	var next []int
	for i, p := range asked {
		if slices.ContainsFunc(rd.left[i], func(want int) bool { return rd.counts[want] > 0 }) {
			next = append(next, p)
		}
	}
	return next, nil
}

// pack is the request for the i-th of n partitions: its share of all that is wanted.
func (rd *round) pack(i, n int, again bool) []byte {
	var p packer
	p.array(8).text(rd.request.Worker).text(rd.request.Token)
	p.number((rd.request.MaxBytes + int64(n) - 1) / int64(n)).number(rd.mode(again))
	p.array(3 * len(rd.counts))
	for w, want := range rd.request.Revisions {
		p.text(queueName(want.Revision)).number(portion(rd.counts[w], i, n)).number(int64(rd.planOf[w]))
	}
	p.array(len(rd.plans))
	for _, plan := range rd.plans {
		p.plan(plan)
	}
	return p.number(millis(rd.longest)).number(rd.request.Number).bytes()
}

// mode is how lua/poll.lua is to take a request.
func (rd *round) mode(again bool) (mode int64) {
	for i, set := range []bool{again, rd.shared, rd.request.Solitary, rd.request.Yields, rd.request.Doubt, rd.request.Brief} {
		if set {
			mode |= 1 << i
		}
	}
	return mode
}

// portion is what the i-th of n partitions is asked for; with several, one that is asked for nothing still tells whether it
// has something; -1: not even that.
func portion(count, i, n int) int64 {
	part := count / n
	if i < count%n {
		part++
	}
	if part == 0 && (n == 1 || count == 0) {
		return -1
	}
	return int64(part)
}

// polled adds the answer of the i-th partition that was asked to out.
func (s *Store) polled(rd *round, i int, v any, out *store.Polled) error {
	r := read(v)
	head := readPacked(r.next())
	now := head.instant()
	out.Now = max(out.Now, now)
	if due := head.number(); due != 0 && (out.NextDue == 0 || due < out.NextDue) {
		out.NextDue = due
	}
	out.More = head.flag() || out.More
	left := head.list()
	for left.more() {
		rd.left[i] = append(rd.left[i], int(left.number()))
	}
	head.failed(left)
	ahead(out, now, head.number())
	out.Malformed += int(head.number())
	held := head.number()
	out.Held, out.Drain = out.Held || held > 0, out.Drain || held == 2
	r.failed(head)
	for r.more() {
		c := r.list()
		claimed := store.Claimed{Control: c.control(), Input: c.payload(), Checkpoint: c.payload(), Answer: c.payload()}
		flags := c.number()
		r.failed(c)
		claimed.Invalid = flags&1 != 0
		expandClaimed(&claimed)
		claimed.Control = rd.claimed(claimed.Control, flags&2 != 0, now)
		s.history.claimed(claimed.Control)
		out.Claimed = append(out.Claimed, claimed)
	}
	return r.fault()
}

// expandClaimed gives an execution its payloads as they were. One that can't be expanded is invalid: it must not keep others from being
// claimed.
func expandClaimed(c *store.Claimed) {
	for _, p := range []*[]byte{&c.Input, &c.Checkpoint, &c.Answer} {
		data, err := expand(*p)
		c.Invalid = c.Invalid || err != nil
		*p = data
	}
}

// ahead takes in when, from now on, a lease runs out; 0: something is overdue; -1: nothing runs.
func ahead(out *store.Polled, now execution.Instant, ms int64) {
	switch end := now.Millis() + ms; {
	case ms == 0:
		out.Overdue = true
	case ms > 0 && (out.LeaseEnd == 0 || end < out.LeaseEnd):
		out.LeaseEnd = end
	}
}

// claimed counts one execution off what is wanted, and returns its control after the claim, which was made then. before: it is the
// one that the claim was made from.
func (rd *round) claimed(c execution.Control, before bool, now execution.Instant) execution.Control {
	for i, w := range rd.request.Revisions {
		if w.Deployment == c.Deployment && w.Revision.Revision == c.Revision {
			rd.counts[i]--
			if before {
				return rd.plans[rd.planOf[i]-1].Apply(c, now)
			}
			break
		}
	}
	return c
}

func fnv32(s string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(s))
	return h.Sum32()
}

// millis rounds up, as plans do, so that nothing ends early.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
