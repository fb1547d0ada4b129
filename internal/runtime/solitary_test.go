package runtime

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/store"
)

// lastChance hands work in that has lost two of its three leases.
func (k *kit) lastChance() string {
	k.Helper()
	id := k.submitElsewhere()
	for range 2 {
		if got := k.claimElsewhere(time.Second).Control.ID; got != id {
			k.Fatalf("claimed %s, want %s", got, id)
		}
		k.pass(time.Second)
		_, err := k.store.Store.Maintain(k.Context(), 100)
		k.ok(err)
	}
	return id
}

// company records who ran when, and who ran beside work on its last chance.
type company struct {
	mu      sync.Mutex // guards the following
	order   []string
	running map[string]int64 // to the attempt
	most    int
	broken  []string
}

// during is a handler that takes so long, and minds nothing but the end of its lease.
func (c *company) during(d time.Duration) handler.Func {
	return func(ctx context.Context, a handler.Attempt) handler.Outcome {
		c.enter(a.Info().ID, a.Info().Number)
		defer c.leave(a.Info().ID)
		select {
		case <-time.After(d):
			return handler.Completed{}
		case <-ctx.Done():
			return handler.Stopped{}
		}
	}
}

// staggered is during, but for half as long the first time: two slots never become free at once.
func (c *company) staggered(d time.Duration) handler.Func {
	first := make(chan time.Duration, 1)
	first <- d / 2
	return func(ctx context.Context, a handler.Attempt) handler.Outcome {
		select {
		case half := <-first:
			return c.during(half)(ctx, a)
		default:
			return c.during(d)(ctx, a)
		}
	}
}

func (c *company) enter(id string, attempt int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		c.running = map[string]int64{}
	}
	c.order = append(c.order, id)
	c.running[id] = attempt
	c.most = max(c.most, len(c.running))
	for other, n := range c.running {
		if n == 3 && len(c.running) > 1 {
			c.broken = append(c.broken, other)
		}
	}
}

func (c *company) leave(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, id)
}

func (c *company) seen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.order)
}

// kept asserts that nothing ever ran beside work on its last chance.
func (c *company) kept(k *kit) {
	k.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.broken) > 0 {
		k.Errorf("ran beside others on their last chance: %v", c.broken)
	}
}

// Work on its last chance runs alone, also where there are many slots, and is claimed as soon as the process is empty; what
// comes meanwhile runs when it has ended.
func TestSolitary(t *testing.T) {
	inBubble(t, func(k *kit) {
		var c company
		d := deploy(c.during(10 * time.Second))
		d.Options.Slots = 4
		other := deploy(c.during(10 * time.Second))
		other.Name = "other"
		alone := k.lastChance()
		beside := []string{k.submitElsewhere(), k.submitElsewhere()}
		k.start(k.params(other, d))
		for _, id := range beside {
			k.is(id, execution.Running)
		}
		k.is(alone, execution.Queued)
		k.pass(10 * time.Second)
		for _, id := range beside {
			k.is(id, execution.Completed)
		}
		k.is(alone, execution.Running)
		later := k.submitElsewhere()
		k.pass(9 * time.Second)
		k.is(later, execution.Queued)
		k.pass(time.Second)
		if got := k.is(alone, execution.Completed); got.Attempt != 3 || got.LostLeases != 2 {
			k.Errorf("attempt %d, %d lost leases, want 3 and 2", got.Attempt, got.LostLeases)
		}
		k.is(later, execution.Running)
		k.pass(10 * time.Second)
		k.is(later, execution.Completed)
		c.kept(k)
	})
}

// An idle process hears of work on its last chance at once, and of all of it.
func TestSolitaryPickup(t *testing.T) {
	inBubble(t, func(k *kit) {
		var c company
		ids := []string{k.lastChance(), k.lastChance(), k.lastChance()}
		k.start(k.params(deploy(c.during(time.Second))))
		k.pass(3 * time.Second)
		for _, id := range ids {
			k.is(id, execution.Completed)
		}
		before := k.store.count("poll")
		id := k.submitElsewhere()
		k.pass(time.Second)
		k.is(id, execution.Completed)
		if n := k.store.count("poll") - before; n > 3 {
			k.Errorf("%d polls for other work, want at most 3: by the doorbell, for more, and the interval's", n)
		}
	})
}

// Neither kind of work waits behind all of the other.
func TestSolitaryAlternates(t *testing.T) {
	inBubble(t, func(k *kit) {
		var c company
		kinds := map[string]string{}
		for range 4 {
			kinds[k.lastChance()] = "L"
		}
		for range 4 {
			kinds[k.submitElsewhere()] = "n"
		}
		k.start(k.params(deploy(c.during(time.Second))))
		k.pass(8 * time.Second)
		var got strings.Builder
		for _, id := range c.seen() {
			got.WriteString(kinds[id])
			k.is(id, execution.Completed)
		}
		if got.String() != "nLnLnLnL" {
			k.Errorf("order %s, want one after the other", &got)
		}
	})
}

// Under constant load a process becomes empty for work on its last chance once that has waited for a lease, and goes on
// afterwards.
func TestSolitaryDrains(t *testing.T) {
	inBubble(t, func(k *kit) {
		var c company
		first := make(chan time.Duration, 1)
		first <- 5 * time.Second // so that the two slots never become free at the same time
		d := deploy(func(ctx context.Context, a handler.Attempt) handler.Outcome {
			select {
			case d := <-first:
				return c.during(d)(ctx, a)
			default:
				return c.during(10*time.Second)(ctx, a)
			}
		})
		d.Options.Slots = 2
		alone := k.lastChance()
		began := time.Now()
		for range 20 {
			k.submitElsewhere()
		}
		k.start(k.params(d))
		for k.read(alone).Control.Status == execution.Queued {
			k.pass(time.Second)
		}
		// A lease, at most one poll until the process is told, and the handlers that run.
		if took := time.Since(began); took < 30*time.Second || took > 30*time.Second+5*time.Second+10*time.Second {
			k.Errorf("it waited for %s", took)
		}
		if !strings.Contains(k.log.String(), "nothing is claimed until") {
			k.Error("the log does not say why nothing is claimed")
		}
		before := len(c.seen())
		k.pass(10 * time.Second)
		k.is(alone, execution.Completed)
		k.pass(10 * time.Second)
		if n := len(c.seen()) - before; n < 2 {
			k.Errorf("%d began after it, want both slots at work again", n)
		}
		c.kept(k)
	})
}

// Of several processes one becomes empty, and the others go on. One that takes too long gives its turn to another.
func TestSolitaryDrainsOne(t *testing.T) {
	inBubble(t, func(k *kit) {
		d := deploy(nil)
		d.Options.Slots = 2
		var one, two company
		alone := k.lastChance()
		k.pass(30 * time.Second)
		for range 60 {
			k.submitElsewhere()
		}
		d.Handler = two.during(10 * time.Minute)
		halt, done := k.run(k.make(k.params(d)))
		synctest.Wait() // it is told to become empty at once
		d.Handler = one.staggered(10 * time.Second)
		k.start(k.params(d))
		k.pass(29 * time.Second)
		k.is(alone, execution.Queued)
		if n := len(one.seen()); n < 6 {
			k.Errorf("%d ran in the other process so far, want two every ten seconds", n)
		}
		k.pass(5 * time.Minute)
		k.is(alone, execution.Completed)
		if n := len(two.seen()); n != 2 {
			k.Errorf("%d ran in a process whose slots are taken", n)
		}
		halt()
		<-done
		one.kept(k)
	})
}

// A process that does not become empty claims other work again, each time for as long as it waited, and waits longer the next
// time, so that it becomes empty in the end.
func TestSolitaryPatience(t *testing.T) {
	inBubble(t, func(k *kit) {
		var c company
		d := deploy(c.staggered(3 * time.Minute))
		d.Options.Slots = 2
		quick := deploy(c.during(time.Second))
		quick.Name = "quick"
		alone := k.lastChance()
		for range 20 {
			k.submitElsewhere()
		}
		began := time.Now()
		k.start(k.params(d, quick))
		claimed, idle := 0, 0
		for k.read(alone).Control.Status == execution.Queued {
			_, err := k.store.Store.Submit(k.Context(), store.Submission{Submit: execution.Submit{ID: k.store.NewID(store.Key{}),
				Deployment: "quick", Revision: "r", Budgets: execution.DefaultBudgets(), Input: []byte(`1`)}})
			k.ok(err)
			before := len(c.seen())
			k.pass(10 * time.Second)
			if len(c.seen()) > before {
				claimed++
			} else {
				idle++
			}
		}
		if took := time.Since(began); took > 20*time.Minute || claimed < idle/2 {
			k.Errorf("after %s; something was claimed in %d of %d spans of ten seconds", took, claimed, claimed+idle)
		}
		c.kept(k)
	})
}

// Work that has lost its last lease no longer keeps other work out, although its handler goes on.
func TestSolitaryDeaf(t *testing.T) {
	inBubble(t, func(k *kit) {
		released, calls := make(chan struct{}), make(chan struct{}, 1)
		d := deploy(func(context.Context, handler.Attempt) handler.Outcome {
			select {
			case calls <- struct{}{}: // the first one
				<-released
			default:
			}
			return handler.Completed{}
		})
		d.Options.Slots = 2
		alone := k.lastChance()
		k.store.every(lostRequest, "beat")
		k.start(k.params(d))
		k.Cleanup(sync.OnceFunc(func() { close(released) }))
		k.is(alone, execution.Running)
		id := k.submitElsewhere()
		k.pass(28 * time.Second)
		k.is(id, execution.Queued)
		k.pass(time.Second)
		k.is(id, execution.Completed)
		k.pass(2 * time.Second)
		k.is(alone, execution.Failed)
	})
}

// A handler that goes on without its lease keeps its process from becoming empty, which claims other work meanwhile.
func TestSolitaryBesideTheDeaf(t *testing.T) {
	inBubble(t, func(k *kit) {
		released, calls := make(chan struct{}), make(chan struct{}, 1)
		release := sync.OnceFunc(func() { close(released) })
		d := deploy(func(context.Context, handler.Attempt) handler.Outcome {
			select {
			case calls <- struct{}{}: // the first one
				<-released
			default:
			}
			return handler.Completed{}
		})
		d.Options.Slots = 2
		alone, deaf := k.lastChance(), k.submitElsewhere()
		k.store.every(lostRequest, "beat")
		k.start(k.params(d))
		k.Cleanup(release)
		k.pass(29 * time.Second)
		k.store.heal()
		k.pass(time.Minute)
		k.is(deaf, execution.Completed) // its second attempt
		id := k.submitElsewhere()
		synctest.Wait()
		k.is(id, execution.Completed)
		k.is(alone, execution.Queued)
		release()
		synctest.Wait()
		k.is(alone, execution.Completed)
	})
}

// A solitary poll whose reply was lost is settled before anything else is asked for.
func TestSolitaryReplyLost(t *testing.T) {
	inBubble(t, func(k *kit) {
		var c company
		first, second := k.lastChance(), k.lastChance()
		k.store.next("poll", fault(0), lostReply, lostRequest, lostReply)
		k.start(k.params(deploy(c.during(time.Second))))
		k.pass(5 * time.Second)
		for _, id := range []string{first, second} {
			if got := k.is(id, execution.Completed); got.Attempt != 3 {
				k.Errorf("attempt %d, want 3", got.Attempt)
			}
		}
		c.kept(k)
	})
}

// A process that shuts down hands work on its last chance back.
func TestSolitaryHandedBack(t *testing.T) {
	inBubble(t, func(k *kit) {
		cause := make(chan error, 1)
		alone := k.lastChance()
		k.start(k.params(deploy(untilStopped(cause))))
		k.is(alone, execution.Running)
		k.halt()
		<-cause
		synctest.Wait()
		if got := k.is(alone, execution.Queued); got.LostLeases != 2 {
			k.Errorf("%d lost leases, want 2", got.LostLeases)
		}
	})
}
