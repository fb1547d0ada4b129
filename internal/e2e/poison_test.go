package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

const (
	poisonLease = 500 * time.Millisecond
	poisonCycle = 500 * time.Millisecond // poll and maintenance interval
)

// mortals are servers that are started again each time they die, without anybody who talks to them.
type mortals struct {
	t    *testing.T
	args []string
	all  sync.WaitGroup

	mu     sync.Mutex // guards the following
	deaths []time.Time
}

// raise keeps n servers alive until the returned function is called, which waits for their end.
func (m *mortals) raise(n int) (end func()) {
	ctx, cancel := context.WithCancel(m.t.Context())
	for range n {
		m.all.Go(func() {
			for ctx.Err() == nil {
				m.live(ctx)
			}
		})
	}
	return func() {
		cancel()
		m.all.Wait()
	}
}

func (m *mortals) live(ctx context.Context) {
	cmd := exec.CommandContext(ctx, os.Args[0], m.args...)
	cmd.Env = append(os.Environ(), serveHard+"=1")
	if err := cmd.Run(); ctx.Err() != nil {
		return
	} else if err == nil || cmd.ProcessState.ExitCode() != 137 {
		m.t.Errorf("a server ended with %v", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deaths = append(m.deaths, time.Now())
}

// before counts the deaths until then.
func (m *mortals) before(then time.Time) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range m.deaths {
		if !at.After(then) {
			n++
		}
	}
	return n
}

// ward is a store that executions are handed in to and read from, beside all servers.
type ward struct {
	t     *testing.T
	ctx   context.Context
	store *redis.Store
}

// newWard opens a store on a Redis of its own.
func newWard(t *testing.T, limit time.Duration, partitions int) (*ward, *redistest.Server) {
	t.Helper()
	server := redistest.Private(t, redistest.Options{})
	s, err := redis.New(redis.Config{URL: server.URL(), Prefix: "windrow", Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // nothing is left to lose
	w := &ward{t, within(t, limit), s}
	if err := s.Open(w.ctx); err != nil {
		t.Fatal(err)
	}
	return w, server
}

func (w *ward) submit(deployment, input string, n int) (ids []string) {
	w.t.Helper()
	for range n {
		id := w.store.NewID(store.Key{})
		_, err := w.store.Submit(w.ctx, store.Submission{Submit: execution.Submit{ID: id, Deployment: deployment, Revision: "1",
			Budgets: execution.DefaultBudgets(), Input: []byte(input)}})
		if err != nil {
			w.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// ends waits until all have ended and returns them.
func (w *ward) ends(ids []string) (out []store.Record) {
	w.t.Helper()
	for _, id := range ids {
		var r store.Record
		eventually(w.t, w.ctx, "the end of "+id, func() bool {
			var err error
			r, err = w.store.Read(w.ctx, store.ReadRequest{ID: id, Scope: store.Scope{All: true}})
			if err != nil {
				w.t.Fatal(err)
			}
			return r.Control.Status.Terminal()
		})
		out = append(out, r)
	}
	return out
}

// Work that takes its process down at once fails after its third lost lease, and good work beside it never does: what lost
// two leases to its neighbours runs alone from then on. A good execution is delayed by no more than what the claims of poison
// before its end cost, each a lease and the start of a server, and by its own lost leases.
func TestPoisonBesideGoodWork(t *testing.T) {
	t.Parallel()
	poisonFleet(t, 1)
}

// The same over several partitions, each of which could hand work out beside another's.
func TestPoisonOverPartitions(t *testing.T) {
	t.Parallel()
	poisonFleet(t, 4)
}

func poisonFleet(t *testing.T, partitions int) {
	t.Helper()
	n, limit := 10, 2*time.Minute
	if long() {
		n, limit = 100, 8*time.Minute
	}
	w, server := newWard(t, limit, partitions)
	m := &mortals{t: t, args: []string{"dev", "--redis", server.URL(), "--addr", "127.0.0.1:0", "--partitions", fmt.Sprint(partitions),
		"--lease", poisonLease.String(), "--poll", poisonCycle.String(), "--maintenance", poisonCycle.String(), "--slots", "4"}}

	began := time.Now()
	end := m.raise(1)
	w.ends(w.submit("nap", "1", 1))
	start := time.Since(began) // of a server, until it has run something
	end()

	poison, good := w.submit("poison", "0", n), w.submit("nap", "50", n)
	began = time.Now()
	defer m.raise(2)()
	w.checkGood(good, m, began, start)
	w.checkPoison(poison)
	t.Logf("figures: %d deaths in %s; a server needs %s to start", m.before(time.Now()), time.Since(began).Round(time.Millisecond), start)
}

func (w *ward) checkGood(ids []string, m *mortals, began time.Time, start time.Duration) {
	w.t.Helper()
	var last time.Duration
	lost := map[int64]int{}
	for _, r := range w.ends(ids) {
		c := r.Control
		lost[c.LostLeases]++
		if c.Status != execution.Completed {
			w.t.Errorf("good work is %s after %d lost leases: %s", c.Status, c.LostLeases, r.Error)
			continue
		}
		at := time.UnixMilli(c.UpdatedAt)
		took, deaths := at.Sub(began), m.before(at)
		// Its own leases, each until somebody looks, and its own claims; and what the deaths before its end cost, in turn.
		most := time.Duration(c.LostLeases)*(poisonLease+poisonCycle) + 2*start + time.Duration(deaths)*(poisonLease+start)
		if took > most {
			w.t.Errorf("good work took %s with %d lost leases and %d deaths before its end, want at most %s", took, c.LostLeases, deaths, most)
		}
		last = max(last, took)
	}
	w.t.Logf("figures: good: all %d after %s and %d deaths, by lost leases %v", len(ids), last, m.before(began.Add(last)), lost)
}

func (w *ward) checkPoison(ids []string) {
	w.t.Helper()
	for _, r := range w.ends(ids) {
		c := r.Control
		f, err := execution.DecodeFailure(r.Error)
		if c.Status != execution.Failed || err != nil || f.Code != execution.FailureLeaseLost || c.Attempt != 3 || c.LostLeases != 3 {
			w.t.Errorf("poison is %s at attempt %d after %d lost leases: %s", c.Status, c.Attempt, c.LostLeases, r.Error)
		}
	}
}
