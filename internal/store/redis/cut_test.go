package redis_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/faultkit"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/memory"
	"github.com/windrow-run/windrow/internal/store/redis"
	"github.com/windrow-run/windrow/internal/store/storetest"
)

// Wherever exchanges are cut, and however often, a caller who repeats as the contract says gets what a caller gets from whom
// nothing is cut: no execution, attempt, chunk, event, charge to a budget, answer or place more or less.
func TestCutEverywhere(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 4} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			cutEverywhere(t, partitions)
		})
	}
}

// shortLived are limits under which many thousand lives, one after the other, stay within the years that a fence can count.
var shortLived = store.Limits{TerminalTTL: time.Hour}

func cutEverywhere(t *testing.T, partitions int) {
	t.Helper()
	scripts := []string{"submit", "find", "poll", "apply", "beat", "cancel", "resume", "read", "controls", "overdue", "remove", "counts", "check"}
	wanted := faultkit.Count(t, 20, 1000)
	p := faultkit.NewProxy(t, redistest.URL(t), redis.ScriptNames(redis.StandingClock(redis.Config{Limits: shortLived})))
	s, clock := standingAt(t, redis.Through(redis.Config{URL: redistest.URL(t), Partitions: partitions, Limits: shortLived}, p.Dial))
	if err := s.TellScripts(t.Context()); err != nil {
		t.Fatal(err)
	}
	var now execution.Instant
	twin := memory.New(memory.Config{Limits: shortLived, Clock: func() execution.Instant { return now }})
	checker := storetest.NewChecker()
	subject := &caller{T: t, store: storetest.Observe(s, checker), pass: clock.advance}
	model := &caller{T: t, store: twin, pass: func(d time.Duration) { now += execution.Instant(d.Microseconds()) }}
	now = execution.Instant(clock.now)
	p.Break(faultkit.Rate(uint64(partitions), 0.3/float64(partitions), faultkit.Cuts(), scripts...))
	rare := func(name string) bool { return p.Broken(name) < wanted }
	for lives := 0; slices.ContainsFunc(scripts, rare); lives++ {
		if lives > 100*wanted {
			t.Fatal("some script is cut too rarely")
		}
		subject.live(lives)
		model.live(lives)
		if diff := cmp.Diff(model.seen, subject.seen); diff != "" {
			t.Fatalf("life %d (-nothing cut +cut):\n%s", lives, diff)
		}
		subject.seen, model.seen = nil, nil
	}
	counts := again(subject, func() (store.Counts, error) { return s.Counts(t.Context()) })
	checker.AtRest(counts)
	checker.Assert(t)
	t.Logf("figures: %d exchanges were cut, %d operations repeated", p.Broken(), subject.repeats)
}

// caller drives a store, and repeats what it doesn't know the outcome of.
type caller struct {
	*testing.T
	store   store.Store
	pass    func(time.Duration)
	tokens  int64
	repeats int
	seen    []any // of what must be the same in both worlds
}

// again asks until there is an answer.
func again[T any](c *caller, ask func() (T, error)) T {
	c.Helper()
	for range 200 {
		out, err := ask()
		if err == nil {
			return out
		}
		if !execution.Is(err, execution.CodeUnavailable) {
			c.Fatal(err)
		}
		c.repeats++
	}
	c.Fatal("no answer, however often it was asked for")
	panic("not reached")
}

func (c *caller) token() string {
	c.tokens++
	return fmt.Sprintf("t%d", c.tokens)
}

func (c *caller) poll() store.Claimed {
	c.Helper()
	token := c.token()
	r := store.PollRequest{Worker: "w", Token: token, Number: c.tokens, Revisions: []store.Want{
		{Revision: store.Revision{Deployment: "story", Revision: "r1"}, Count: 4, Lease: lease}}}
	p := again(c, func() (store.Polled, error) {
		out, err := c.store.Poll(c.Context(), r)
		r.Doubt = true
		return out, err
	})
	if len(p.Claimed) != 1 {
		c.Fatalf("%d were claimed, want 1", len(p.Claimed))
	}
	return p.Claimed[0]
}

func (c *caller) do(at execution.Control, build func(execution.Owned) execution.Command) execution.Control {
	c.Helper()
	event := execution.Event{Kind: "step", Message: "m", At: 1}
	cmd := build(execution.Owned{Ownership: owner(at), Operation: c.token(), Progress: []execution.Event{event}})
	return again(c, func() (execution.Control, error) {
		out, err := c.store.Transition(c.Context(), at, cmd)
		return out.Control, err
	})
}

func (c *caller) beat(at execution.Control, first int64) {
	c.Helper()
	b := store.Beat{ID: at.ID, Ownership: owner(at), Lease: lease, Chunks: chunks(at.Attempt, first, "a", "b")}
	out := again(c, func() ([]store.Beaten, error) {
		out, err := c.store.Beat(c.Context(), []store.Beat{b})
		b.Repeat = true
		return out, err
	})
	if out[0].Err != nil {
		c.Fatal(out[0].Err)
	}
}

// look notes what is to be seen of an execution, but for names and times.
func (c *caller) look(id string) store.Record {
	c.Helper()
	everyone := store.Scope{All: true}
	r := again(c, func() (store.Record, error) {
		return c.store.Read(c.Context(), store.ReadRequest{ID: id, Scope: everyone, Log: true, LogLimit: 1000, Watch: true})
	})
	controls := again(c, func() ([]execution.Control, error) { return c.store.Controls(c.Context(), []string{id}) })
	counts := again(c, func() (store.Counts, error) { return c.store.Counts(c.Context()) })
	again(c, func() (struct{}, error) { return struct{}{}, c.store.Check(c.Context()) })
	k := r.Control
	c.seen = append(c.seen, k.Status, k.Version, k.Attempt, k.LostLeases, k.Retries, k.Claims, k.ProgressSequence, k.WaitSequence,
		r.Progress, r.Result, r.Error, r.Wait, controls[0].Version, counts.Leases)
	for _, e := range r.Log {
		c.seen = append(c.seen, e.Kind)
		if e.Kind == execution.EntryChunks {
			c.seen = append(c.seen, e.Data)
		}
	}
	for _, rev := range counts.Revisions {
		rev.ServedAt, rev.OldestReady = 0, 0
		c.seen = append(c.seen, rev)
	}
	return r
}

// live takes one execution through everything that can happen to it.
func (c *caller) live(n int) {
	c.Helper()
	everyone := store.Scope{All: true}
	id := c.submit(n)
	c.look(id)
	at := c.poll().Control
	c.beat(at, 0)
	c.beat(at, 2)
	c.do(at, func(o execution.Owned) execution.Command {
		return execution.Checkpoint{Owned: o, Data: []byte(`1`), Lease: lease}
	})
	c.look(id)
	c.pass(lease)
	c.maintain()
	at = c.poll().Control
	c.beat(at, 0)
	c.do(at, func(o execution.Owned) execution.Command { return execution.Retry{Owned: o} })
	c.look(id)
	at = c.poll().Control
	c.do(at, func(o execution.Owned) execution.Command { return execution.Release{Owned: o} })
	at = c.poll().Control
	at = c.do(at, func(o execution.Owned) execution.Command {
		return execution.Suspend{Owned: o, Wait: []byte(`{"kind":"k"}`)}
	})
	again(c, func() (store.Resumed, error) {
		return c.store.Resume(c.Context(), store.ResumeRequest{ID: id, Scope: everyone, Answer: []byte(`true`), Checked: at.WaitSequence, Key: "k"})
	})
	claimed := c.poll()
	c.seen = append(c.seen, claimed.Answer, claimed.Checkpoint)
	at = c.do(claimed.Control, func(o execution.Owned) execution.Command { return execution.Report{Owned: o} })
	c.end(n, at)
	c.look(id)
	c.pass(2 * shortLived.TerminalTTL)
	c.maintain()
	if _, err := c.store.Read(context.Background(), store.ReadRequest{ID: id, Scope: everyone}); err == nil {
		c.Error("the execution outlives its retention")
	}
}

func (c *caller) submit(n int) string {
	c.Helper()
	sub := store.Submission{Submit: execution.Submit{Deployment: "story", Revision: "r1", Budgets: execution.DefaultBudgets(), Input: []byte(`1`)},
		MaxNonterminal: 8}
	if n%2 == 0 {
		sub.Key = store.Key{Deployment: "story", Value: fmt.Sprint(n), Fingerprint: [32]byte{1}}
	}
	sub.ID = c.store.NewID(sub.Key)
	id := again(c, func() (store.Submitted, error) { return c.store.Submit(c.Context(), sub) }).Record.Control.ID
	if n%2 == 0 {
		found := again(c, func() (store.Submitted, error) { return c.store.FindKey(c.Context(), sub.Key) })
		c.seen = append(c.seen, found.Record.Control.ID == id, found.Replayed)
	}
	return id
}

func (c *caller) end(n int, at execution.Control) {
	c.Helper()
	if n%3 == 0 {
		again(c, func() (store.Record, error) {
			return c.store.Cancel(c.Context(), at.ID, store.Scope{All: true}, "enough")
		})
	}
	c.do(at, func(o execution.Owned) execution.Command {
		if n%3 == 1 {
			return execution.Fail{Owned: o}
		}
		return execution.Complete{Owned: o, Result: []byte(`2`)}
	})
}

// maintain does all that is overdue. What a pass did whose reply was cut is not counted, so only what it leads to is compared.
func (c *caller) maintain() {
	c.Helper()
	for range 2 {
		again(c, func() (store.Maintained, error) { return c.store.Maintain(c.Context(), 100) })
	}
}
