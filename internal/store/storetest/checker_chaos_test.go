package storetest_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/faultstore"
	"github.com/windrow-run/windrow/internal/store/memory"
	"github.com/windrow-run/windrow/internal/store/storetest"
)

var all = store.Scope{All: true}

// An honest store under workers that lose replies, vanish, and race with clients leaves nothing to find.
func TestCheckerOverChaos(t *testing.T) {
	t.Parallel()
	c := &chaos{T: t, checker: storetest.NewChecker()}
	c.now.Store(int64(execution.InstantOf(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))))
	c.store = faultstore.New(memory.New(memory.Config{Clock: func() execution.Instant { return execution.Instant(c.now.Load()) }}))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { c.worker(fmt.Sprint("w", i), 60) })
		wg.Go(func() { c.client(i, 40) })
	}
	wg.Wait()
	c.drain()
	c.checker.Assert(t)
}

type chaos struct {
	*testing.T

	checker *storetest.Checker
	store   *faultstore.Store
	now     atomic.Int64
	tokens  atomic.Int64
	mu      sync.Mutex // guards ids
	ids     []string
}

func (c *chaos) token() string { return fmt.Sprint("t", c.tokens.Add(1)) }

// lossy sends a request until its reply arrives. Some replies are lost.
func lossy[T any](c *chaos, m faultstore.Method, call func() (T, error)) (T, error) {
	if rand.IntN(5) == 0 {
		c.store.Inject(m, faultstore.Fault{Times: 1, After: rand.IntN(2) == 0, Before: rand.IntN(2) == 0})
	}
	for {
		out, err := call()
		if !execution.Is(err, execution.CodeUnavailable) {
			return out, err
		}
	}
}

func (c *chaos) client(racer, rounds int) {
	for i := range rounds {
		key := store.Key{Deployment: "d", Value: fmt.Sprint(i), Fingerprint: [32]byte{byte(racer % 2)}}
		id := c.store.NewID(key)
		s, err := lossy(c, faultstore.Submit, func() (store.Submitted, error) {
			return c.store.Submit(c.Context(), store.Submission{Key: key, Submit: execution.Submit{ID: id, Deployment: "d", Revision: "r",
				Budgets: execution.Budgets{LostLeases: 5, Retries: 5, Claims: 9}, Input: []byte("1")}})
		})
		switch {
		case execution.Is(err, execution.CodeKeyReused):
			c.checker.KeyRefused(key)
			continue
		case err != nil:
			c.Errorf("submit: %v", err)
			return
		}
		id = s.Record.Control.ID
		c.checker.Submitted(key, id)
		c.mu.Lock()
		c.ids = append(c.ids, id)
		other := c.ids[rand.IntN(len(c.ids))]
		c.mu.Unlock()
		c.disturb(other)
	}
}

// disturb answers, cancels or reads.
func (c *chaos) disturb(id string) {
	r, err := c.store.Read(c.Context(), store.ReadRequest{ID: id, Scope: all})
	if execution.Is(err, execution.CodeUnavailable) {
		return
	}
	if err != nil {
		c.Errorf("read: %v", err)
		return
	}
	c.checker.Observed(r)
	c.answer(r.Control)
	if rand.IntN(6) == 0 {
		r, err := lossy(c, faultstore.Cancel, func() (store.Record, error) { return c.store.Cancel(c.Context(), id, all, "") })
		if err != nil {
			c.Errorf("cancel: %v", err)
			return
		}
		c.checker.Canceled(r)
	}
}

func (c *chaos) answer(control execution.Control) {
	if control.Status != execution.Waiting {
		return
	}
	req := store.ResumeRequest{ID: control.ID, Scope: all, Checked: control.WaitSequence, Key: fmt.Sprint(control.WaitSequence),
		Answer: fmt.Appendf(nil, "%d", control.WaitSequence)}
	out, err := lossy(c, faultstore.Resume, func() (store.Resumed, error) { return c.store.Resume(c.Context(), req) })
	if err == nil {
		c.checker.Resumed(req, out)
	} else if !execution.Is(err, execution.CodeNotWaiting) {
		c.Errorf("resume: %v", err)
	}
}

func (c *chaos) worker(name string, rounds int) {
	for range rounds {
		c.now.Add(rand.Int64N(2_000_000))
		r := store.PollRequest{Worker: name, Token: c.token(), Revisions: []store.Want{
			{Revision: store.Revision{Deployment: "d", Revision: "r"}, Count: 3, Lease: 10 * time.Second}}}
		p, err := lossy(c, faultstore.Poll, func() (store.Polled, error) { return c.store.Poll(c.Context(), r) })
		if err != nil {
			c.Errorf("poll: %v", err)
			return
		}
		for _, claim := range p.Claimed {
			c.checker.Claimed(claim)
			c.attempt(claim)
		}
		if _, err := c.store.Maintain(c.Context(), 10); err != nil {
			c.Errorf("maintain: %v", err)
		}
	}
}

// attempt lives one attempt: some steps, then one of many ways out, of which vanishing is one.
func (c *chaos) attempt(claim store.Claimed) {
	control := claim.Control
	for control.Status == execution.Running {
		o := execution.Owned{Ownership: execution.Ownership{Worker: control.Worker, Token: control.Token, Fence: claim.Control.Fence},
			Operation: c.token(), Progress: []execution.Event{{Kind: "k"}}}
		data := fmt.Appendf(nil, "%q", o.Operation)
		cmds := []execution.Command{
			execution.Checkpoint{Owned: o, Data: data, Lease: 10 * time.Second},
			execution.Suspend{Owned: o, Checkpoint: data, Wait: []byte("{}")},
			execution.Report{Owned: o},
			execution.Retry{Owned: o, Error: execution.Failure{Code: "c"}},
			execution.Complete{Owned: o, Result: []byte("1")},
			execution.Release{Owned: o},
		}
		n := rand.IntN(len(cmds) + 1)
		if n == len(cmds) {
			return // the worker vanishes
		}
		if n > 1 {
			data = nil
		}
		op := c.checker.Begin(control.ID, claim.Control.Fence, data)
		after, err := lossy(c, faultstore.Transition, func() (execution.Control, error) {
			out, err := c.store.Transition(c.Context(), control, cmds[n])
			return out.Control, err
		})
		if err != nil {
			if !execution.Is(err, execution.CodeLeaseLost) {
				c.Errorf("%s: %v", execution.Name(cmds[n]), err)
			}
			return
		}
		op.Committed(after, data)
		control = after
	}
}

// drain lets everything end, then looks at what is left.
func (c *chaos) drain() {
	c.store.Heal()
	for range 40 {
		c.now.Add(20_000_000)
		if _, err := c.store.Maintain(c.Context(), 1000); err != nil {
			c.Fatal(err)
		}
		for _, id := range c.ids {
			r, err := c.store.Cancel(c.Context(), id, all, "")
			if err != nil {
				c.Fatal(err)
			}
			c.checker.Canceled(r)
		}
	}
	counts, err := c.store.Counts(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	c.checker.AtRest(counts)
}
