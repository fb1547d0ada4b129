package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/memory"
)

// runs is how many random runs a planted fault may survive.
const runs = 1000

// The model finds a store that differs from the reference in one small way, and does not find one that does not.
func TestModelFinds(t *testing.T) {
	t.Parallel()
	plants := map[string]func(*liar){
		"a ceiling that is off by one": func(l *liar) {
			l.submit = func(s *store.Submission) {
				if s.MaxNonterminal > 0 {
					s.MaxNonterminal++
				}
			}
		},
		"a digest that is not compared":        func(l *liar) { l.resume = func(r *store.ResumeRequest) { r.Digest = [32]byte{} } },
		"an answer that is changed":            func(l *liar) { l.resume = func(r *store.ResumeRequest) { r.Answer = []byte("[1]") } },
		"an answer that nobody checked":        func(l *liar) { l.resume = func(r *store.ResumeRequest) { r.Checked = r.Sequence } },
		"a batch that is appended twice":       func(l *liar) { l.beat = func(b *store.Beat) { b.Repeat = false } },
		"a lease that is not renewed":          func(l *liar) { l.beat = func(b *store.Beat) { b.Lease = 0 } },
		"a watch that is forgotten":            func(l *liar) { l.read = func(r *store.ReadRequest) { r.Watch = false } },
		"an answer that outlives a checkpoint": func(l *liar) { l.checkpoint = func(c *execution.Checkpoint) { c.Consumed = false } },
	}
	for name, plant := range plants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range runs {
				if differs(t, seed, plant) != "" {
					return
				}
			}
			t.Fatalf("not found in %d runs", runs)
		})
	}
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		for seed := range 50 {
			if found := differs(t, seed, func(*liar) {}); found != "" {
				t.Fatal(found)
			}
		}
	})
}

// differs drives the honest store beside the liar and returns what the model says of it.
func differs(t *testing.T, seed int, plant func(*liar)) string {
	t.Helper()
	subject := func(t testing.TB, limits store.Limits) Env {
		e := frozen(t, limits)
		l := &liar{Store: e.Store}
		plant(l)
		return Env{Store: l, Advance: e.Advance}
	}
	run := property(t, frozen, subject)
	return rapid.Custom(func(rt *rapid.T) (found string) {
		defer func() {
			if failure := recover(); rt.Failed() {
				found = fmt.Sprint(failure)
			} else if failure != nil {
				panic(failure)
			}
		}()
		run(rt)
		return ""
	}).Example(seed)
}

func frozen(_ testing.TB, limits store.Limits) Env {
	var now atomic.Int64
	now.Store(int64(execution.InstantOf(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))))
	s := memory.New(memory.Config{Limits: limits, Clock: func() execution.Instant { return execution.Instant(now.Load()) }})
	return Env{Store: s, Advance: func(d time.Duration) { now.Add(d.Microseconds()) }}
}

// liar changes what it is asked before it asks the store behind it.
type liar struct {
	store.Store

	submit     func(*store.Submission)
	resume     func(*store.ResumeRequest)
	beat       func(*store.Beat)
	read       func(*store.ReadRequest)
	checkpoint func(*execution.Checkpoint)
}

func (l *liar) Submit(ctx context.Context, s store.Submission) (store.Submitted, error) {
	if l.submit != nil {
		l.submit(&s)
	}
	return l.Store.Submit(ctx, s)
}

func (l *liar) Resume(ctx context.Context, r store.ResumeRequest) (store.Resumed, error) {
	if l.resume != nil {
		l.resume(&r)
	}
	return l.Store.Resume(ctx, r)
}

func (l *liar) Beat(ctx context.Context, beats []store.Beat) ([]store.Beaten, error) {
	own := append([]store.Beat(nil), beats...)
	for i := range own {
		if l.beat != nil {
			l.beat(&own[i])
		}
	}
	return l.Store.Beat(ctx, own)
}

func (l *liar) Read(ctx context.Context, r store.ReadRequest) (store.Record, error) {
	if l.read != nil {
		l.read(&r)
	}
	return l.Store.Read(ctx, r)
}

func (l *liar) Transition(ctx context.Context, c execution.Control, cmd execution.Command) (store.Transitioned, error) {
	if checkpoint, ok := cmd.(execution.Checkpoint); ok && l.checkpoint != nil {
		l.checkpoint(&checkpoint)
		cmd = checkpoint
	}
	return l.Store.Transition(ctx, c, cmd)
}
