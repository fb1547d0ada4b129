package demo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/api/durabletest"
	"github.com/windrow-run/windrow/internal/demo"
)

func submit(t *testing.T, p demo.Params, name, input string) *durabletest.Execution {
	t.Helper()
	all, err := demo.Deployments(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if d.Name() != name {
			continue
		}
		e, err := durabletest.Submit(d, json.RawMessage(input))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	t.Fatalf("there is no deployment %q", name)
	return nil
}

func completed(t *testing.T, e *durabletest.Execution, want string) {
	t.Helper()
	if got := e.Run(t.Context()); got != durabletest.Completed {
		t.Fatalf("status %s, error %+v", got, e.Failure())
	}
	if got := string(e.Result()); got != want {
		t.Errorf("result %s, want %s", got, want)
	}
}

// All demo deployments carry the revision that was asked for, so that two servers can run two of them.
func TestRevision(t *testing.T) {
	t.Parallel()
	all, err := demo.Deployments(demo.Params{Revision: "2026-01"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range all {
		got = append(got, d.Name()+" "+d.Revision())
	}
	want := []string{"echo 2026-01", "story 2026-01", "approval 2026-01", "flaky 2026-01", "crash 2026-01"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := demo.Deployments(demo.Params{Revision: "no spaces"}); err == nil {
		t.Error("a revision with a space was taken")
	}
}

// Whatever JSON goes into echo comes out byte for byte.
func TestEcho(t *testing.T) {
	t.Parallel()
	for _, input := range []string{
		`3889108265204450030`, `-0`, `1e400`, `0.1e1`, `[]`, `{}`, `null`, `"<a href=\"x\">&\u2028\ud83d\ude00"`,
		`{"b":[{}],"a":{"<":">"},"":0.10}`,
	} {
		t.Run(input, func(t *testing.T) {
			t.Parallel()
			completed(t, submit(t, demo.Params{}, "echo", input), input)
		})
	}
}

type chunk struct {
	Index int    `json:"index"`
	Text  string `json:"text"`
}

func chunks(t *testing.T, e *durabletest.Execution) []chunk {
	t.Helper()
	var all []chunk
	for _, data := range e.Chunks() {
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// A story streams its chunks in order over its time, with a progress event after each paragraph.
func TestStory(t *testing.T) {
	for _, tc := range []struct {
		input              string
		chunks, paragraphs int
		took               time.Duration
	}{
		{`{}`, 300, 10, 10 * time.Second},
		{`{"chunks":300,"seconds":10}`, 300, 10, 10 * time.Second},
		{`{"chunks":7,"seconds":0.7}`, 7, 7, 700 * time.Millisecond},
		{`{"chunks":50,"seconds":0}`, 50, 10, 0},
	} {
		t.Run(tc.input, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				e := submit(t, demo.Params{}, "story", tc.input)
				completed(t, e, fmt.Sprintf(`{"chunks":%d,"paragraphs":%d}`, tc.chunks, tc.paragraphs))
				checkContiguous(t, chunks(t, e), tc.chunks)
				if got := len(e.Progress()); got != tc.paragraphs {
					t.Errorf("%d progress events, want %d", got, tc.paragraphs)
				}
				// The last chunk is due one step before the end.
				if took, step := time.Since(start), tc.took/time.Duration(tc.chunks); took < tc.took-2*step || took > tc.took {
					t.Errorf("took %v, want nearly %v", took, tc.took)
				}
			})
		})
	}
}

func checkContiguous(t *testing.T, got []chunk, want int) {
	t.Helper()
	if len(got) != want {
		t.Fatalf("%d chunks, want %d", len(got), want)
	}
	for i, c := range got {
		if c.Index != i || c.Text == "" {
			t.Fatalf("chunk %d is %+v", i, c)
		}
	}
}

// After a crash a story goes on with the first paragraph that was not saved, at its old pace.
func TestStoryGoesOnAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := submit(t, demo.Params{}, "story", `{"chunks":100,"seconds":10}`)
		time.AfterFunc(4550*time.Millisecond, e.Crash) // 46 chunks streamed, 40 of them saved
		start := time.Now()
		if got := e.Attempt(t.Context()); got != durabletest.Queued {
			t.Fatalf("after the crash: %s", got)
		}
		resumed := time.Now()
		completed(t, e, `{"chunks":100,"paragraphs":10}`)
		all := chunks(t, e)
		checkContiguous(t, all[:46], 46)
		if got := all[46].Index; got != 40 {
			t.Errorf("the second attempt begins with chunk %d", got)
		}
		if got := len(all); got != 46+60 {
			t.Errorf("%d chunks in all", got)
		}
		if first, second := resumed.Sub(start), time.Since(resumed); first != 4550*time.Millisecond || second != 5900*time.Millisecond {
			t.Errorf("the attempts took %v and %v", first, second)
		}
		if e.Attempts() != 2 {
			t.Errorf("%d attempts", e.Attempts())
		}
	})
}

// A story that is canceled, or whose process shuts down, stops at once, also between two chunks.
func TestStoryStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := submit(t, demo.Params{}, "story", `{"chunks":10,"seconds":86400}`)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if got := e.Attempt(ctx); got != durabletest.Queued || time.Since(start) != time.Minute {
			t.Errorf("shutdown: %s after %v", got, time.Since(start))
		}
		time.AfterFunc(time.Minute, e.Cancel)
		if got := e.Run(t.Context()); got != durabletest.Canceled || time.Since(start) != 2*time.Minute {
			t.Errorf("cancel: %s after %v", got, time.Since(start))
		}
	})
}

// An approval asks its question, refuses what is no decision, and completes with the one that it gets.
func TestApproval(t *testing.T) {
	t.Parallel()
	e := submit(t, demo.Params{}, "approval", `{"question":"Ship it?"}`)
	if got := e.Run(t.Context()); got != durabletest.Waiting || e.Question() != "Ship it?" {
		t.Fatalf("status %s, question %q", got, e.Question())
	}
	for _, wrong := range []string{`{}`, `{"approved":"yes"}`, `{"approved":true,"extra":1}`, `true`} {
		if err := e.Resume(json.RawMessage(wrong)); err == nil {
			t.Errorf("%s was taken for a decision", wrong)
		}
	}
	if err := e.Resume(json.RawMessage(`{"approved":true,"note":"ok"}`)); err != nil {
		t.Fatal(err)
	}
	completed(t, e, `{"question":"Ship it?","approved":true,"note":"ok"}`)
}

// Flaky completes after as many retries as it was told to ask for, and fails where those are beyond its budget.
func TestFlaky(t *testing.T) {
	t.Parallel()
	completed(t, submit(t, demo.Params{}, "flaky", `{}`), `{"attempts":3}`)
	completed(t, submit(t, demo.Params{}, "flaky", `{"retries":0}`), `{"attempts":1}`)
	e := submit(t, demo.Params{}, "flaky", `{"retries":3}`)
	if got := e.Run(t.Context()); got != durabletest.Failed {
		t.Fatalf("status %s", got)
	}
	want := durable.Error{Type: "Flaky", Code: "retries_exhausted", Message: "Attempt 3 failed on purpose."}
	if diff := cmp.Diff(want, e.Failure()); diff != "" {
		t.Error(diff)
	}
}

// Crash takes its process down once.
func TestCrash(t *testing.T) {
	t.Parallel()
	var e *durabletest.Execution
	exits := 0
	exit := func(int) {
		exits++
		e.Crash()
	}
	e = submit(t, demo.Params{Exit: exit}, "crash", `{}`)
	completed(t, e, `{"attempts":2}`)
	if exits != 1 {
		t.Errorf("the process exited %d times", exits)
	}
}

// Inputs that make no sense are refused before anything runs.
func TestInputs(t *testing.T) {
	t.Parallel()
	all, err := demo.Deployments(demo.Params{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		for _, input := range map[string][]string{
			"story":    {`{"chunks":0}`, `{"chunks":1.5}`, `{"seconds":-1}`, `{"chunk":3}`, `[]`, `{"chunks":100001}`},
			"approval": {`{"question":1}`, `null`},
			"flaky":    {`{"retries":-1}`, `{"retries":"2"}`},
			"crash":    {`{"now":true}`},
		}[d.Name()] {
			if _, err := durabletest.Submit(d, json.RawMessage(input)); err == nil {
				t.Errorf("%s takes %s", d.Name(), input)
			}
		}
	}
}
