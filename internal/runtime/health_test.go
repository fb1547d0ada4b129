package runtime

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/store"
)

// Health shows what runs, what waits, and what nobody serves.
func TestHealth(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(untilStopped(make(chan error, 1)))))
		for range 3 {
			k.submit()
		}
		old := execution.Submit{ID: k.store.NewID(store.Key{}), Deployment: "d", Revision: "old", Budgets: execution.DefaultBudgets(), Input: []byte(`1`)}
		_, err := k.store.Store.Submit(k.Context(), store.Submission{Submit: old})
		k.ok(err)
		k.pass(time.Second)
		h := k.rt.Health(k.Context())
		want := DeploymentHealth{Name: "d", Revision: "r", Healthy: true, Slots: 1, Running: 1, Active: 1,
			Counts: &Counts{Nonterminal: 4, RevisionNonterminal: 3, RevisionRunnable: 2, LeaseExpiry: 1}}
		if diff := cmp.Diff([]DeploymentHealth{want}, h.Deployments); diff != "" {
			k.Fatalf("deployments (-want +got):\n%s", diff)
		}
		others := []RevisionHealth{{Deployment: "d", Revision: "old", Nonterminal: 1, Runnable: 1}}
		if diff := cmp.Diff(others, h.Others); diff != "" {
			k.Fatalf("others (-want +got):\n%s", diff)
		}
		if !h.Healthy || h.Store.Status != StoreOK {
			k.Fatalf("health %+v", h)
		}
		k.ok(k.rt.Ready(k.Context()))
		k.rt.Quiesce()
		k.pass(time.Second)
		if d := k.rt.Health(k.Context()).Deployments[0]; d.Healthy || d.Running != 0 || d.Draining != 1 || d.Active != 1 {
			k.Fatalf("while draining: %+v", d)
		}
	})
}

// A revision that another process serves is shown as served, for three poll intervals.
func TestHealthServedElsewhere(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params())
		other := k.make(k.params(deploy(untilStopped(make(chan error, 1)))))
		halt, done := k.run(other)
		_, err := other.Submit(k.Context(), SubmitRequest{Deployment: "d", Input: []byte(`1`)})
		k.ok(err)
		k.pass(time.Second)
		if o := k.rt.Health(k.Context()).Others; len(o) != 1 || !o[0].Served {
			k.Fatalf("others %+v, want one that is served", o)
		}
		halt()
		k.ok(<-done)
		k.pass(16 * time.Second)
		if o := k.rt.Health(k.Context()).Others; len(o) != 1 || o[0].Served {
			k.Fatalf("others %+v, want one that nobody serves", o)
		}
	})
}

// A store that takes over a second is degraded; one read serves all who ask within a second.
func TestHealthDegraded(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(complete)))
		k.store.every(hung, "counts", "check")
		began := time.Now()
		h := k.rt.Health(k.Context())
		if took := time.Since(began); took != time.Second {
			k.Fatalf("health took %s, want 1s", took)
		}
		if h.Healthy || h.Store.Status != StoreDegraded || h.Store.Code != execution.CodeUnavailable || h.Deployments[0].Counts != nil {
			k.Fatalf("health %+v", h)
		}
		k.code(k.rt.Ready(k.Context()), execution.CodeUnavailable)
		since := h.Store.Since
		k.store.heal()
		k.pass(time.Second)
		before := k.store.count("counts")
		for range 10 {
			h = k.rt.Health(k.Context())
		}
		if !h.Healthy || !h.Store.Since.After(since) {
			k.Fatalf("health %+v, want it well again", h)
		}
		if n := k.store.count("counts") - before; n != 1 {
			k.Fatalf("%d reads for ten questions, want 1", n)
		}
	})
}

// candid is a store that says something of itself.
type candid struct {
	store.Store
	said []store.Condition
}

func (c candid) Conditions() []store.Condition { return c.said }

// What a store says of itself is shown. A severe condition makes it degraded, although it answers and work goes on.
func TestHealthConditions(t *testing.T) {
	t.Parallel()
	for want, severe := range map[string]bool{StoreOK: false, StoreDegraded: true} {
		t.Run(want, func(t *testing.T) {
			inBubble(t, func(k *kit) {
				p := k.params(deploy(complete))
				said := []store.Condition{{Code: "no_room", Message: "it is full", Since: time.Now(), Severe: severe}}
				p.Store = candid{p.Store, said}
				k.start(p)
				h := k.rt.Health(k.Context())
				if diff := cmp.Diff(said, h.Store.Conditions); diff != "" {
					k.Errorf("conditions (-want +got):\n%s", diff)
				}
				if h.Store.Status != want || h.Store.Code != "" || !h.Healthy || h.Deployments[0].Counts == nil {
					k.Errorf("health %+v, want a store that is %s", h, want)
				}
			})
		})
	}
}

// After an outage the health is well again as soon as the store answers, also where a loop that had failed has nothing to ask
// any more: with a short lease no attempt is left to renew, with a long one no maintenance is due for a while.
func TestHealthAfterOutage(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{3 * time.Second, time.Minute} {
		t.Run(lease.String(), func(t *testing.T) {
			inBubble(t, func(k *kit) {
				d := deploy(func(ctx context.Context, _ handler.Attempt) handler.Outcome {
					<-ctx.Done()
					return handler.Stopped{}
				})
				d.Options.Budgets = execution.Budgets{LostLeases: 1, Claims: 1}
				p := k.params(d)
				p.Settings.Lease = lease
				k.start(p)
				k.submit()
				synctest.Wait()
				k.store.every(lostRequest)
				k.pass(25 * time.Second)
				if h := k.rt.Health(k.Context()); h.Healthy {
					k.Fatalf("health %+v during an outage", h)
				}
				k.store.heal()
				k.store.every(lostRequest, "maintain")
				k.pass(6 * time.Second) // polls say again that there is nothing to maintain
				k.store.heal()
				k.pass(6 * time.Second) // the longest delay of a loop, and some more
				if h := k.rt.Health(k.Context()); !h.Healthy {
					k.Fatalf("health %+v after an outage", h)
				}
			})
		})
	}
}

// A loop that panics is started again, counted and shown; the work goes on.
func TestSupervision(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(func(ctx context.Context, a handler.Attempt) handler.Outcome {
			k.ok(a.Stream([]byte(`1`)))
			<-time.After(time.Minute)
			return handler.Completed{}
		})))
		for _, op := range []string{"poll", "beat", "listen", "maintain"} {
			k.store.next(op, panics)
		}
		id := k.submit()
		k.pass(90 * time.Second)
		k.is(id, execution.Completed)
		for _, l := range k.rt.Health(k.Context()).Loops {
			want := int64(1)
			if l.Name == "listener" {
				want = 0 // it was listening already
			}
			if !l.Running || l.Restarts != want {
				k.Errorf("loop %+v, want it running after %d restarts", l, want)
			}
		}
		if n := strings.Count(k.log.String(), "a loop stopped"); n != 3 {
			k.Errorf("%d restarts in the log, want 3", n)
		}
	})
}

// Maintenance works through what is overdue in bounded batches, and wakes the claimer.
func TestMaintainerPass(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.rt = k.make(k.params(deploy(nil)))
		ids := make([]string, 150)
		for i := range ids {
			ids[i] = k.submitElsewhere()
			k.claimElsewhere(2 * time.Second)
		}
		d := deploy(complete)
		d.Options.Slots = 200
		k.start(k.params(d))
		k.pass(5 * time.Second)
		for _, id := range ids {
			k.is(id, execution.Completed)
		}
		if n := k.store.count("maintain"); n != 2 {
			k.Fatalf("%d exchanges for 150 recoveries, want 2", n)
		}
	})
}

// Without a poll's word the maintainer looks by itself.
func TestMaintainerWithoutPolls(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(complete)))
		k.store.every(lostRequest, "poll")
		before := k.store.count("maintain")
		k.pass(time.Minute)
		if n := k.store.count("maintain") - before; n < 5 || n > 7 {
			k.Fatalf("%d passes in a minute without polls, want one every 10 s", n)
		}
	})
}

// The clock follows the store's, whichever way that is off, and stamps never go back.
func TestClock(t *testing.T) {
	inBubble(t, func(k *kit) {
		c := newClock()
		hour := execution.Instant(time.Hour.Microseconds())
		now := execution.InstantOf(time.Now())
		c.learn(now + hour)
		k.pass(time.Second)
		if got := c.now(); got != now+hour+1_000_000 {
			k.Fatalf("clock off by %d µs", got-now-hour-1_000_000)
		}
		if d := c.until((now + hour).Millis() + 3000); d < 2*time.Second-time.Millisecond || d > 2*time.Second {
			k.Fatalf("%s until then, want 2s", d)
		}
		c.learn(0)
		if c.now() < now+hour {
			k.Fatal("an empty reply moved the clock")
		}
		synctest.Wait()
	})
}

// deaf is a store whose polls mind no context, as none must.
type deaf struct {
	store.Store
	heard chan struct{}
}

func (d deaf) Poll(context.Context, store.PollRequest) (store.Polled, error) {
	<-d.heard
	return store.Polled{}, execution.Errorf(execution.CodeUnavailable, "at last")
}

// A store that fails, for however long, is no reason to start the process anew.
func TestAliveWithoutStore(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(untilStopped(make(chan error, 1)))))
		k.store.every(hung)
		k.pass(time.Hour)
		k.ok(k.rt.Alive())
	})
}

// A loop that hangs is one.
func TestStuck(t *testing.T) {
	inBubble(t, func(k *kit) {
		p := k.params(deploy(untilStopped(make(chan error, 1))))
		d := deaf{p.Store, make(chan struct{})}
		p.Store = d
		k.start(p)
		defer close(d.heard)
		k.pass(50 * time.Second)
		k.ok(k.rt.Alive())
		k.pass(15 * time.Second)
		k.code(k.rt.Alive(), execution.CodeUnavailable)
	})
}
