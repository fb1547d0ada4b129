package runtime

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/store"
)

func complete(context.Context, handler.Attempt) handler.Outcome { return handler.Completed{} }

// submitElsewhere hands work in through another process: nothing but the doorbell tells the kit's runtime.
func (k *kit) submitElsewhere() string {
	k.Helper()
	id := k.store.NewID(store.Key{})
	_, err := k.store.Store.Submit(context.Background(), store.Submission{Submit: execution.Submit{
		ID: id, Deployment: "d", Revision: "r", Budgets: execution.DefaultBudgets(), Input: []byte(`1`)}})
	k.ok(err)
	return id
}

// Work is picked up without any time passing, whoever hands it in.
func TestPickup(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(complete)))
		for _, submit := range []func() string{k.submit, k.submitElsewhere} {
			id := submit()
			synctest.Wait()
			k.is(id, execution.Completed)
		}
	})
}

// Work handed in before the process started, and what it left unsaid while it did not listen, is found.
func TestPickupAfterSubscription(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.store.every(lostRequest, "listen")
		early := k.submitElsewhere()
		k.start(k.params(deploy(complete)))
		k.is(early, execution.Completed)
		id := k.submitElsewhere()
		synctest.Wait()
		k.is(id, execution.Queued)
		k.store.heal()
		k.pass(4900 * time.Millisecond) // sooner than the next poll, later than the longest backoff so far
		k.is(id, execution.Completed)
	})
}

// Polling is the safety net where no doorbell ever rings.
func TestPollFindsWhatNobodyRangFor(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.store.every(hung, "listen")
		k.start(k.params(deploy(complete)))
		id := k.submitElsewhere()
		k.pass(5 * time.Second)
		k.is(id, execution.Completed)
	})
}

// A burst is claimed in batches of the free slots; a slot that becomes free takes the next without waiting for a poll.
func TestBatches(t *testing.T) {
	inBubble(t, func(k *kit) {
		var running, most atomic.Int64
		d := deploy(func(context.Context, handler.Attempt) handler.Outcome {
			most.Store(max(most.Load(), running.Add(1)))
			<-time.After(time.Second)
			running.Add(-1)
			return handler.Completed{}
		})
		d.Options.Slots = 4
		rt := k.make(k.params(d))
		k.rt = rt
		var ids []string
		for range 10 {
			ids = append(ids, k.submitElsewhere())
		}
		k.start(k.params(d))
		if n := k.store.count("poll"); n != 1 {
			k.Fatalf("%d polls to fill four slots, want 1", n)
		}
		k.pass(3 * time.Second)
		for _, id := range ids {
			k.is(id, execution.Completed)
		}
		if most.Load() != 4 {
			k.Fatalf("up to %d attempts ran at once, want 4", most.Load())
		}
	})
}

// The claimer asks again until it gets less than it asked for.
func TestClaimsUntilLess(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(complete)))
		ids := make([]string, 20)
		for i := range ids {
			ids[i] = k.submitElsewhere()
		}
		synctest.Wait()
		for _, id := range ids {
			k.is(id, execution.Completed)
		}
	})
}

// While there is more than a process can take it asks for claims alone, and in full once it gets less, or after a while.
func TestBriefPolls(t *testing.T) {
	inBubble(t, func(k *kit) {
		for range 20 {
			k.submitElsewhere()
		}
		k.start(k.params(deploy(complete)))
		// In full are the first one, the last one, and that after the subscription.
		if all, brief := k.store.count("poll"), k.store.brief; brief != 20 || all-brief > 3 {
			k.Fatalf("%d polls for 20 executions, %d of them brief, want 23 at most, and 20", all, brief)
		}
		k.pass(time.Minute)
		for range 20 {
			k.submitElsewhere()
		}
		synctest.Wait()
		k.store.brief = 0
		k.pass(time.Minute)
		if k.store.brief != 0 {
			k.Fatalf("%d brief polls of an idle process", k.store.brief)
		}
	})
}

// A busy process looks for what has fallen due, says that it is there and sees to what is overdue, all the same.
func TestBusyProcessAsksInFull(t *testing.T) {
	inBubble(t, func(k *kit) {
		for range 100 {
			k.submitElsewhere()
		}
		k.start(k.params(deploy(func(context.Context, handler.Attempt) handler.Outcome {
			<-time.After(10 * time.Millisecond)
			return handler.Completed{}
		})))
		k.pass(990 * time.Millisecond)
		all, brief := k.store.count("poll"), k.store.brief
		if full := all - brief; full < 9 || full > 12 {
			k.Fatalf("%d of %d polls within a second were full, want one each 100 ms", full, all)
		}
	})
}

// An attempt needs no slot while its end is stored, and no more wait for that than there are slots.
func TestClaimsWhileAnEndIsStored(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.store.every(hung, "complete")
		ids := []string{k.submitElsewhere(), k.submitElsewhere(), k.submitElsewhere()}
		k.start(k.params(deploy(complete)))
		statuses := map[execution.Status]int{}
		for _, id := range ids {
			statuses[k.read(id).Control.Status]++
		}
		if diff := cmp.Diff(map[execution.Status]int{execution.Running: 2, execution.Queued: 1}, statuses); diff != "" {
			k.Fatalf("statuses (-want +got):\n%s", diff)
		}
		if h := k.rt.Health(k.Context()).Deployments[0]; h.Active != 0 {
			k.Fatalf("%d slots are taken while no handler runs", h.Active)
		}
		k.store.heal()
		k.pass(10 * time.Second)
		for _, id := range ids {
			k.is(id, execution.Completed)
		}
	})
}

// A poll whose reply was lost is repeated as the same one: what it claimed runs as its first attempt.
func TestPollReplyLost(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(complete)))
		k.store.next("poll", lostReply, lostRequest, lostReply)
		id := k.submit()
		k.pass(time.Second)
		if c := k.is(id, execution.Completed); c.Attempt != 1 || c.LostLeases != 0 {
			k.Fatalf("attempt %d, %d lost leases, want 1 and 0", c.Attempt, c.LostLeases)
		}
	})
}

// The window of what a repeated poll brings is measured from before its first try.
func TestRepeatedPollWindow(t *testing.T) {
	inBubble(t, func(k *kit) {
		cause := make(chan error, 1)
		k.start(k.params(deploy(untilStopped(cause))))
		k.store.next("poll", lostReply, hung, hung)
		began := time.Now()
		k.submit()
		k.pass(7 * time.Second)
		k.store.every(hung)
		<-cause
		if d := time.Since(began); d != 28500*time.Millisecond {
			k.Fatalf("the lease was given up %s after the first try, want 28.5s", d)
		}
	})
}

// A poll in doubt is given up when nothing that it claimed could be worked on any more; then a new one asks.
func TestPollGivenUp(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(complete)))
		k.store.next("poll", lostReply)
		id := k.submit()
		k.store.every(lostRequest, "poll")
		k.pass(29 * time.Second)
		k.store.heal()
		k.pass(20 * time.Second)
		if c := k.is(id, execution.Completed); c.Attempt != 2 || c.LostLeases != 1 {
			k.Fatalf("attempt %d, %d lost leases, want 2 and 1", c.Attempt, c.LostLeases)
		}
	})
}

// An idle process costs the same with one deployment and slot or with many.
func TestIdleCost(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 50} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, func(k *kit) {
				var all []handler.Deployment
				for i := range n {
					d := deploy(complete)
					d.Name, d.Options.Slots = fmt.Sprintf("d%d", i), n
					all = append(all, d)
				}
				k.start(k.params(all...))
				k.pass(time.Minute)
				before := k.store.exchanges()
				k.pass(10 * time.Minute)
				if n := k.store.exchanges() - before; n > 10*60/5+10*60/30 {
					k.Fatalf("%d exchanges in ten idle minutes, want at most 140", n)
				}
			})
		})
	}
}

// With all slots taken, doorbells cost nothing, and polls go on for presence and the overdue flag.
func TestBusyProcessStillPolls(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(untilStopped(make(chan error, 1)))))
		k.submit()
		synctest.Wait()
		before := k.store.count("poll")
		for range 10 {
			k.submitElsewhere()
		}
		synctest.Wait()
		if n := k.store.count("poll") - before; n != 0 {
			k.Fatalf("%d polls while no slot is free", n)
		}
		k.pass(time.Minute)
		if n := k.store.count("poll") - before; n < 12 || n > 13 {
			k.Fatalf("%d polls in a minute, want one every five seconds", n)
		}
	})
}

// A store that is away is asked with growing delays, and again at once when it is back and something rings.
func TestPollBackoff(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(complete)))
		before := k.store.count("poll")
		k.store.every(lostRequest)
		k.pass(time.Minute)
		if n := k.store.count("poll") - before; n < 12 || n > 80 {
			k.Fatalf("%d polls in a minute without a store", n)
		}
		h := k.rt.Health(k.Context())
		if h.Healthy || h.Deployments[0].ErrorStreak == 0 {
			k.Fatalf("health %+v, want an error streak", h.Deployments[0])
		}
		k.store.heal()
		k.pass(5 * time.Second)
		id := k.submit()
		synctest.Wait()
		k.is(id, execution.Completed)
	})
}
