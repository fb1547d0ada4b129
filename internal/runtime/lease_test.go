package runtime

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
)

// untilStopped runs until its context ends and hands the cause out.
func untilStopped(cause chan<- error) handler.Func {
	return func(ctx context.Context, _ handler.Attempt) handler.Outcome {
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return handler.Stopped{}
	}
}

// Heartbeats hold a lease for as long as the handler needs, one every third of it.
func TestHeartbeats(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(func(ctx context.Context, _ handler.Attempt) handler.Outcome {
			<-time.After(5 * time.Minute)
			return handler.Completed{}
		})))
		id := k.submit()
		k.pass(5 * time.Minute)
		if c := k.is(id, execution.Completed); c.Attempt != 1 {
			k.Fatalf("attempt %d, want 1", c.Attempt)
		}
		if n := k.store.count("beat"); n < 29 || n > 30 {
			k.Fatalf("%d beats in five minutes, want one every 10 s", n)
		}
	})
}

// Under a store that hangs the context ends when the local window closes, which is before the store's lease ends.
func TestHungStoreLosesLease(t *testing.T) {
	inBubble(t, func(k *kit) {
		cause := make(chan error, 1)
		k.start(k.params(deploy(untilStopped(cause))))
		id := k.submit()
		synctest.Wait()
		began, lease := time.Now(), k.is(id, execution.Running).LeaseUntil
		k.store.every(hung)
		if err := <-cause; err != handler.ErrLeaseLost {
			k.Fatalf("cause %v, want the lost lease", err)
		}
		if d := time.Since(began); d != 28500*time.Millisecond {
			k.Fatalf("the lease was given up after %s, want 28.5s", d)
		}
		if now := time.Now().UnixMilli(); now > lease-1500 {
			k.Fatalf("the lease was given up %d ms before its end, want at least the commit margin", lease-now)
		}
	})
}

// A handler that is told that the lease is lost, after its process stood still and before the timer of the window has run, ends
// its attempt for good: a renewal whose reply arrives only then does not turn its stop into a failure of the work.
func TestLateReplyAfterLostLease(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(func(ctx context.Context, a handler.Attempt) handler.Outcome {
			s, _ := a.(*session)
			if s.claimed.Control.Attempt > 1 {
				return handler.Completed{}
			}
			s.mu.Lock()
			s.confirmed = time.Now().Add(-s.d.window())
			s.mu.Unlock()
			err := a.Save(ctx, []byte(`1`))
			s.mu.Lock()
			s.renewedLocked(time.Now())
			s.mu.Unlock()
			if err != handler.ErrLeaseLost {
				k.Errorf("a checkpoint ends with %v, want the lost lease", err)
			}
			return handler.Stopped{}
		})))
		id := k.submit()
		k.pass(time.Minute)
		if c := k.is(id, execution.Completed); c.Attempt != 2 || c.LostLeases != 1 {
			k.Errorf("%d attempts and %d lost leases, want 2 and 1", c.Attempt, c.LostLeases)
		}
		if log := k.log.String(); strings.Contains(log, "the work failed") || !strings.Contains(log, "the lease was lost") {
			k.Errorf("log:\n%s", log)
		}
	})
}

// The window is measured from before the claim was sent, however long its reply took.
func TestWindowFromSend(t *testing.T) {
	inBubble(t, func(k *kit) {
		cause := make(chan error, 1)
		rt := k.make(k.params(deploy(untilStopped(cause))))
		k.rt = rt
		id := k.submit()
		sent := time.Now()
		claimed := k.claimElsewhere(30 * time.Second)
		k.pass(9 * time.Second) // the reply is on its way
		k.store.every(hung)
		rt.begin(claim{Claimed: claimed, sent: sent})
		<-cause
		if d := time.Since(sent); d != 28500*time.Millisecond {
			k.Fatalf("the lease was given up %s after the claim was sent, want 28.5s", d)
		}
		k.is(id, execution.Running)
		rt.giveUp()
	})
}

// A claim whose reply took longer than a heartbeat is renewed at once.
func TestLateClaimIsRenewedAtOnce(t *testing.T) {
	inBubble(t, func(k *kit) {
		cause := make(chan error, 1)
		k.start(k.params())
		rt := k.make(k.params(deploy(untilStopped(cause))))
		halt, done := k.run(rt)
		synctest.Wait()
		k.rt = rt
		k.store.every(hung, "poll")
		id := k.submit()
		sent := time.Now()
		claimed := k.claimElsewhere(30 * time.Second)
		k.pass(12 * time.Second)
		rt.begin(claim{Claimed: claimed, sent: sent})
		synctest.Wait()
		if until := k.is(id, execution.Running).LeaseUntil; until < time.Now().Add(30*time.Second).UnixMilli() {
			k.Fatal("the lease was not renewed")
		}
		halt()
		<-cause
		k.store.heal()
		<-done
	})
}

// An operation whose reply is lost is applied once, whether the request arrived or not.
func TestUnknownOutcomes(t *testing.T) {
	t.Parallel()
	save := func(ctx context.Context, a handler.Attempt) error { return a.Save(ctx, []byte(`1`)) }
	report := func(ctx context.Context, a handler.Attempt) error { return a.Report(ctx, "k", "m", nil, true) }
	nothing := func(context.Context, handler.Attempt) error { return nil }
	tests := []struct {
		command string
		do      func(context.Context, handler.Attempt) error
		outcome handler.Outcome
		status  execution.Status
		version int64 // after submission and claim
	}{
		{"checkpoint", save, handler.Completed{}, execution.Completed, 4},
		{"report", report, handler.Completed{}, execution.Completed, 4},
		{"complete", nothing, handler.Completed{}, execution.Completed, 3},
		{"fail", nothing, handler.Failed{}, execution.Failed, 3},
		{"suspend", nothing, handler.Suspended{}, execution.Waiting, 3},
		{"retry", nothing, handler.Retried{Delay: time.Hour}, execution.Queued, 3},
	}
	faults := map[string][]fault{
		"request lost":            {lostRequest},
		"reply lost":              {lostReply},
		"hung":                    {hung},
		"reply lost, then hung":   {lostReply, hung},
		"twice lost, then a hang": {lostReply, lostRequest, hung, lostReply},
	}
	for _, test := range tests {
		for name, faults := range faults {
			t.Run(test.command+" "+name, func(t *testing.T) {
				inBubble(t, func(k *kit) {
					k.start(k.params(deploy(func(ctx context.Context, a handler.Attempt) handler.Outcome {
						k.ok(test.do(ctx, a))
						return test.outcome
					})))
					k.store.next(test.command, faults...)
					id := k.submit()
					k.pass(20 * time.Second)
					if c := k.is(id, test.status); c.Version != test.version || c.Attempt != 1 {
						k.Fatalf("version %d attempt %d, want %d and 1", c.Version, c.Attempt, test.version)
					}
				})
			})
		}
	}
}

// A store that stays away costs the lease; the log says that the last command may have been applied.
func TestCommitGivesUpWithTheWindow(t *testing.T) {
	inBubble(t, func(k *kit) {
		returned := make(chan time.Time, 1)
		began := time.Now()
		k.start(k.params(deploy(func(ctx context.Context, a handler.Attempt) handler.Outcome {
			if err := a.Save(ctx, []byte(`1`)); err != handler.ErrLeaseLost {
				k.Errorf("save: %v, want the lost lease", err)
			}
			if err := a.Save(ctx, []byte(`2`)); err != handler.ErrLeaseLost {
				k.Errorf("save after the loss: %v", err)
			}
			if err := a.Stream([]byte(`2`)); err != handler.ErrLeaseLost {
				k.Errorf("stream after the loss: %v", err)
			}
			returned <- time.Now()
			return handler.Completed{}
		})))
		k.store.every(lostRequest, "checkpoint", "beat")
		k.submit()
		if d := (<-returned).Sub(began); d > 28500*time.Millisecond || d < 28*time.Second {
			k.Fatalf("the commit was tried for %s, want up to the end of the window", d)
		}
		synctest.Wait()
		if n := k.store.count("complete"); n != 0 {
			k.Fatal("an outcome was sent after the lease was lost")
		}
		if !strings.Contains(k.log.String(), "may have been applied") {
			k.Fatal("the log does not say that the outcome is open")
		}
	})
}

// A handler that was overtaken by another claim is told by the next heartbeat, and nothing it returns is stored.
func TestFencedOff(t *testing.T) {
	inBubble(t, func(k *kit) {
		cause := make(chan error, 1)
		k.start(k.params(deploy(untilStopped(cause))))
		id := k.submit()
		synctest.Wait()
		c := k.is(id, execution.Running)
		_, err := k.store.Store.Transition(k.Context(), c, execution.Release{Owned: execution.Owned{Operation: "other",
			Ownership: execution.Ownership{Worker: c.Worker, Token: c.Token, Fence: c.Fence}}})
		k.ok(err)
		k.claimElsewhere(time.Hour)
		if err := <-cause; err != handler.ErrLeaseLost {
			k.Fatalf("cause %v, want the lost lease", err)
		}
		synctest.Wait()
		if c := k.is(id, execution.Running); c.Worker != "elsewhere" {
			k.Fatalf("the execution is with %q", c.Worker)
		}
	})
}

// What another process lost is taken back by maintenance and runs here, with the attempt counted.
func TestRecovery(t *testing.T) {
	inBubble(t, func(k *kit) {
		rt := k.make(k.params(deploy(nil)))
		k.rt = rt
		id := k.submit()
		k.claimElsewhere(4 * time.Second)
		k.start(k.params(deploy(func(context.Context, handler.Attempt) handler.Outcome { return handler.Completed{} })))
		k.pass(10 * time.Second)
		if c := k.is(id, execution.Completed); c.Attempt != 2 || c.LostLeases != 1 {
			k.Fatalf("attempt %d, %d lost leases, want 2 and 1", c.Attempt, c.LostLeases)
		}
	})
}
