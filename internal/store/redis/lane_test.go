package redis_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// atOnce runs f for each of n callers, whose changes leave together, and returns the errors.
func (k *kit) atOnce(n int, f func(i int) error) []error {
	k.Helper()
	await, release := k.store.Ground(0)
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	await(n)
	release()
	wg.Wait()
	return errs
}

// What concurrent callers want is one command of the client, and the commands that write to indexes are those of one.
func TestTogetherCost(t *testing.T) {
	t.Parallel()
	const n = 3
	server := redistest.Private(t, redistest.Options{})
	k := openKit(t, redis.Config{URL: server.URL(), Prefix: "together"})
	k.complete(k.start()) // scripts become known
	m := newMonitor(t, server)
	subs := []store.Submission{k.submission(), k.submission(), k.submission()}
	check := func(name string, once, each []string, f func(i int) error) {
		t.Helper()
		client, ran := m.during(func() { k.ok(errors.Join(k.atOnce(n, f)...)) })
		if diff := cmp.Diff([]string{"EVALSHA"}, client); diff != "" {
			t.Errorf("%s: commands of the client (-want +got):\n%s", name, diff)
		}
		want := slices.Concat(once, slices.Repeat(each, n))
		slices.Sort(want)
		slices.Sort(ran)
		if diff := cmp.Diff(want, ran); diff != "" {
			t.Errorf("%s: commands of the script (-want +got):\n%s", name, diff)
		}
	}
	check("submit", []string{"TIME", "EXISTS", "HMGET", "ZCARD", "ZRANGE", "PUBLISH", "ZADD", "ZADD", "ZADD", "HSET"}, []string{"HSET", "SET"},
		func(i int) error {
			_, err := k.store.Submit(t.Context(), subs[i])
			return err
		})
	claimed := k.poll(n).Claimed
	owned := []execution.Owned{k.owned(claimed[0].Control), k.owned(claimed[1].Control), k.owned(claimed[2].Control)}
	check("complete", []string{"TIME", "HMGET", "ZREM", "ZREM", "ZADD", "HDEL"},
		[]string{"HGETALL", "HSET", "HDEL", "SET", "PEXPIRE", "PEXPIRE"}, func(i int) error {
			_, err := k.store.Transition(t.Context(), claimed[i].Control, execution.Complete{Owned: owned[i], Result: []byte("1")})
			return err
		})
}

// One that can't be written fails alone: its neighbours stand in every index, and are counted.
func TestTogetherOneFails(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	subs := make([]store.Submission, 5)
	for i := range subs {
		subs[i] = k.submission()
	}
	subs[2].Owner = strings.Repeat("o", 100) // stands in a key of its own
	k.ok(redistest.Client(t).Set(t.Context(), k.key("m:"+subs[2].ID), "no hash", 0).Err())
	errs := k.atOnce(len(subs), func(i int) error {
		_, err := k.store.Submit(t.Context(), subs[i])
		return err
	})
	for i, err := range errs {
		if i == 2 {
			k.refused(err, execution.CodeCorrupt)
		} else {
			k.ok(err)
		}
	}
	if got := len(k.poll(10).Claimed); got != 4 {
		t.Errorf("%d were claimed, want the 4 that nothing was wrong with", got)
	}
	counts, err := k.store.Counts(t.Context())
	k.ok(err)
	if len(counts.Revisions) != 1 || counts.Revisions[0].Nonterminal != 4 {
		t.Errorf("counted %+v, want 4 unfinished", counts)
	}
}

// What nobody waits for any more is not sent, and the error says so.
func TestTogetherGivenUp(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	await, release := k.store.Ground(0)
	sub := k.submission()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := k.store.Submit(ctx, sub)
		failed <- err
	}()
	await(1)
	cancel()
	err := <-failed
	var e *execution.Error
	if !errors.As(err, &e) || e.Code != execution.CodeUnavailable || !e.Unchanged {
		t.Errorf("error %v, want one that says that nothing was changed", err)
	}
	release()
	_, err = k.store.Read(t.Context(), store.ReadRequest{ID: sub.ID, Scope: store.Scope{All: true}})
	k.refused(err, execution.CodeNotFound)
	k.submit() // the lane goes on
}
