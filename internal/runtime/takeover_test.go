package runtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// What a process held that is gone is taken over as soon as its lease has run out, whenever in the poll interval that is.
func TestTakeover(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, 1300 * time.Millisecond, 4900 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			inBubble(t, func(k *kit) {
				id := k.submitElsewhere()
				k.claimElsewhere(30 * time.Second)
				k.pass(after)
				k.start(k.params(deploy(complete)))
				k.pass(30*time.Second - after - time.Millisecond)
				k.is(id, execution.Running)
				k.pass(100 * time.Millisecond)
				if c := k.is(id, execution.Completed); c.Attempt != 2 {
					k.Errorf("attempt %d, want 2", c.Attempt)
				}
			})
		})
	}
}

// whileMaintaining is a store that does something else with each pass of maintenance.
type whileMaintaining struct {
	store.Store
	pass func()
}

func (w whileMaintaining) Maintain(ctx context.Context, limit int) (store.Maintained, error) {
	out, err := w.Store.Maintain(ctx, limit)
	w.pass()
	return out, err
}

// A lease that runs out while a pass is under way, which has looked already, is taken over by another one at once.
func TestTakeoverDuringAPass(t *testing.T) {
	inBubble(t, func(k *kit) {
		passes, p := 0, k.params(deploy(complete))
		p.Store = whileMaintaining{k.store, func() {
			if passes++; passes == 1 {
				k.rt.claimer.overdue(true, time.Now())
			}
		}}
		k.start(p)
		k.rt.claimer.overdue(true, time.Now())
		synctest.Wait()
		if passes != 2 {
			k.Errorf("%d passes, want 2", passes)
		}
	})
}

// unreadable is a store whose polls are carried out, and of which the first one that claims something has no readable reply.
type unreadable struct {
	store.Store
	told bool
}

func (u *unreadable) Poll(ctx context.Context, r store.PollRequest) (store.Polled, error) {
	out, err := u.Store.Poll(ctx, r)
	if len(out.Claimed) > 0 && !u.told {
		u.told = true
		return store.Polled{}, execution.Errorf(execution.CodeCorrupt, "what is stored can't be read")
	}
	return out, err
}

// Whatever a poll fails with, it may have claimed something: it is repeated as it was.
func TestUnreadablePollLosesNoLease(t *testing.T) {
	inBubble(t, func(k *kit) {
		p := k.params(deploy(complete))
		p.Store = &unreadable{Store: k.store}
		k.start(p)
		id := k.submit()
		k.pass(5 * time.Second)
		if c := k.is(id, execution.Completed); c.Attempt != 1 {
			k.Errorf("attempt %d, want 1", c.Attempt)
		}
	})
}

// Leases that are renewed in time cost no look, also where they end before the next poll.
func TestTakeoverCostsNothing(t *testing.T) {
	inBubble(t, func(k *kit) {
		d := deploy(untilStopped(make(chan error, 1)))
		d.Options.Lease = 6 * time.Second
		k.start(k.params(d))
		k.submit()
		before, polls := k.store.count("maintain"), k.store.count("poll")
		k.pass(10 * time.Minute)
		if n := k.store.count("maintain") - before; n > 10*60/6 {
			k.Errorf("%d looks for overdue work in ten minutes, want one a lease", n)
		}
		if n := k.store.count("poll") - polls; n > 1+10*60/5 {
			k.Errorf("%d polls in ten minutes, want one every 5 s", n)
		}
	})
}

// Very many leases that ran out earlier, and whose revision nobody serves, do not delay the recovery of one that is served.
func TestTakeoverBehindTheUnserved(t *testing.T) {
	inBubble(t, func(k *kit) {
		elsewhere := store.Revision{Deployment: "d", Revision: "old"}
		for n := 0; n < 5000; n += 100 {
			for range 100 {
				_, err := k.store.Store.Submit(k.Context(), store.Submission{Submit: execution.Submit{ID: k.store.NewID(store.Key{}),
					Deployment: elsewhere.Deployment, Revision: elsewhere.Revision, Budgets: execution.DefaultBudgets(), Input: []byte(`1`)}})
				k.ok(err)
			}
			p, err := k.store.Store.Poll(k.Context(), store.PollRequest{Worker: "gone", Token: k.store.NewID(store.Key{}),
				Revisions: []store.Want{{Revision: elsewhere, Count: 100, Lease: 10 * time.Second}}})
			k.ok(err)
			if len(p.Claimed) != 100 {
				k.Fatalf("%d were claimed", len(p.Claimed))
			}
		}
		id := k.submitElsewhere()
		k.claimElsewhere(11 * time.Second)
		busy := k.submitElsewhere()
		k.start(k.params(deploy(untilStopped(make(chan error, 1)))))
		k.is(busy, execution.Running) // in the only slot, so that nothing but polls every 5 s say what is overdue
		k.pass(11*time.Second + 2*5*time.Second)
		if c := k.is(id, execution.Queued); c.LostLeases != 1 {
			k.Errorf("%d lost leases, want 1", c.LostLeases)
		}
		c, err := k.store.Store.Counts(k.Context())
		k.ok(err)
		if c.Leases != 1 {
			k.Errorf("%d leases are left", c.Leases)
		}
	})
}
