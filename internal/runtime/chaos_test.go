package runtime

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/memory"
	"github.com/windrow-run/windrow/internal/store/storetest"
)

// Whatever is lost between processes and their store, and however processes crash, drain and come back, what must always
// hold does, and all work comes to an end.
func TestChaos(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(k *kit) {
				c := &chaos{kit: k, shared: memory.New(memory.Config{}), checker: storetest.NewChecker(),
					rand: rand.New(rand.NewPCG(seed, 7)), working: map[string]map[context.Context]bool{}}
				c.play()
			})
		})
	}
}

// chaos is three processes on one store, and a client that talks to any of them.
type chaos struct {
	*kit
	shared  *memory.Store
	checker *storetest.Checker
	rand    *rand.Rand
	nodes   [3]*node
	ids     []string

	mu      sync.Mutex // guards the following
	working map[string]map[context.Context]bool
	known   map[string]bool
	marks   int
}

// node is one process.
type node struct {
	store *faulty
	rt    *Runtime
	halt  context.CancelFunc
	done  chan error
}

func (c *chaos) play() {
	c.known = map[string]bool{}
	for i := range c.nodes {
		c.nodes[i] = c.boot()
	}
	for range 300 {
		c.pass(time.Duration(c.rand.IntN(400)) * time.Millisecond)
		c.act()
	}
	for _, n := range c.nodes {
		n.store.heal()
	}
	c.pass(20 * time.Minute)
	c.verify()
	for _, n := range c.nodes {
		c.ok(n.rt.Close(c.Context()))
		c.ok(<-n.done)
	}
	c.pass(time.Hour) // handlers that were left behind end
}

func (c *chaos) boot() *node {
	r := rand.New(rand.NewPCG(c.rand.Uint64(), 1))
	n := &node{store: newFaulty(c.shared)}
	n.store.random = func() fault { // called under the store's lock
		if r.IntN(100) < 85 {
			return 0
		}
		return []fault{lostRequest, lostReply, hung}[r.IntN(3)]
	}
	d := deploy(c.handle)
	d.Options.Slots, d.Options.Lease = 3, 6*time.Second
	d.Options.Budgets = execution.Budgets{LostLeases: 4, Retries: 2, Claims: 20}
	p := c.params(d)
	p.Store = &admissions{storetest.Observe(n.store, c.checker), c}
	p.Settings.ShutdownGrace = 2 * time.Second
	p.Settings.ReleaseOnClose = c.rand.IntN(2) == 0
	n.rt = c.make(p)
	n.halt, n.done = c.run(n.rt)
	return n
}

// act is one thing that happens.
func (c *chaos) act() {
	i := c.rand.IntN(len(c.nodes))
	n := c.nodes[i]
	switch p := c.rand.IntN(100); {
	case p < 2: // a crash: from one moment to the next nothing reaches the store any more
		n.store.every([]fault{lostRequest, hung}[c.rand.IntN(2)])
		n.halt()
		c.nodes[i] = c.boot()
	case p < 5: // a rolling deploy
		go func() {
			_ = n.rt.Close(context.Background()) // whether all stopped is the handlers' affair
			n.halt()
		}()
		c.nodes[i] = c.boot()
	case p < 50:
		c.hand(n)
	case len(c.ids) == 0:
	case p < 60:
		_, _ = n.rt.Cancel(c.Context(), c.any(), everyone, "")
	case p < 90:
		id := c.any()
		_, _ = n.rt.Resume(c.Context(), ResumeRequest{ID: id, Scope: everyone, Key: []string{"", "a", "b"}[c.rand.IntN(3)],
			Body: []byte(`"yes"`), Input: []byte(`"yes"`)})
	default:
		_, _ = n.rt.Get(c.Context(), store.ReadRequest{ID: c.any(), Scope: everyone})
	}
}

func (c *chaos) any() string { return c.ids[c.rand.IntN(len(c.ids))] }

// hand submits work, sometimes under a key that was used before. Refusals, and outcomes that stay open, are part of the game.
func (c *chaos) hand(n *node) {
	req := SubmitRequest{Deployment: "d", Input: []byte(`1`), Body: fmt.Appendf(nil, `%d`, c.rand.IntN(2))}
	if c.rand.IntN(2) == 0 {
		req.Key = fmt.Sprint("key", c.rand.IntN(10))
	}
	if out, err := n.rt.Submit(c.Context(), req); err == nil {
		c.ids = append(c.ids, out.Record.Control.ID)
	}
}

// handle does a little of everything, and holds that no older attempt of its execution still may work.
func (c *chaos) handle(ctx context.Context, a handler.Attempt) handler.Outcome {
	defer c.enter(ctx, a.Info().ID)()
	for range rand.IntN(6) {
		var err error
		switch rand.IntN(5) {
		case 0:
			err = a.Save(ctx, c.mark())
		case 1:
			err = a.Report(ctx, "step", "m", nil, rand.IntN(2) == 0)
		case 2:
			err = a.Stream([]byte(`"chunk"`))
		case 3:
			err = a.Check(ctx)
		default:
			select {
			case <-time.After(time.Duration(rand.IntN(4000)) * time.Millisecond):
			case <-ctx.Done():
				return handler.Stopped{}
			}
		}
		if err != nil {
			return handler.Failed{Cause: err}
		}
	}
	return c.outcome(a)
}

func (c *chaos) outcome(a handler.Attempt) handler.Outcome {
	switch rand.IntN(8) {
	case 0:
		return handler.Retried{Delay: -1}
	case 1:
		return handler.Failed{Error: execution.Failure{Type: "Unlucky"}}
	case 2:
		panic("unlucky")
	case 3:
		<-time.After(5 * time.Second) // deaf to its context
	case 4, 5:
		if a.Answer() == nil {
			w := execution.Wait{Schema: []byte(`["yes"]`)}
			if rand.IntN(2) == 0 {
				w.Default = []byte(`"yes"`)
			}
			return handler.Suspended{Checkpoint: c.mark(), Wait: w, Timeout: 30 * time.Second}
		}
	}
	return handler.Completed{Result: c.mark()}
}

// mark is JSON that nobody else has.
func (c *chaos) mark() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marks++
	return fmt.Appendf(nil, `%d`, c.marks)
}

func (c *chaos) enter(ctx context.Context, id string) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := range c.working[id] {
		if other.Err() == nil {
			c.Errorf("two attempts of %s may work at once", id)
		}
	}
	if c.working[id] == nil {
		c.working[id] = map[context.Context]bool{}
	}
	c.working[id][ctx] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.working[id], ctx)
	}
}

func (c *chaos) verify() {
	c.Helper()
	for id := range c.known {
		r, err := c.shared.Read(context.Background(), store.ReadRequest{ID: id, Scope: everyone, History: execution.MaxHistory})
		c.ok(err)
		c.checker.Told(r)
		c.checker.Ended("record", id, r.Control.Status)
	}
	counts, err := c.shared.Counts(context.Background())
	c.ok(err)
	c.checker.AtRest(counts)
	c.checker.Assert(c.T)
	if len(c.known) < 50 {
		c.Fatalf("only %d executions took part", len(c.known))
	}
}

// admissions notes what was admitted.
type admissions struct {
	store.Store
	chaos *chaos
}

func (a *admissions) Submit(ctx context.Context, s store.Submission) (store.Submitted, error) {
	out, err := a.Store.Submit(ctx, s)
	if err == nil {
		a.chaos.mu.Lock()
		defer a.chaos.mu.Unlock()
		a.chaos.known[out.Record.Control.ID] = true
	}
	return out, err
}
