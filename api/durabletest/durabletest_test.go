package durabletest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/api/durabletest"
)

func submit[In, Out any](t *testing.T, fn func(durable.Context, In) (Out, error), input any) *durabletest.Execution {
	t.Helper()
	e, err := durabletest.Submit(durable.MustDefine("test", "1", fn, nil), input)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// ask waits for a number with what the wait says, and returns it.
func ask(w durable.Wait) func(durable.Context, struct{}) (int, error) {
	return func(c durable.Context, _ struct{}) (int, error) {
		n, ok, err := durable.Answer[int](c)
		if err != nil || ok {
			return n, err
		}
		return 0, durable.Suspend[int](c, nil, w)
	}
}

// A wait that expires takes its default, or fails the execution.
func TestExpire(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		wait         durable.Wait
		status, code string
		result       string
	}{
		{durable.Wait{Timeout: time.Hour, Default: 7}, durabletest.Completed, "", "7"},
		{durable.Wait{Timeout: time.Hour}, durabletest.Failed, "wait_expired", ""},
		{durable.Wait{}, durabletest.Waiting, "", ""},
	} {
		e := submit(t, ask(tc.wait), struct{}{})
		e.Run(t.Context())
		if err := e.Expire(); (err != nil) != (tc.wait.Timeout == 0) {
			t.Errorf("expire: %v", err)
		}
		if got := e.Run(t.Context()); got != tc.status || e.Failure().Code != tc.code || string(e.Result()) != tc.result {
			t.Errorf("%s, %+v, %s", got, e.Failure(), e.Result())
		}
	}
}

// An answer stays readable until a checkpoint takes its place, over a crash too.
func TestAnswerOutlivesACrash(t *testing.T) {
	t.Parallel()
	crash := func() {}
	fn := func(c durable.Context, _ struct{}) (string, error) {
		n, ok, err := durable.Answer[int](c)
		switch {
		case err != nil:
			return "", err
		case !ok && c.Attempt() == 1:
			return "", durable.Suspend[int](c, nil, durable.Wait{})
		case c.Attempt() == 2:
			crash()
			return "", durable.Save(c, n)
		}
		return fmt.Sprint(n, ok), nil
	}
	e := submit(t, fn, struct{}{})
	e.Run(t.Context())
	if err := e.Resume(5); err != nil {
		t.Fatal(err)
	}
	crash = e.Crash
	if e.Run(t.Context()); string(e.Result()) != `"5 true"` {
		t.Errorf("%s, %+v", e.Result(), e.Failure())
	}
}

// The third crash fails the execution; what a crashed attempt still says counts for nothing.
func TestCrashes(t *testing.T) {
	t.Parallel()
	var e *durabletest.Execution
	fn := func(c durable.Context, _ struct{}) (int, error) {
		e.Crash()
		if durable.Save(c, 1) == nil || durable.Stream(c, 1) == nil || durable.Progress(c, "") == nil || durable.Check(c) == nil {
			t.Error("a crashed attempt goes on")
		}
		return 1, nil
	}
	e = submit(t, fn, struct{}{})
	if got := e.Run(t.Context()); got != durabletest.Failed || e.Failure().Code != "lease_lost" || e.Attempts() != 3 {
		t.Errorf("%s, %+v, %d attempts", got, e.Failure(), e.Attempts())
	}
}

// Cancel ends what is queued or waits at once; a resume comes too late then.
func TestCancel(t *testing.T) {
	t.Parallel()
	e := submit(t, ask(durable.Wait{}), struct{}{})
	e.Run(t.Context())
	e.Cancel()
	if err := e.Resume(1); err == nil || e.Status() != durabletest.Canceled {
		t.Errorf("%v, %s", err, e.Status())
	}
	e.Crash() // changes nothing
	if got := e.Attempt(t.Context()); got != durabletest.Canceled {
		t.Errorf("%s", got)
	}
}

// A shutdown hands the execution over at no cost, however often.
func TestShutdown(t *testing.T) {
	t.Parallel()
	fn := func(c durable.Context, _ struct{}) (int64, error) {
		<-c.Done()
		return c.Attempt(), context.Cause(c)
	}
	e := submit(t, fn, json.RawMessage(`{}`))
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if got := e.Attempt(ctx); got != durabletest.Queued {
			t.Fatalf("%s", got)
		}
		cancel()
	}
}

// What does not fit is refused as a server refuses it.
func TestRefusals(t *testing.T) {
	t.Parallel()
	d := durable.MustDefine("test", "1", ask(durable.Wait{}), nil)
	for _, input := range []any{1, json.RawMessage(`{"a":1}`), make(chan int)} {
		if _, err := durabletest.Submit(d, input); err == nil {
			t.Errorf("%v is taken", input)
		}
	}
	e := submit(t, ask(durable.Wait{}), struct{}{})
	if e.Resume(1) == nil || e.Expire() == nil || e.Question() != "" {
		t.Error("a queued execution waits")
	}
	e.Run(t.Context())
	if e.Resume("one") == nil || e.Resume(make(chan int)) == nil {
		t.Error("a wrong answer is taken")
	}
}
