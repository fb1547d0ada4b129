package runtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/store"
)

// A cancel asked of another process reaches the handler with the reply to whatever it does next.
func TestCancelIsLearned(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		act    func(ctx context.Context, a handler.Attempt) error
		within time.Duration
	}{
		"by a heartbeat": {func(context.Context, handler.Attempt) error { return handler.ErrCanceled }, 10 * time.Second},
		"by a flush": {func(_ context.Context, a handler.Attempt) error {
			_ = a.Stream([]byte(`1`))
			return handler.ErrCanceled
		}, 0},
		"by a checkpoint": {func(ctx context.Context, a handler.Attempt) error { return a.Save(ctx, []byte(`1`)) }, 0},
		"by progress":     {func(ctx context.Context, a handler.Attempt) error { return a.Report(ctx, "k", "m", nil, true) }, 0},
		"by a check":      {func(ctx context.Context, a handler.Attempt) error { return a.Check(ctx) }, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(k *kit) {
				act, told := make(chan struct{}), make(chan time.Time, 1)
				k.start(k.params(deploy(func(ctx context.Context, a handler.Attempt) handler.Outcome {
					<-act
					if err := test.act(ctx, a); err != handler.ErrCanceled {
						k.Errorf("%v, want the cancel", err)
					}
					<-ctx.Done()
					told <- time.Now()
					if cause := context.Cause(ctx); cause != handler.ErrCanceled {
						k.Errorf("cause %v, want the cancel", cause)
					}
					return handler.Stopped{}
				})))
				id := k.submit()
				k.pass(time.Second)
				began := time.Now()
				_, err := k.store.Cancel(k.Context(), id, store.Scope{All: true}, "enough")
				k.ok(err)
				close(act)
				if d := (<-told).Sub(began); d > test.within {
					k.Fatalf("the handler was told after %s, want %s", d, test.within)
				}
				synctest.Wait()
				k.is(id, execution.Canceled)
			})
		})
	}
}

// A cancel asked of the process that runs the work ends its context at once.
func TestLocalCancel(t *testing.T) {
	inBubble(t, func(k *kit) {
		cause := make(chan error, 1)
		k.start(k.params(deploy(untilStopped(cause))))
		id := k.submit()
		synctest.Wait()
		k.store.next("cancel", lostReply)
		r, err := k.rt.Cancel(k.Context(), id, store.Scope{All: true}, "")
		k.ok(err)
		if r.Control.CanceledAt == 0 {
			k.Fatal("the reply shows no cancel")
		}
		if err := <-cause; err != handler.ErrCanceled {
			k.Fatalf("cause %v", err)
		}
		synctest.Wait()
		k.is(id, execution.Canceled)
		_, err = k.rt.Cancel(k.Context(), "none", store.Scope{All: true}, "")
		k.code(err, execution.CodeNotFound)
	})
}

// A handler that finishes in spite of a cancel ends as canceled.
func TestCancelWins(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(func(ctx context.Context, a handler.Attempt) handler.Outcome {
			<-ctx.Done()
			k.ok(ignoreCancel(a.Save(ctx, []byte(`1`))))
			return handler.Completed{Result: []byte(`1`)}
		})))
		id := k.submit()
		synctest.Wait()
		_, err := k.rt.Cancel(k.Context(), id, store.Scope{All: true}, "")
		k.ok(err)
		synctest.Wait()
		k.is(id, execution.Canceled)
	})
}

func ignoreCancel(err error) error {
	if err == handler.ErrCanceled {
		return nil
	}
	return err
}

// A cancel that arrives between a claim and its reply is acknowledged before user code runs.
func TestCancelBeforeStart(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(func(context.Context, handler.Attempt) handler.Outcome {
			k.Error("user code ran")
			return handler.Completed{}
		})))
		k.store.next("poll", lostReply)
		id := k.submit()
		synctest.Wait()
		_, err := k.store.Cancel(k.Context(), id, store.Scope{All: true}, "")
		k.ok(err)
		k.pass(time.Second)
		k.is(id, execution.Canceled)
	})
}

// A check answers from what was confirmed in the last half second, and asks the store otherwise.
func TestCheckReusesState(t *testing.T) {
	inBubble(t, func(k *kit) {
		beats := make(chan int, 3)
		k.start(k.params(deploy(func(ctx context.Context, a handler.Attempt) handler.Outcome {
			for _, wait := range []time.Duration{0, time.Second, 400 * time.Millisecond} {
				<-time.After(wait)
				k.ok(a.Check(ctx))
				beats <- k.store.count("beat")
			}
			return handler.Completed{}
		})))
		k.submit()
		for i, want := range []int{0, 1, 1} {
			if got := <-beats; got != want {
				k.Fatalf("after check %d: %d beats, want %d", i+1, got, want)
			}
		}
	})
}

// At its deadline work that runs is told, and fails whatever it comes to.
func TestDeadline(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]handler.Outcome{
		"stopped": handler.Stopped{}, "completed": handler.Completed{}, "retried": handler.Retried{}, "suspended": handler.Suspended{},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(k *kit) {
				cause := make(chan error, 1)
				k.start(k.params(deploy(func(ctx context.Context, _ handler.Attempt) handler.Outcome {
					<-ctx.Done()
					cause <- context.Cause(ctx)
					return outcome
				})))
				due := time.Now().Add(time.Minute)
				out, err := k.rt.Submit(k.Context(), SubmitRequest{Deployment: "d", Body: []byte(`1`), Input: []byte(`1`),
					SubmitOptions: SubmitOptions{Deadline: due.UnixMilli()}})
				k.ok(err)
				if err := <-cause; err != handler.ErrDeadline {
					k.Errorf("cause %v, want the deadline", err)
				}
				if late := time.Since(due); late < -time.Millisecond || late > 100*time.Millisecond {
					k.Errorf("told %s after the deadline", late)
				}
				synctest.Wait()
				k.is(out.Record.Control.ID, execution.Failed)
				if f := k.failure(out.Record.Control.ID); f.Code != execution.FailureDeadline {
					k.Errorf("failed with %s", f.Code)
				}
			})
		})
	}
}
