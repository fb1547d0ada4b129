package redis_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/faultkit"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// slow is a store whose requests a proxy can hold. What a client has given up may still reach the server, and after its own
// repeat: a server that was busy or frozen reads connections in any order.
type slow struct {
	*kit
	proxy *faultkit.Proxy
	ctx   context.Context // of the operation under test
}

func newSlow(t *testing.T, partitions int) *slow {
	t.Helper()
	p := newProxy(t)
	k := openKit(t, redis.Through(redis.Config{URL: redistest.URL(t), Prefix: redistest.Prefix(t), Partitions: partitions}, p.Dial))
	k.ok(k.store.TellScripts(t.Context()))
	return &slow{k, p, t.Context()}
}

// lost runs an operation whose script is held, until the client gives up.
func (s *slow) lost(script string, f func() error) {
	s.Helper()
	s.lostNth(0, script, f)
}

// lostNth is lost for the n-th run of the script in the operation, from 0.
func (s *slow) lostNth(n int, script string, f func() error) {
	s.Helper()
	s.proxy.Break(faultkit.Nth(n, faultkit.Hold, script))
	ctx, cancel := context.WithTimeout(s.Context(), 50*time.Millisecond)
	defer cancel()
	s.ctx = ctx
	err := f()
	s.ctx = s.Context()
	s.refused(err, execution.CodeUnavailable)
	var e *execution.Error
	if !errors.As(err, &e) || e.Unchanged {
		s.Errorf("error %+v says that nothing was changed", e)
	}
}

// late is lost, and then its repeat, whatever else is to happen, and at last what was held. That must change nothing.
func (s *slow) late(script string, f func() error, more func(), seen func() any) {
	s.Helper()
	s.lost(script, f)
	s.ok(f())
	more()
	before := seen()
	if n := s.proxy.Deliver(); n != 1 {
		s.Fatalf("%d commands were delivered late, want 1", n)
	}
	if diff := cmp.Diff(before, seen()); diff != "" {
		s.Errorf("what was delivered late changed something (-before +after):\n%s", diff)
	}
}

// record is all that can be seen of an execution, but for the time.
func (s *slow) record(id string) store.Record {
	s.Helper()
	r := s.read(id)
	r.Now = 0
	return r
}

func nothing() {}

func TestLateSubmit(t *testing.T) {
	t.Parallel()
	for _, key := range []store.Key{{}, {Deployment: "story", Value: "k"}} {
		s := newSlow(t, 1)
		sub := s.submission()
		sub.Key = key
		sub.ID = s.store.NewID(key)
		submit := func() error {
			_, err := s.store.Submit(s.ctx, sub)
			return err
		}
		s.late("submit", submit, nothing, func() any { return []any{s.record(sub.ID), s.nonterminal()} })
	}
}

// A submission that may yet be admitted in one partition is not handed to another.
func TestLateSubmitElsewhere(t *testing.T) {
	t.Parallel()
	s := newSlow(t, 2)
	first := s.submission()
	home, _ := s.store.PartitionOf(first.ID)
	sub := s.submission()
	for at, _ := s.store.PartitionOf(sub.ID); at != home; at, _ = s.store.PartitionOf(sub.ID) {
		sub = s.submission()
	}
	first.MaxNonterminal, sub.MaxNonterminal = 2, 2
	submit := func() error {
		_, err := s.store.Submit(s.ctx, sub)
		return err
	}
	s.lost("submit", submit)
	_, err := s.store.Submit(t.Context(), first)
	s.ok(err)
	s.refused(submit(), execution.CodeUnavailable)
	_, err = s.store.Cancel(t.Context(), first.ID, store.Scope{All: true}, "")
	s.ok(err)
	s.proxy.Deliver()
	s.ok(submit())
	if n := s.nonterminal(); n != 1 || s.record(sub.ID).Control.Status != execution.Queued {
		t.Errorf("%d unfinished executions, want 1", n)
	}
}

// A poll that arrives after its repeat, or after later polls of its worker, claims nothing that nobody hears of.
func TestLatePoll(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]func(s *slow){
		"after its repeat": func(s *slow) { s.submit() },
		"after a poll that gave nothing": func(s *slow) {
			s.poll(1)
			s.submit()
		},
		"after a poll that gave something": func(s *slow) {
			s.submit()
			s.poll(1)
			s.submit()
		},
	} {
		for _, partitions := range []int{1, 3} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newSlow(t, partitions)
				request := s.request(4)
				poll := func() error {
					_, err := s.store.Poll(s.ctx, request)
					request.Doubt = true
					return err
				}
				s.lost("poll", poll)
				s.ok(poll())
				later(s)
				s.proxy.Deliver()
				s.proxy.Break(nil)
				if p := s.poll(4); len(p.Claimed) != 1 || p.Claimed[0].Control.Attempt != 1 {
					t.Errorf("claimed %+v, want the one that was submitted last", p.Claimed)
				}
			})
		}
	}
}

// The exchange in which a poll asks a partition for more claims nothing where it arrives after the repeat of that poll, which
// was told of what the first exchange had claimed.
func TestLatePollForMore(t *testing.T) {
	t.Parallel()
	s := newSlow(t, 2)
	for n := 0; n < 6; {
		sub := s.submission()
		if at, _ := s.store.PartitionOf(sub.ID); at != 0 {
			continue
		}
		_, err := s.store.Submit(t.Context(), sub)
		s.ok(err)
		n++
	}
	request := s.request(4)
	var got store.Polled
	poll := func() (err error) {
		got, err = s.store.Poll(s.ctx, request)
		request.Doubt = true
		return err
	}
	s.lostNth(2, "poll", poll)
	for range 2 { // the repeat may be repeated
		s.ok(poll())
		if len(got.Claimed) != 2 {
			t.Fatalf("the repeat brought %d, want the 2 of the first exchange", len(got.Claimed))
		}
	}
	if n := s.proxy.Deliver(); n != 1 {
		t.Fatalf("%d commands were delivered late, want 1", n)
	}
	s.proxy.Break(nil)
	s.ok(poll())
	if len(got.Claimed) != 2 {
		t.Errorf("the repeat brought %d afterwards, want 2", len(got.Claimed))
	}
	if p := s.poll(9); len(p.Claimed) != 4 {
		t.Errorf("%d are left to claim, want 4", len(p.Claimed))
	}
}

// An owned command that arrives after its repeat, and after what followed it, is not carried out again.
func TestLateTransition(t *testing.T) {
	t.Parallel()
	s := newSlow(t, 1)
	wait, err := execution.Wait{Kind: "approval"}.Encode()
	s.ok(err)
	for _, build := range []func(o execution.Owned) execution.Command{
		func(o execution.Owned) execution.Command {
			return execution.Checkpoint{Owned: o, Data: []byte("1"), Lease: lease}
		},
		func(o execution.Owned) execution.Command { return execution.Report{Owned: o} },
		func(o execution.Owned) execution.Command { return execution.Suspend{Owned: o, Wait: wait} },
		func(o execution.Owned) execution.Command { return execution.Retry{Owned: o} },
		func(o execution.Owned) execution.Command { return execution.Complete{Owned: o, Result: []byte("1")} },
		func(o execution.Owned) execution.Command { return execution.Fail{Owned: o} },
		func(o execution.Owned) execution.Command { return execution.Release{Owned: o} },
	} {
		c := s.start()
		cmd := build(s.owned(c, s.event("once")))
		var after store.Transitioned
		act := func() (err error) {
			after, err = s.store.Transition(s.ctx, c, cmd)
			return err
		}
		next := func() {
			if after.Status == execution.Queued {
				after.Control = s.poll(1).Claimed[0].Control
			}
			if after.Status == execution.Running {
				after.Control = s.do(after.Control, execution.Report{Owned: s.owned(after.Control)})
			}
		}
		s.late("apply", act, next, func() any { return []any{s.record(c.ID), s.nonterminal()} })
	}
}

// A batch of chunks that arrives after its repeat, and after what followed it, stands in the log once.
func TestLateBeat(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]func(s *slow, c execution.Control){
		"after its repeat":        func(*slow, execution.Control) {},
		"after the next":          func(s *slow, c execution.Control) { s.stream(c, chunks(1, 3, "d")) },
		"after a long progress":   func(s *slow, c execution.Control) { s.reportMany(c, 300) },
		"after the batch is gone": func(s *slow, c execution.Control) { s.reportMany(c, 1500) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSlow(t, 1)
			c := s.start()
			s.stream(c, chunks(1, 0, "a"))
			beat := store.Beat{ID: c.ID, Ownership: owner(c), Chunks: chunks(1, 1, "b", "c")}
			send := func() error {
				out, err := s.store.Beat(s.ctx, []store.Beat{beat})
				beat.Repeat = true
				if err == nil {
					err = out[0].Err
				}
				return err
			}
			s.late("beat", send, func() { more(s, c) }, func() any { return s.record(c.ID) })
			// A repeat of the repeat may be late as well, and the next attempt begins anew.
			s.late("beat", send, nothing, func() any { return s.record(c.ID) })
			s.do(s.read(c.ID).Control, execution.Release{Owned: s.owned(c)})
			c = s.poll(1).Claimed[0].Control
			s.stream(c, chunks(2, 0, "a"))
			log := s.read(c.ID).Log
			if last := log[len(log)-1]; !bytes.Equal(last.Data, chunks(2, 0, "a").Encode()) {
				t.Errorf("the next attempt's chunks are not the last entry but %q", last.Data)
			}
		})
	}
}

func (s *slow) reportMany(c execution.Control, n int) {
	s.Helper()
	var events []execution.Event
	for range n {
		events = append(events, s.event("x"))
	}
	s.do(s.read(c.ID).Control, execution.Report{Owned: s.owned(c, events...)})
}

// A renewal that is late leaves its holder no less time than it has.
func TestLateRenewal(t *testing.T) {
	t.Parallel()
	s := newSlow(t, 1)
	c := s.start()
	renew := func() error {
		_, err := s.store.Beat(s.ctx, []store.Beat{{ID: c.ID, Ownership: owner(c), Lease: lease}})
		return err
	}
	s.lost("beat", renew)
	s.ok(renew())
	before := s.read(c.ID).Control.LeaseUntil
	s.proxy.Deliver()
	if after := s.read(c.ID).Control.LeaseUntil; after < before {
		t.Errorf("the lease ends %d ms sooner", before-after)
	}
}

// An ask to stop and an answer have one effect, however late a copy of them arrives.
func TestLateCancelAndResume(t *testing.T) {
	t.Parallel()
	s := newSlow(t, 1)
	everyone := store.Scope{All: true}
	for _, start := range []func() execution.Control{
		func() execution.Control { return s.read(s.submit()).Control }, s.start, func() execution.Control { return s.suspend(s.start()) },
	} {
		c := start()
		cancel := func() error {
			_, err := s.store.Cancel(s.ctx, c.ID, everyone, "enough")
			return err
		}
		s.late("cancel", cancel, nothing, func() any { return []any{s.record(c.ID), s.nonterminal()} })
		if c.Status == execution.Running {
			s.complete(c)
		}
	}
	for _, key := range []string{"", "k"} {
		c := s.suspend(s.start())
		resume := func() error {
			_, err := s.store.Resume(s.ctx, store.ResumeRequest{ID: c.ID, Scope: everyone, Answer: []byte("1"), Checked: c.WaitSequence, Key: key})
			return err
		}
		again := func() { s.suspend(s.poll(1).Claimed[0].Control) } // the next wait is another one
		s.late("resume", resume, again, func() any { return s.record(c.ID) })
	}
}
