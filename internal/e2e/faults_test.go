package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/faultkit"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
	"github.com/windrow-run/windrow/internal/store/storetest"
)

// crew is some runtimes on one namespace, with a checker that hears of all that they are told.
type crew struct {
	*testing.T
	checker *storetest.Checker
	prefix  string
	direct  *redis.Store // past every fault
}

func newCrew(t *testing.T, url, prefix string) *crew {
	t.Helper()
	c := &crew{T: t, checker: storetest.NewChecker(), prefix: prefix}
	c.direct = c.open(url)
	return c
}

func (c *crew) open(url string) *redis.Store {
	c.Helper()
	s, err := redis.New(redis.Config{URL: url, Prefix: c.prefix})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = s.Close() }) // nothing is left to be lost
	if err := s.Open(c.Context()); err != nil {
		c.Fatal(err)
	}
	return s
}

// join runs one more runtime, whose way to Redis is the URL, until the test ends.
func (c *crew) join(url string, lease time.Duration, run handler.Func) *runtime.Runtime {
	c.Helper()
	return c.joinFeeding(url, lease, run, nil)
}

// joinFeeding runs one that tells of its attempts.
func (c *crew) joinFeeding(url string, lease time.Duration, run handler.Func, feed func(string, int64) runtime.Feed) *runtime.Runtime {
	c.Helper()
	d := handler.Deployment{Name: "d", Revision: "r", Handler: run}
	d.Options.Slots, d.Options.Lease = 10, lease
	d.Options.Budgets = execution.Budgets{LostLeases: 1000, Retries: 2, Claims: 1000}
	rt, err := runtime.New(runtime.Params{Store: storetest.Observe(c.open(url), c.checker), Deployments: []handler.Deployment{d},
		Settings: runtime.Settings{PollInterval: 500 * time.Millisecond, MaintenanceInterval: 500 * time.Millisecond,
			ExchangeTimeout: time.Second, BackoffMax: 500 * time.Millisecond, ShutdownGrace: -1},
		Compact: func(raw []byte) ([]byte, error) {
			var b bytes.Buffer
			err := json.Compact(&b, raw)
			return b.Bytes(), err
		},
		CompileSchema: func([]byte) (handler.Schema, error) { return nil, nil }, Feed: feed})
	if err != nil {
		c.Fatal(err)
	}
	ctx, halt := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- rt.Run(ctx) }()
	c.Cleanup(func() {
		halt()
		if err := <-done; err != nil {
			c.Error(err)
		}
	})
	return rt
}

// submit hands work in under a key, as often as it takes.
func (c *crew) submit(rt *runtime.Runtime, key string) string {
	c.Helper()
	for {
		out, err := rt.Submit(c.Context(), runtime.SubmitRequest{Deployment: "d", Key: key, Body: []byte(`1`), Input: []byte(`1`)})
		if err == nil {
			return out.Record.Control.ID
		}
		if !execution.Is(err, execution.CodeUnconfirmed) && !execution.Is(err, execution.CodeUnavailable) {
			c.Fatal(err)
		}
	}
}

// ended waits until all have completed, and returns them.
func (c *crew) ended(ctx context.Context, ids []string) []store.Record {
	c.Helper()
	records := make([]store.Record, len(ids))
	for i, id := range ids {
		eventually(c.T, ctx, "the end of "+id, func() bool {
			r, err := c.direct.Read(ctx, store.ReadRequest{ID: id, Scope: store.Scope{All: true}, Log: true, LogLimit: 10_000, History: 20})
			if err != nil {
				return false
			}
			c.checker.Told(r)
			records[i] = r
			return r.Control.Status.Terminal()
		})
		if s := records[i].Control.Status; s != execution.Completed {
			c.Errorf("%s is %s: %s", id, s, records[i].Error)
		}
		c.checker.Ended("record", id, records[i].Control.Status)
	}
	return records
}

func (c *crew) verify() {
	c.Helper()
	counts, err := c.direct.Counts(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	c.checker.AtRest(counts)
	c.checker.Assert(c.T)
}

// chunksOf is how many chunks of each attempt stand in the log. They must stand there once and without a hole.
func (c *crew) chunksOf(r store.Record) map[int64]int64 {
	c.Helper()
	next := map[int64]int64{}
	for _, e := range r.Log {
		if e.Kind != execution.EntryChunks {
			continue
		}
		b, err := execution.DecodeChunkBatch(e.Data)
		if err != nil {
			c.Fatal(err)
		}
		if b.First != next[b.Attempt] {
			c.Errorf("%s: chunk %d of attempt %d stands where %d belongs", r.Control.ID, b.First, b.Attempt, next[b.Attempt])
		}
		next[b.Attempt] = b.First + int64(len(b.Chunks))
	}
	return next
}

// One exchange in twenty is cut, before, after or within: every execution is claimed once, runs once, and ends with each of
// its chunks once.
func TestCutWhileRunning(t *testing.T) {
	t.Parallel()
	ctx := within(t, 5*time.Minute)
	proxy := faultkit.NewProxy(t, redistest.URL(t), nil)
	c := newCrew(t, redistest.URL(t), redistest.Prefix(t))
	var runs atomic.Int64
	rt := c.join(proxy.URL(), 30*time.Second, func(ctx context.Context, a handler.Attempt) handler.Outcome {
		runs.Add(1)
		for turn := range 3 {
			for n := range 5 {
				if err := a.Stream(strconv.AppendInt(nil, int64(n), 10)); err != nil {
					return handler.Failed{Cause: err}
				}
			}
			if err := a.Save(ctx, fmt.Appendf(nil, `"%s %d"`, a.Info().ID, turn)); err != nil {
				return handler.Failed{Cause: err}
			}
		}
		return handler.Completed{Result: []byte(`1`)}
	})
	proxy.Break(faultkit.Rate(1, 0.05, faultkit.Cuts()))
	var ids []string
	for n := range faultkit.Count(t, 200, 1000) {
		ids = append(ids, c.submit(rt, fmt.Sprint("key", n)))
	}
	short := 0
	for _, r := range c.ended(ctx, ids) {
		k := r.Control
		if k.Attempt != 1 || k.LostLeases != 0 || k.Claims != 0 {
			t.Errorf("%s took %d attempts, %d lost leases, %d claims", k.ID, k.Attempt, k.LostLeases, k.Claims)
		}
		if n := c.chunksOf(r)[1]; n < 15 {
			short++ // chunks are best effort: what two cuts in a row kept back at the end is left behind
		}
	}
	c.verify()
	if n := int(runs.Load()); n != len(ids) || proxy.Broken() == 0 || short > len(ids)/20 {
		t.Errorf("%d executions ran %d times, %d with chunks left behind; %d exchanges were cut", len(ids), n, short, proxy.Broken())
	}
	t.Logf("figures: %d exchanges were cut, %d of %d executions have left chunks behind", proxy.Broken(), short, len(ids))
}

// The server's clock is set ten minutes forward and back while work runs, and each time a process dies. Leases may be lost;
// fences and stamps grow, and all work comes to its end soon, also that of the dead.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	clock := faultkit.NewClock(t)
	server := redistest.Private(t, redistest.Options{Env: clock.Env()})
	network := faultkit.NewNetwork(t, server.URL())
	c := newCrew(t, server.URL(), "clock")
	const lease = 2 * time.Second
	first, second := make(chan struct{}), make(chan struct{})
	alive := c.join(server.URL(), lease, turning(first))
	c.join(network.URL(), lease, turning(second))
	for round := range 2 * faultkit.Count(t, 2, 20) {
		by := 10 * time.Minute
		if round%2 == 1 {
			by = -by
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		ids := c.atWork(ctx, alive, fmt.Sprint(round), first, second)
		clock.Step(by)
		network.Down()
		began := time.Now()
		var lost int64
		for _, r := range c.ended(ctx, ids) {
			lost += r.Control.LostLeases
			c.chunksOf(r)
		}
		cancel()
		t.Logf("figures: after a step of %v all ended in %v, %d leases were lost", by, time.Since(began).Round(time.Millisecond), lost)
		if lost == 0 {
			t.Error("no lease was lost, so that nothing was proved")
		}
		network.Up()
	}
	c.verify()
}

// atWork hands work in until all processes that tell of their turns are at it: one that still comes back from an outage may
// find that another has taken all there was.
func (c *crew) atWork(ctx context.Context, rt *runtime.Runtime, key string, turns ...<-chan struct{}) (ids []string) {
	c.Helper()
	hand := func() {
		for range 15 {
			ids = append(ids, c.submit(rt, fmt.Sprint(key, "-", len(ids))))
		}
	}
	hand()
	more := time.NewTicker(time.Second)
	defer more.Stop()
	for _, turn := range turns {
		for waits := true; waits; {
			select {
			case <-turn:
				waits = false
			case <-more.C:
				hand()
			case <-ctx.Done():
				c.Fatal("not all processes came to work")
			}
		}
	}
	return ids
}

// turning is work of twenty turns with a checkpoint each. Each is told of where somebody listens.
func turning(turns chan<- struct{}) handler.Func {
	return func(ctx context.Context, a handler.Attempt) handler.Outcome {
		for turn := range 20 {
			if err := a.Stream([]byte(`"chunk"`)); err != nil {
				return handler.Failed{Cause: err}
			}
			if err := a.Save(ctx, fmt.Appendf(nil, `"%s %d %d"`, a.Info().ID, a.Info().Number, turn)); err != nil {
				return handler.Failed{Cause: err}
			}
			select {
			case turns <- struct{}{}:
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return handler.Stopped{}
			}
		}
		return handler.Completed{Result: []byte(`1`)}
	}
}
