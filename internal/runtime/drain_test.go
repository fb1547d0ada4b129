package runtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
)

// Close ends each kind of attempt in its own way, in its own time, and at no cost to a budget.
func TestDrain(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		run     handler.Func
		release bool
		status  execution.Status
		took    time.Duration
		stays   bool // the attempt outlives Close
	}{
		"finishes in the grace": {
			run: func(context.Context, handler.Attempt) handler.Outcome {
				<-time.After(3 * time.Second)
				return handler.Completed{}
			},
			status: execution.Completed, took: 3 * time.Second},
		"is handed over at a checkpoint": {
			run: func(ctx context.Context, a handler.Attempt) handler.Outcome {
				for i := 0; ; i++ {
					<-time.After(2 * time.Second)
					if err := a.Save(ctx, []byte(`1`)); err != nil {
						return handler.Failed{Cause: err}
					}
				}
			},
			status: execution.Queued, took: 2 * time.Second},
		"stops with its context": {
			run:    func(ctx context.Context, _ handler.Attempt) handler.Outcome { <-ctx.Done(); return handler.Stopped{} },
			status: execution.Queued, took: 5 * time.Second},
		"stops in the second grace": {
			run: func(ctx context.Context, _ handler.Attempt) handler.Outcome {
				<-ctx.Done()
				<-time.After(2 * time.Second)
				return handler.Stopped{}
			},
			status: execution.Queued, took: 7 * time.Second},
		"does not stop": {
			run: func(context.Context, handler.Attempt) handler.Outcome {
				<-time.After(time.Hour)
				return handler.Completed{}
			},
			status: execution.Running, took: 10 * time.Second, stays: true},
		"does not stop, released": {
			run: func(context.Context, handler.Attempt) handler.Outcome {
				<-time.After(time.Hour)
				return handler.Completed{}
			},
			release: true, status: execution.Queued, took: 5 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(k *kit) {
				p := k.params(deploy(test.run))
				p.Settings.ReleaseOnClose = test.release
				k.start(p)
				id := k.submit()
				synctest.Wait()
				began := time.Now()
				err := k.rt.Close(k.Context())
				if (err != nil) != test.stays {
					k.Fatalf("close: %v", err)
				}
				if took := time.Since(began); took != test.took {
					k.Fatalf("close took %s, want %s", took, test.took)
				}
				c := k.is(id, test.status)
				if c.Retries+c.LostLeases != 0 || c.Attempt != 1 {
					k.Fatalf("%d retries, %d lost leases, attempt %d: the handoff was not free", c.Retries, c.LostLeases, c.Attempt)
				}
				if !test.stays {
					k.ok(k.rt.WaitDrained(k.Context()))
					k.ok(<-k.done)
					k.pass(2 * time.Hour) // the handler that was left behind ends
				}
			})
		})
	}
}

// An attempt that does not stop keeps its claim, its heartbeats and its right to end by itself.
func TestStubbornAttemptKeepsItsClaim(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(func(ctx context.Context, a handler.Attempt) handler.Outcome {
			<-time.After(10 * time.Minute)
			if err := a.Save(ctx, []byte(`1`)); err != handler.ErrShutdown {
				k.Errorf("save: %v, want the shutdown", err)
			}
			return handler.Completed{}
		})))
		id := k.submit()
		synctest.Wait()
		if err := k.rt.Close(k.Context()); err == nil {
			k.Fatal("close does not say that an attempt still runs")
		}
		ctx, cancel := context.WithTimeout(k.Context(), time.Minute)
		defer cancel()
		if err := k.rt.WaitDrained(ctx); err != context.DeadlineExceeded {
			k.Fatalf("wait: %v", err)
		}
		k.ok(k.rt.WaitDrained(k.Context()))
		if c := k.is(id, execution.Completed); c.Attempt != 1 {
			k.Fatalf("attempt %d, want 1", c.Attempt)
		}
		k.ok(<-k.done)
	})
}

// A checkpoint saved while the process shuts down is what the next attempt starts from.
func TestHandover(t *testing.T) {
	inBubble(t, func(k *kit) {
		run := func(ctx context.Context, a handler.Attempt) handler.Outcome {
			if a.Info().Checkpoint != nil {
				return handler.Completed{Result: a.Info().Checkpoint}
			}
			for {
				<-time.After(time.Second)
				k.ok(a.Stream([]byte(`"chunk"`)))
				if err := a.Save(ctx, []byte(`"half"`)); err != nil {
					return handler.Stopped{}
				}
			}
		}
		k.start(k.params(deploy(run)))
		id := k.submit()
		synctest.Wait()
		k.ok(k.rt.Close(k.Context()))
		k.start(k.params(deploy(run)))
		c := k.is(id, execution.Completed)
		if got := string(k.read(id).Result); got != `"half"` || c.Attempt != 2 || c.LostLeases+c.Retries != 0 {
			k.Fatalf("result %s in attempt %d", got, c.Attempt)
		}
		if len(k.chunks(id)) == 0 {
			k.Fatal("the chunks before the handover are gone")
		}
	})
}

// A quiesced process refuses submissions but replays them, claims nothing, and lets its work end.
func TestQuiesce(t *testing.T) {
	inBubble(t, func(k *kit) {
		step := make(chan struct{})
		k.start(k.params(deploy(func(context.Context, handler.Attempt) handler.Outcome { <-step; return handler.Completed{} })))
		keyed := SubmitRequest{Deployment: "d", Key: "key", Body: []byte(`1`), Input: []byte(`1`)}
		out, err := k.rt.Submit(k.Context(), keyed)
		k.ok(err)
		synctest.Wait()
		k.rt.Quiesce()
		k.rt.Quiesce()
		again, err := k.rt.Submit(k.Context(), keyed)
		k.ok(err)
		if !again.Replayed || again.Record.Control.ID != out.Record.Control.ID {
			k.Fatal("the submission was not replayed")
		}
		keyed.Key = "another"
		_, err = k.rt.Submit(k.Context(), keyed)
		k.code(err, execution.CodeDraining)
		k.code(k.rt.Ready(k.Context()), execution.CodeDraining)
		other := k.submitElsewhere()
		close(step)
		k.pass(time.Minute)
		k.is(out.Record.Control.ID, execution.Completed)
		k.is(other, execution.Queued)
		k.ok(k.rt.WaitDrained(k.Context()))
		k.ok(k.rt.Close(k.Context()))
		k.ok(k.rt.Close(k.Context()))
		k.ok(<-k.done)
	})
}

// What a poll claimed while the process was quiesced is released unrun, also where its reply was lost.
func TestClaimDuringQuiesce(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(func(context.Context, handler.Attempt) handler.Outcome {
			k.Error("user code ran")
			return handler.Completed{}
		})))
		k.store.next("poll", lostReply, lostRequest)
		id := k.submit()
		k.pass(10 * time.Millisecond)
		k.is(id, execution.Running)
		k.ok(k.rt.Close(k.Context()))
		if c := k.is(id, execution.Queued); c.LostLeases != 0 {
			k.Fatal("the handoff cost a lost lease")
		}
	})
}

// The end of Run's context is a close without the first grace.
func TestRunContextEnds(t *testing.T) {
	inBubble(t, func(k *kit) {
		cause := make(chan error, 1)
		k.start(k.params(deploy(untilStopped(cause))))
		id := k.submit()
		synctest.Wait()
		began := time.Now()
		k.halt()
		k.ok(<-k.done)
		if took := time.Since(began); took != 0 || <-cause != handler.ErrShutdown {
			k.Fatalf("the runtime ended after %s", took)
		}
		k.is(id, execution.Queued)
	})
}

// Without a store the process still ends, one grace after it was told to.
func TestRunEndsWithoutStore(t *testing.T) {
	inBubble(t, func(k *kit) {
		cause := make(chan error, 1)
		k.start(k.params(deploy(untilStopped(cause))))
		k.submit()
		synctest.Wait()
		began := time.Now()
		k.store.every(hung)
		k.halt()
		k.ok(<-k.done)
		if took := time.Since(began); took != 5*time.Second {
			k.Fatalf("the runtime ended after %s, want 5s", took)
		}
	})
}

// The lifecycle methods are safe in every order.
func TestCloseBeforeRun(t *testing.T) {
	inBubble(t, func(k *kit) {
		rt := k.make(k.params(deploy(complete)))
		k.code(rt.Ready(k.Context()), execution.CodeUnavailable)
		k.ok(rt.WaitDrained(k.Context()))
		k.ok(rt.Close(k.Context()))
		if err := rt.Run(k.Context()); err == nil {
			k.Fatal("a closed runtime ran")
		}
	})
}
