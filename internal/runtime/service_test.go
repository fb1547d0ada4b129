package runtime

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/store"
)

var everyone = store.Scope{All: true}

// asks suspends for "yes" or "no" and completes with the answer.
func asks(k *kit) handler.Func {
	return func(ctx context.Context, a handler.Attempt) handler.Outcome {
		answer := a.Answer()
		if answer == nil {
			return handler.Suspended{Checkpoint: []byte(`"asked"`), Wait: execution.Wait{Kind: "approval", Schema: []byte(`["yes","no"]`)}}
		}
		if string(a.Info().Checkpoint) != `"asked"` {
			k.Errorf("checkpoint %s", a.Info().Checkpoint)
		}
		return handler.Completed{Result: answer}
	}
}

func (k *kit) answer(id, key, input string, sequence int64) (store.Resumed, error) {
	return k.rt.Resume(k.Context(), ResumeRequest{ID: id, Scope: everyone, Key: key, Body: []byte(`{"input":` + input + `}`),
		Input: []byte(input), Sequence: sequence})
}

// An execution waits for an answer that fits, and goes on with it in the same moment.
func TestSuspendAndResume(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(asks(k))))
		id := k.submit()
		synctest.Wait()
		k.is(id, execution.Waiting)
		_, err := k.answer(id, "", `"maybe"`, 0)
		k.code(err, execution.CodeInvalidInput)
		var e *execution.Error
		if !errors.As(err, &e) || len(e.Violations) != 1 {
			k.Fatalf("violations of %v, want one", err)
		}
		_, err = k.answer(id, "", `"yes"`, 99)
		k.code(err, execution.CodeWaitMoved)
		_, err = k.answer(id, "", `"yes"`, 0)
		k.ok(err)
		synctest.Wait()
		k.is(id, execution.Completed)
		if got := string(k.read(id).Result); got != `"yes"` {
			k.Fatalf("result %s", got)
		}
		_, err = k.answer(id, "", `"yes"`, 0)
		k.code(err, execution.CodeNotWaiting)
		_, err = k.answer("none", "", `"yes"`, 0)
		k.code(err, execution.CodeNotFound)
	})
}

// An answer costs one exchange where its wait was seen, else two.
func TestResumeExchanges(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(asks(k))))
		for name, test := range map[string]struct {
			see  bool
			want int
		}{"seen": {true, 1}, "unseen": {false, 2}} {
			id := k.submit()
			synctest.Wait()
			if test.see {
				_, err := k.rt.Get(k.Context(), store.ReadRequest{ID: id, Scope: everyone})
				k.ok(err)
			}
			before := k.store.count("resume")
			_, err := k.answer(id, "", `"no"`, 0)
			k.ok(err)
			if got := k.store.count("resume") - before; got != test.want {
				k.Errorf("%s: %d exchanges, want %d", name, got, test.want)
			}
		}
	})
}

// What another caller saw of a wait tells nothing to one who may not see the execution.
func TestResumeHidesOthersWaits(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(asks(k))))
		id := k.submit()
		synctest.Wait()
		_, err := k.rt.Get(k.Context(), store.ReadRequest{ID: id, Scope: everyone})
		k.ok(err)
		for _, input := range []string{`"yes"`, `"maybe"`} {
			_, err := k.rt.Resume(k.Context(), ResumeRequest{ID: id, Scope: store.Scope{Owner: "eve"}, Input: []byte(input)})
			k.code(err, execution.CodeNotFound)
		}
	})
}

// A keyed answer whose reply was lost is applied once and confirmed; without a key its outcome stays open.
func TestResumeReplyLost(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(asks(k))))
		for key, want := range map[string]execution.Code{"key": "", "": execution.CodeUnconfirmed} {
			id := k.submit()
			synctest.Wait()
			_, err := k.rt.Get(k.Context(), store.ReadRequest{ID: id, Scope: everyone})
			k.ok(err)
			k.store.next("resume", lostReply)
			_, err = k.answer(id, key, `"yes"`, 0)
			k.code(err, want)
			k.pass(5 * time.Second)
			k.is(id, execution.Completed)
		}
	})
}

// The answer is handed out until a checkpoint takes its place.
func TestAnswerUntilCheckpoint(t *testing.T) {
	inBubble(t, func(k *kit) {
		attempt := 0
		k.start(k.params(deploy(func(ctx context.Context, a handler.Attempt) handler.Outcome {
			switch attempt++; attempt {
			case 1:
				return handler.Suspended{Wait: execution.Wait{}}
			case 2:
				if string(a.Answer()) != `"yes"` {
					k.Error("the answer is missing")
				}
				return handler.Retried{}
			case 3:
				if string(a.Answer()) != `"yes"` {
					k.Error("the answer was lost without a checkpoint")
				}
				k.ok(a.Save(ctx, []byte(`1`)))
				return handler.Retried{}
			}
			if a.Answer() != nil {
				k.Error("the answer came back after a checkpoint")
			}
			return handler.Completed{}
		})))
		id := k.submit()
		synctest.Wait()
		_, err := k.answer(id, "", `"yes"`, 0)
		k.ok(err)
		synctest.Wait()
		k.is(id, execution.Completed)
	})
}

// A wait that nobody answers takes its default, or fails.
func TestWaitExpires(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(func(ctx context.Context, a handler.Attempt) handler.Outcome {
			if answer := a.Answer(); answer != nil {
				return handler.Completed{Result: answer}
			}
			w := execution.Wait{}
			if string(a.Info().Input) == `1` {
				w.Default = []byte(`"later"`)
			}
			return handler.Suspended{Wait: w, Timeout: time.Minute}
		})))
		with := k.submit()
		out, err := k.rt.Submit(k.Context(), SubmitRequest{Deployment: "d", Input: []byte(`2`)})
		k.ok(err)
		k.pass(66 * time.Second)
		if k.is(with, execution.Completed); string(k.read(with).Result) != `"later"` {
			k.Fatalf("result %s", k.read(with).Result)
		}
		if f := k.failure(out.Record.Control.ID); f.Code != execution.FailureWaitExpired {
			k.Fatalf("failure %+v", f)
		}
	})
}

// A key wins over everything that would refuse the submission today.
func TestSubmitOrder(t *testing.T) {
	inBubble(t, func(k *kit) {
		d := deploy(complete)
		d.Input = oneOf{"yes", "big"}
		p := k.params(d)
		p.Settings.MaxPayload = 6
		k.start(p)
		submit := func(deployment, key, input string) error {
			_, err := k.rt.Submit(k.Context(), SubmitRequest{Deployment: deployment, Key: key, Body: []byte(input), Input: []byte(input)})
			return err
		}
		k.ok(submit("d", "", `"yes"`))
		k.code(submit("none", "", `"yes"`), execution.CodeUnknownDeployment)
		k.code(submit("none", "key", `"yes"`), execution.CodeUnknownDeployment)
		k.code(submit("d", "", `"no"`), execution.CodeInvalidInput)
		k.code(submit("d", "", `"`+strings.Repeat("b", 10)+`"`), execution.CodeTooLarge)
		k.ok(submit("d", "key", `"yes"`))
		k.code(submit("d", "key", `"no"`), execution.CodeKeyReused)
		// Bound under rules that no longer hold: the bodies below are not admissible now.
		for deployment, body := range map[string]string{"gone": `"yes"`, "d": `"no"`} {
			key := store.Key{Deployment: deployment, Value: "old", Fingerprint: sha256.Sum256([]byte(body))}
			_, err := k.store.Store.Submit(k.Context(), store.Submission{Key: key, Submit: execution.Submit{ID: k.store.NewID(key),
				Deployment: deployment, Revision: "old", Budgets: execution.DefaultBudgets(), Input: []byte(body)}})
			k.ok(err)
			k.ok(submit(deployment, "old", body))
		}
	})
}

// A submission whose reply is lost is admitted once; one that can't be settled says so.
func TestSubmitReplyLost(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(complete)))
		k.store.next("submit", lostReply)
		out, err := k.rt.Submit(k.Context(), SubmitRequest{Deployment: "d", Input: []byte(`1`)})
		k.ok(err)
		if out.Replayed {
			k.Fatal("the client is told of a replay that it did not ask for")
		}
		k.store.next("submit", lostRequest, hung)
		_, err = k.rt.Submit(k.Context(), SubmitRequest{Deployment: "d", Input: []byte(`1`)})
		k.code(err, execution.CodeUnconfirmed)
		synctest.Wait()
		k.is(out.Record.Control.ID, execution.Completed)
	})
}

// A client learns whether what the store did not take may have been carried out: not where each try was refused.
func TestRefusedForNow(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(untilStopped(make(chan error, 1)))))
		id := k.submit()
		requests := map[string]func() error{
			"submit": func() error {
				_, err := k.rt.Submit(k.Context(), SubmitRequest{Deployment: "d", Input: []byte(`1`)})
				return err
			},
			"cancel": func() error {
				_, err := k.rt.Cancel(k.Context(), id, everyone, "")
				return err
			},
			"resume": func() error {
				_, err := k.rt.Resume(k.Context(), ResumeRequest{ID: id, Scope: everyone, Key: "key", Input: []byte(`1`)})
				return err
			},
		}
		for op, ask := range requests {
			k.store.next(op, refusedForNow, refusedForNow)
			k.code(ask(), execution.CodeUnavailable)
			k.store.next(op, hung, refusedForNow)
			k.code(ask(), execution.CodeUnconfirmed)
			k.store.next(op, refusedForNow, hung)
			k.code(ask(), execution.CodeUnconfirmed)
		}
		k.store.next("resume", refusedForNow)
		_, err := k.rt.Resume(k.Context(), ResumeRequest{ID: id, Scope: everyone, Input: []byte(`1`)})
		k.code(err, execution.CodeUnavailable)
	})
}

// The admission ceiling is that of the deployment.
func TestCapacity(t *testing.T) {
	inBubble(t, func(k *kit) {
		d, limit := deploy(untilStopped(make(chan error, 1))), int64(2)
		d.Options.MaxNonterminal = &limit
		k.start(k.params(d))
		k.submit()
		k.submit()
		_, err := k.rt.Submit(k.Context(), SubmitRequest{Deployment: "d", Input: []byte(`1`)})
		k.code(err, execution.CodeCapacity)
	})
}

// A repeat that was not even sent does not hide that the first try may have been applied.
func TestTwice(t *testing.T) {
	t.Parallel()
	sent := execution.Errorf(execution.CodeUnavailable, "no reply")
	unsent := &execution.Error{Code: execution.CodeUnavailable, Message: "not there", Unchanged: true}
	refused := execution.Errorf(execution.CodeCapacity, "full")
	for name, test := range map[string]struct {
		outcomes []error
		want     execution.Code
	}{
		"at once":             {[]error{nil}, ""},
		"refused":             {[]error{refused}, execution.CodeCapacity},
		"the second time":     {[]error{sent, nil}, ""},
		"refused then":        {[]error{sent, refused}, execution.CodeUnconfirmed}, // the first may yet arrive
		"no reply twice":      {[]error{sent, sent}, execution.CodeUnconfirmed},
		"then not sent":       {[]error{sent, unsent}, execution.CodeUnconfirmed},
		"not sent, refused":   {[]error{unsent, refused}, execution.CodeCapacity},
		"not sent, no reply":  {[]error{unsent, sent}, execution.CodeUnconfirmed},
		"not sent twice":      {[]error{unsent, unsent}, execution.CodeUnavailable},
		"not sent, then done": {[]error{unsent, nil}, ""},
	} {
		calls := 0
		_, err := twice(t.Context(), func() (int, error) {
			calls++
			return 0, test.outcomes[calls-1]
		})
		if got := execution.CodeOf(err); got != test.want || calls != len(test.outcomes) {
			t.Errorf("%s: %q after %d tries", name, got, calls)
		}
	}
}
