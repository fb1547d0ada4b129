package redis_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/faultkit"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// crowd is a store with very many executions, over some deployments. Its retention is so short that what has ended is
// overdue for removal as soon as somebody looks.
type crowd struct {
	*testing.T
	store  *redis.Store
	server *redistest.Server
	revs   []store.Revision
	tokens atomic.Int64
}

const (
	crowdSubmitters = 16
	crowdBatch      = 10 // executions that a submitter hands in, and claims, at once
)

func newCrowd(t *testing.T, slowest time.Duration) *crowd {
	t.Helper()
	server := redistest.Private(t, redistest.Options{Args: []string{
		"--slowlog-log-slower-than", fmt.Sprint(slowest.Microseconds()), "--slowlog-max-len", "100000"}})
	k := openKit(t, redis.Config{URL: server.URL(), Limits: store.Limits{TerminalTTL: time.Millisecond}})
	c := &crowd{T: t, store: k.store, server: server}
	for i := range 20 {
		c.revs = append(c.revs, store.Revision{Deployment: fmt.Sprint("kind-", i), Revision: "1"})
	}
	return c
}

func (c *crowd) ok(err error) {
	c.Helper()
	if err != nil {
		c.Error(err)
	}
}

func (c *crowd) token() string { return fmt.Sprint(c.tokens.Add(1)) }

// spread does so many pieces of work, in batches, from several submitters at once.
func (c *crowd) spread(n int, do func(rev store.Revision)) {
	var all sync.WaitGroup
	var next atomic.Int64
	for range crowdSubmitters {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i*crowdBatch >= n || c.Failed() {
					return
				}
				do(c.revs[i%len(c.revs)])
			}
		})
	}
	all.Wait()
}

// submit hands a batch in, with 512 bytes of input each; every other one has a key.
func (c *crowd) submit(rev store.Revision) {
	for i := range crowdBatch {
		sub := store.Submission{Submit: execution.Submit{Deployment: rev.Deployment, Revision: rev.Revision, Owner: "tenant-1234",
			Budgets: execution.DefaultBudgets(), Input: bytes.Repeat([]byte("i"), 512)}}
		if i%2 == 0 {
			sub.Key = store.Key{Owner: sub.Owner, Deployment: rev.Deployment, Value: c.token()}
		}
		sub.ID = c.store.NewID(sub.Key)
		_, err := c.store.Submit(c.Context(), sub)
		c.ok(err)
	}
}

func (c *crowd) claim(rev store.Revision, n int, lease time.Duration) []store.Claimed {
	p, err := c.store.Poll(c.Context(), store.PollRequest{Worker: "w", Token: c.token(), Revisions: []store.Want{{Revision: rev, Count: n, Lease: lease}}})
	c.ok(err)
	return p.Claimed
}

// life is a batch from its submission to its end, with a heartbeat, a chunk and a checkpoint each.
func (c *crowd) life(rev store.Revision) {
	c.submit(rev)
	for _, claimed := range c.claim(rev, crowdBatch, lease) {
		control := claimed.Control
		_, err := c.store.Beat(c.Context(), []store.Beat{{ID: control.ID, Ownership: owner(control), Lease: lease, Chunks: chunks(1, 0, "x")}})
		c.ok(err)
		control = c.do(control, execution.Checkpoint{Owned: c.owned(control), Data: []byte(`{"at":1}`), Lease: lease})
		c.do(control, execution.Complete{Owned: c.owned(control), Result: bytes.Repeat([]byte("r"), 512)})
		_, err = c.store.Read(c.Context(), store.ReadRequest{ID: control.ID, Scope: store.Scope{All: true}})
		c.ok(err)
	}
	_, err := c.store.Counts(c.Context())
	c.ok(err)
}

// finish is a batch from its submission to its end, and nothing else.
func (c *crowd) finish(rev store.Revision) {
	c.submit(rev)
	for _, claimed := range c.claim(rev, crowdBatch, lease) {
		c.do(claimed.Control, execution.Complete{Owned: c.owned(claimed.Control), Result: bytes.Repeat([]byte("r"), 512)})
	}
}

func (c *crowd) owned(control execution.Control) execution.Owned {
	return execution.Owned{Ownership: owner(control), Operation: c.token()}
}

func (c *crowd) do(control execution.Control, cmd execution.Command) execution.Control {
	after, err := c.store.Transition(c.Context(), control, cmd)
	c.ok(err)
	return after.Control
}

// maintain works until nothing is overdue.
func (c *crowd) maintain() (sum store.Maintained) {
	for {
		m, err := c.store.Maintain(c.Context(), 100)
		c.ok(err)
		sum.Removed += m.Removed
		sum.Requeued += m.Requeued
		if !m.More || c.Failed() {
			return sum
		}
	}
}

// slow fails the test for each command that took longer than the limit, and returns the longest.
func (c *crowd) slow(limit time.Duration) (longest time.Duration) {
	c.Helper()
	logs, err := c.server.Client().SlowLogGet(c.Context(), -1).Result()
	c.ok(err)
	for _, l := range logs {
		longest = max(longest, l.Duration)
		if l.Duration > limit {
			c.Errorf("%.80s took %s, at most %s", strings.Join(l.Args, " "), l.Duration, limit)
		}
	}
	return longest
}

// Whatever is stored, no command takes long, and none walks the keys.
func TestBudgetScale(t *testing.T) {
	stored, limit := 10_000, 2*time.Second // a machine that is busy with other tests
	if os.Getenv(faultkit.EnvReliability) == "long" {
		stored, limit = 1_000_000, 50*time.Millisecond
	}
	c := newCrowd(t, 5*time.Millisecond)
	phase := func(what string, n int, f func()) {
		t.Helper()
		begin := time.Now()
		f()
		took := time.Since(begin)
		t.Logf("figures: %-40s %8d in %6.1f s, %6.0f a second, longest command %s", what, n, took.Seconds(), float64(n)/took.Seconds(), c.slow(limit))
		c.ok(c.server.Client().Do(t.Context(), "SLOWLOG", "RESET").Err())
	}
	finished, overdue, fresh := stored*7/10, stored/100, stored/50
	phase("finished", finished, func() { c.spread(finished, c.finish) })
	phase("queued", stored-finished, func() { c.spread(stored-finished, c.submit) })
	phase("lives among them", fresh, func() { c.spread(fresh, c.life) })
	phase("claimed by who then dies", overdue, func() {
		c.spread(overdue, func(rev store.Revision) { c.claim(rev, crowdBatch, time.Millisecond) })
	})
	c.noWalks()
	phase("looked at by doctor, executions", stored+fresh, func() {
		report, err := redis.Diagnose(t.Context(), redis.Config{URL: c.server.URL()}, redis.Diagnosis{Rate: 1_000_000, Lease: time.Hour})
		c.ok(err)
		if len(report.Findings)+len(report.Unverified) != 0 {
			t.Errorf("%+v", report)
		}
	})
	var done store.Maintained
	phase("recovered or removed", finished+fresh+overdue, func() { done = c.maintain() })
	if done.Requeued != overdue {
		t.Errorf("%d were recovered, want %d", done.Requeued, overdue)
	}
	if done.Removed != finished+fresh {
		t.Errorf("%d were removed, want %d", done.Removed, finished+fresh)
	}
}

// noWalks fails the test where a command has walked the keys, or the members of one.
func (c *crowd) noWalks() {
	c.Helper()
	stats, err := c.server.Client().InfoMap(c.Context(), "commandstats").Result()
	c.ok(err)
	for _, walk := range []string{"cmdstat_keys", "cmdstat_scan", "cmdstat_hscan", "cmdstat_zscan", "cmdstat_sscan"} {
		if calls, ran := stats["Commandstats"][walk]; ran {
			c.Errorf("%s: %s", walk, calls)
		}
	}
}
