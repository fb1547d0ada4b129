package runtime

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/store"
)

// A handler that returns one outcome ends its execution as that outcome says.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	public := execution.Failure{Type: "Quota", Code: "quota_exceeded", Message: "Too much.", Retryable: true}
	big := []byte(`"` + strings.Repeat("a", 1_000_000) + `"`)
	tests := map[string]struct {
		outcome handler.Outcome
		status  execution.Status
		result  string
		failure execution.Failure
	}{
		"completed":                   {outcome: handler.Completed{Result: []byte(`{"a": 1.0}`)}, status: execution.Completed, result: `{"a":1.0}`},
		"completed with nothing":      {outcome: handler.Completed{}, status: execution.Completed, result: `null`},
		"completed with broken JSON":  {outcome: handler.Completed{Result: []byte(`{`)}, failure: execution.Failure{Type: "InvalidOutcome", Code: execution.FailureApplication, Message: "The work ended with a value that can't be stored."}},
		"completed with too much":     {outcome: handler.Completed{Result: big}, failure: execution.Failure{Type: "PayloadTooLarge", Code: execution.FailureTooLarge, Message: "the result has 1000002 bytes, the limit is 1000000"}},
		"failed with a public error":  {outcome: handler.Failed{Error: public}, failure: public},
		"failed with a class only":    {outcome: handler.Failed{Error: execution.Failure{Type: "net.OpError"}, Cause: errors.New("secret")}, failure: failedWith("net.OpError")},
		"stopped without being told":  {outcome: handler.Stopped{}, failure: failedWith("Stopped")},
		"no outcome":                  {outcome: nil, failure: failedWith("NoOutcome")},
		"suspended with a bad schema": {outcome: handler.Suspended{Wait: execution.Wait{Schema: []byte(`7`)}}, failure: failedInvalid()},
		"suspended with a bad default": {outcome: handler.Suspended{Wait: execution.Wait{Schema: []byte(`["yes"]`), Default: []byte(`"no"`)}},
			failure: failedInvalid()},
		"suspended": {outcome: handler.Suspended{Wait: execution.Wait{Kind: "approval", Schema: []byte(`["yes"]`)}}, status: execution.Waiting},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(k *kit) {
				k.start(k.params(deploy(func(context.Context, handler.Attempt) handler.Outcome { return test.outcome })))
				id := k.submit()
				synctest.Wait()
				if test.status == "" {
					if got := k.failure(id); got != test.failure {
						t.Fatalf("failure %+v, want %+v", got, test.failure)
					}
					return
				}
				k.is(id, test.status)
				if got := string(k.read(id).Result); got != test.result {
					t.Fatalf("result %s, want %s", got, test.result)
				}
			})
		})
	}
}

func failedInvalid() execution.Failure {
	return execution.Failure{Type: "InvalidOutcome", Code: execution.FailureApplication, Message: "The work ended with a value that can't be stored."}
}

// A panic shows its class and a constant text to clients; the log has the rest.
func TestPanic(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(func(context.Context, handler.Attempt) handler.Outcome { panic(errors.New("password")) })))
		id := k.submit()
		synctest.Wait()
		if got, want := k.failure(id), failedWith("*errors.errorString"); got != want {
			k.Fatalf("failure %+v, want %+v", got, want)
		}
		if !strings.Contains(k.log.String(), "password") {
			k.Fatal("the log does not say what the panic said")
		}
	})
}

// A handler that ends its goroutine fails its execution and leaves the slot usable.
func TestGoexit(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(func(context.Context, handler.Attempt) handler.Outcome {
			runtime.Goexit()
			return nil
		})))
		for range 2 {
			id := k.submit()
			synctest.Wait()
			if got := k.failure(id).Type; got != "Exited" {
				k.Fatalf("type %q", got)
			}
		}
	})
}

// A retry takes the deployment's backoff with full jitter, spends its budget, and then fails with the last error.
func TestRetry(t *testing.T) {
	inBubble(t, func(k *kit) {
		var attempts []time.Time
		k.start(k.params(deploy(func(_ context.Context, a handler.Attempt) handler.Outcome {
			attempts = append(attempts, time.Now())
			if a.Info().Retries != int64(len(attempts)-1) {
				t.Errorf("attempt %d sees %d retries", len(attempts), a.Info().Retries)
			}
			return handler.Retried{Delay: -1, Error: execution.Failure{Type: "Busy", Message: "Busy."}}
		})))
		id := k.submit()
		k.pass(10 * time.Second)
		if len(attempts) != 3 {
			k.Fatalf("%d attempts, want 3", len(attempts))
		}
		for i, most := range []time.Duration{time.Second, 2 * time.Second} {
			// A few milliseconds more: stores round up, and a due time is looked for just after it.
			if d := attempts[i+1].Sub(attempts[i]); d > most+5*time.Millisecond {
				k.Errorf("retry %d came after %s, want at most %s", i+1, d, most)
			}
		}
		if f := k.failure(id); f.Code != execution.FailureRetriesExhausted || f.Type != "Busy" {
			k.Fatalf("failure %+v", f)
		}
	})
}

// A retry with a delay of its own waits that long, without help from the poll interval.
func TestRetryDelay(t *testing.T) {
	inBubble(t, func(k *kit) {
		var attempts []time.Time
		k.start(k.params(deploy(func(context.Context, handler.Attempt) handler.Outcome {
			if attempts = append(attempts, time.Now()); len(attempts) == 1 {
				return handler.Retried{Delay: 1700 * time.Millisecond}
			}
			return handler.Completed{}
		})))
		id := k.submit()
		k.pass(1710 * time.Millisecond)
		k.is(id, execution.Completed)
		if d := attempts[1].Sub(attempts[0]); d < 1700*time.Millisecond {
			k.Fatalf("the retry came early, after %s", d)
		}
	})
}

// Full jitter stays within its bounds and uses them; backoff never goes below its least delay.
func TestDelays(t *testing.T) {
	t.Parallel()
	var low, high bool
	for range 2000 {
		d := fullJitter(time.Second, time.Minute, 3)
		if d < 0 || d > 8*time.Second {
			t.Fatalf("retry after %s, want at most 8s", d)
		}
		low, high = low || d < time.Second, high || d > 7*time.Second
		if d := fullJitter(time.Second, time.Minute, 1<<40); d > time.Minute {
			t.Fatalf("retry after %s, want at most 1m", d)
		}
		b := backoff{50 * time.Millisecond, 5 * time.Second}
		if d := b.delay(3); d < 50*time.Millisecond || d > 200*time.Millisecond {
			t.Fatalf("third delay %s, want 50ms to 200ms", d)
		}
		if d := b.delay(1000); d > 5*time.Second {
			t.Fatalf("delay %s, want at most 5s", d)
		}
	}
	if !low || !high {
		t.Fatal("the jitter does not use its range")
	}
}

// What a handler passes is checked before anything is stored, and the attempt goes on.
func TestPayloadLimits(t *testing.T) {
	inBubble(t, func(k *kit) {
		p := k.params(deploy(func(ctx context.Context, a handler.Attempt) handler.Outcome {
			for what, err := range map[string]error{
				"checkpoint": a.Save(ctx, []byte(`"0123456789"`)),
				"chunk":      a.Stream([]byte(`"0123456789"`)),
				"progress":   a.Report(ctx, "k", strings.Repeat("m", 300), nil, true),
				"metadata":   a.Report(ctx, "k", "m", []byte(`"`+strings.Repeat("m", 300)+`"`), true),
			} {
				var e *execution.Error
				if !errors.As(err, &e) || e.Code != execution.CodeTooLarge || e.Limit == 0 {
					k.Errorf("%s: %v, want too_large with its limit", what, err)
				}
			}
			for what, err := range map[string]error{
				"checkpoint": a.Save(ctx, []byte(`{`)),
				"chunk":      a.Stream([]byte(``)),
				"metadata":   a.Report(ctx, "k", "m", []byte(`nul`), true),
			} {
				if !execution.Is(err, execution.CodeInvalidInput) {
					k.Errorf("%s: %v, want invalid_input", what, err)
				}
			}
			return handler.Completed{}
		}))
		p.Settings = Settings{MaxPayload: 10, MaxChunk: 10, MaxProgressEvent: 256}
		k.start(p)
		id := k.submit()
		synctest.Wait()
		if c := k.is(id, execution.Completed); c.Version != 3 {
			k.Fatalf("version %d, want 3: nothing but the claim and the end was stored", c.Version)
		}
	})
}

// Stored payloads that can't be used end the execution as such, wherever that shows: at the claim, and then without running
// user code, at a commit in the middle, or at the last one.
func TestStoredInvalid(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		broken string // the command that the store refuses
		run    handler.Func
		mangle bool
	}{
		"at the claim":               {mangle: true},
		"at the claim, and progress": {mangle: true, broken: "fail"},
		"at the end":                 {broken: "complete", run: complete},
		"at a checkpoint": {broken: "checkpoint", run: func(ctx context.Context, a handler.Attempt) handler.Outcome {
			err := a.Save(ctx, []byte(`1`))
			return handler.Failed{Error: execution.Failure{Type: string(execution.CodeOf(err))}, Cause: err}
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(k *kit) {
				if test.mangle {
					k.store.mangle = func(c *store.Claimed) { c.Invalid = true }
					test.run = func(context.Context, handler.Attempt) handler.Outcome {
						k.Error("user code ran")
						return handler.Completed{}
					}
				}
				k.start(k.params(deploy(test.run)))
				k.store.next(test.broken, refusedCorrupt)
				id := k.submit()
				synctest.Wait()
				if got := k.failure(id).Code; got != execution.FailureStoredInvalid {
					k.Fatalf("code %q", got)
				}
			})
		})
	}
}

// A store that refuses every outcome costs the lease, and not the slot.
func TestNoOutcomeIsTaken(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(complete)))
		k.store.next("complete", refusedCorrupt)
		k.store.next("fail", refusedCorrupt)
		stuck := k.submit()
		synctest.Wait()
		k.is(stuck, execution.Running)
		next := k.submit()
		synctest.Wait()
		k.is(next, execution.Completed)
	})
}

// Progress waits for the next commit, or forces one; its stamps never go back.
func TestProgress(t *testing.T) {
	inBubble(t, func(k *kit) {
		step := make(chan struct{})
		k.start(k.params(deploy(func(ctx context.Context, a handler.Attempt) handler.Outcome {
			k.ok(a.Report(ctx, "step", "one", []byte(`{"n": 1}`), false))
			<-step
			k.ok(a.Report(ctx, "step", "two", nil, true))
			<-step
			k.ok(a.Report(ctx, "step", "three", nil, false))
			return handler.Completed{}
		})))
		id := k.submit()
		for _, want := range []int{0, 2, 3} {
			synctest.Wait()
			if got := k.read(id).Progress; len(got) != want {
				k.Fatalf("%d events, want %d", len(got), want)
			}
			if want < 3 {
				step <- struct{}{}
			}
		}
		first := string(k.read(id).Progress[0])
		if !strings.Contains(first, `"metadata":{"n":1}`) || !strings.Contains(first, `"sequence":1`) {
			k.Fatalf("first event %s", first)
		}
	})
}

// Events that are never committed by themselves don't pile up.
func TestProgressIsBounded(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(func(ctx context.Context, a handler.Attempt) handler.Outcome {
			for range maxPendingEvents + 1 {
				k.ok(a.Report(ctx, "k", "m", nil, false))
			}
			<-ctx.Done()
			return handler.Stopped{}
		})))
		id := k.submit()
		synctest.Wait()
		if n := k.read(id).Control.ProgressSequence; n != maxPendingEvents {
			k.Fatalf("%d events stored, want %d", n, maxPendingEvents)
		}
	})
}
