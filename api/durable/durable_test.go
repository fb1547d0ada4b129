package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
)

// fake is an attempt that records what reaches the runtime.
type fake struct {
	info   handler.Info
	answer []byte
	saved  []byte
	err    error // of Save, Report, Stream and Check
}

func (f *fake) Info() handler.Info                                                  { return f.info }
func (f *fake) Answer() []byte                                                      { return f.answer }
func (f *fake) Stream([]byte) error                                                 { return f.err }
func (f *fake) Check(context.Context) error                                         { return f.err }
func (f *fake) Save(_ context.Context, c []byte) error                              { f.saved = c; return f.err }
func (f *fake) Report(context.Context, string, string, json.RawMessage, bool) error { return f.err }

func define[In, Out any](t *testing.T, fn func(durable.Context, In) (Out, error)) handler.Deployment {
	t.Helper()
	d, err := durable.Define("test", "1", fn, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d.Definition()
}

// run runs one attempt of a function without input.
func run(ctx context.Context, t *testing.T, a *fake, fn func(durable.Context) error) handler.Outcome {
	t.Helper()
	a.info.Input = []byte(`{}`)
	d := define(t, func(c durable.Context, _ struct{}) (json.RawMessage, error) { return nil, fn(c) })
	return d.Handler.Run(ctx, a)
}

func failure(t *testing.T, o handler.Outcome) execution.Failure {
	t.Helper()
	f, ok := o.(handler.Failed)
	if !ok {
		t.Fatalf("outcome %#v, want a failure", o)
	}
	if f.Cause == nil {
		t.Error("nothing for the log")
	}
	return f.Error
}

// Clients see a public error as it is, wrapped or not, and of any other error the class and a constant text.
func TestFailures(t *testing.T) {
	t.Parallel()
	const hidden = "The deployment failed. The reason is in the log of the worker."
	quota := durable.Error{Type: "Quota", Code: "quota", Message: "No more today.", Retryable: true, Err: errors.New("secret")}
	public := execution.Failure{Type: "Quota", Code: "quota", Message: "No more today.", Retryable: true}
	plain := func(class string) execution.Failure {
		return execution.Failure{Type: class, Code: "application_error", Message: hidden}
	}
	for name, tc := range map[string]struct {
		err  error
		want execution.Failure
	}{
		"value":     {quota, public},
		"pointer":   {&quota, public},
		"wrapped":   {fmt.Errorf("page 3: %w", quota), public},
		"joined":    {errors.Join(errors.New("secret"), &quota), public},
		"empty":     {durable.Error{}, execution.Failure{Type: "Error", Code: "application_error", Message: hidden}},
		"plain":     {errors.New("secret"), plain("errors.errorString")},
		"typed":     {fmt.Errorf("secret: %w", &fs.PathError{Op: "open", Path: "secret", Err: fs.ErrNotExist}), plain("fs.PathError")},
		"two":       {fmt.Errorf("%w and %w", &json.UnmarshalTypeError{}, errors.New("secret")), plain("json.UnmarshalTypeError")},
		"deadline":  {context.DeadlineExceeded, plain("context.deadlineExceededError")},
		"too large": {nil, execution.Failure{Type: "PayloadTooLarge", Code: "payload_too_large", Message: "over the limit"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &fake{err: &execution.Error{Code: execution.CodeTooLarge, Message: "over the limit", Err: errors.New("secret")}}
			got := failure(t, run(t.Context(), t, a, func(c durable.Context) error {
				if tc.err == nil {
					return durable.Save(c, 1)
				}
				return tc.err
			}))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if strings.Contains(string(got.Encode()), "secret") {
				t.Errorf("internal text reaches clients: %s", got.Encode())
			}
		})
	}
}

// An attempt that must stop is no failure of its work, whatever its error looks like by then.
func TestStops(t *testing.T) {
	t.Parallel()
	for _, reason := range []error{durable.ErrCanceled, durable.ErrLeaseLost, durable.ErrShutdown} {
		t.Run(reason.Error(), func(t *testing.T) {
			t.Parallel()
			a := &fake{err: reason}
			for name, fn := range map[string]func(durable.Context) error{
				"save":     func(c durable.Context) error { return durable.Save(c, 1) },
				"progress": func(c durable.Context) error { return fmt.Errorf("wrapped: %w", durable.Progress(c, "")) },
				"stream":   func(c durable.Context) error { return errors.Join(durable.Stream(c, 1)) },
				"retry":    func(c durable.Context) error { return durable.Retry(c, 0, durable.Check(c)) },
			} {
				if o := run(t.Context(), t, a, fn); o != (handler.Stopped{}) {
					t.Errorf("%s: %#v", name, o)
				}
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(reason)
			for name, fn := range map[string]func(durable.Context) error{
				"other error":  func(durable.Context) error { return errors.New("broken pipe") },
				"public error": func(durable.Context) error { return durable.Error{Code: "x"} },
				"suspend":      func(c durable.Context) error { return durable.Suspend[bool](c, nil, durable.Wait{}) },
				"retry":        func(c durable.Context) error { return durable.Retry(c, 0, nil) },
			} {
				if o := run(ctx, t, &fake{}, fn); o != (handler.Stopped{}) {
					t.Errorf("after the stop, %s: %#v", name, o)
				}
			}
		})
	}
}

// A result that was reached counts, also when it was reached after the word to stop.
func TestResultAfterStop(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(durable.ErrShutdown)
	o := run(ctx, t, &fake{}, func(durable.Context) error { return nil })
	if _, ok := o.(handler.Completed); !ok {
		t.Errorf("%#v", o)
	}
}

// Checkpoints stand in an envelope with a version, and come back exactly.
func TestCheckpoint(t *testing.T) {
	t.Parallel()
	state := json.RawMessage(`{"n":3889108265204450030,"z":-0.0,"html":"<&>","e":[]}`)
	a := &fake{}
	run(t.Context(), t, a, func(c durable.Context) error { return durable.Save(c, state) })
	if want := `{"v":1,"state":` + string(state) + `}`; string(a.saved) != want {
		t.Fatalf("stored %s, want %s", a.saved, want)
	}
	a.info.Checkpoint = a.saved
	run(t.Context(), t, a, func(c durable.Context) error {
		var got json.RawMessage
		if ok, err := durable.Restore(c, &got); !ok || err != nil || string(got) != string(state) {
			t.Errorf("restored %s, %v, %v", got, ok, err)
		}
		return nil
	})
}

// Without a checkpoint Restore leaves the state alone; one that it can't read fails the execution for good.
func TestRestore(t *testing.T) {
	t.Parallel()
	restore := func(c durable.Context) error {
		state := 7
		ok, err := durable.Restore(c, &state)
		if ok || state != 7 {
			t.Errorf("restored %d", state)
		}
		return err
	}
	if o, ok := run(t.Context(), t, &fake{}, restore).(handler.Completed); !ok {
		t.Errorf("no checkpoint: %#v", o)
	}
	for _, stored := range []string{`{"v":2,"state":1}`, `{"v":1,"state":"text"}`, `{"v":1}`, `{}`, `[`, `1`} {
		a := &fake{info: handler.Info{Checkpoint: []byte(stored)}}
		if f := failure(t, run(t.Context(), t, a, restore)); f.Code != execution.FailureStoredInvalid {
			t.Errorf("%s: %+v", stored, f)
		}
	}
}

// What can't be written as strict JSON is refused where it is handed in, and the attempt may go on.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{
		"not a number": math.NaN(), "function": func() {}, "broken raw": json.RawMessage(`{"a":1,"a":2}`),
		"lone surrogate": json.RawMessage(`"\ud800"`),
	} {
		run(t.Context(), t, &fake{}, func(c durable.Context) error {
			for call, err := range map[string]error{
				"save": durable.Save(c, value), "stream": durable.Stream(c, value),
				"report":  durable.Report(c, durable.Event{Metadata: value}),
				"suspend": durable.Suspend[bool](c, value, durable.Wait{}),
			} {
				if err == nil || strings.Contains(err.Error(), "must return") {
					t.Errorf("%s takes %s: %v", call, name, err)
				}
			}
			return nil
		})
	}
	d := define(t, func(durable.Context, struct{}) (float64, error) { return math.Inf(1), nil })
	f := failure(t, d.Handler.Run(t.Context(), &fake{info: handler.Info{Input: []byte(`{}`)}}))
	if f.Type != "ResultUnwritable" {
		t.Errorf("result: %+v", f)
	}
}

type order struct {
	Small int8            `json:"small"`
	When  time.Time       `json:"when,omitzero"`
	Items []item          `json:"items,omitempty"`
	Raw   json.RawMessage `json:"raw,omitempty"`
}

type item struct {
	Count int `json:"count"`
}

// A value is refused at the door if it breaks the schema, and also if the schema can't say what the Go type can't hold.
func TestInput(t *testing.T) {
	t.Parallel()
	d := define(t, func(_ durable.Context, in order) (order, error) { return in, nil })
	for input, pointer := range map[string]string{
		`{"small":1,"raw":1e400}`:           "fits",
		`{"small":1,"items":[{"count":1}]}`: "fits",
		`{"small":"1"}`:                     "/small",
		`{"small":200}`:                     "/small",
		`{"small":1,"more":true}`:           "",
		`{"small":1,"items":[{"count":1},{"count":9223372036854775808}]}`: "/items/1/count",
		`{"small":1,"items":[{"count":1},{"count":2.0}]}`:                 "/items/1/count",
		`{"small":1,"when":"yesterday"}`:                                  "/when",
	} {
		broken := d.Input.Validate([]byte(input))
		switch {
		case pointer == "fits" && len(broken) > 0:
			t.Errorf("%s is refused: %v", input, broken)
		case pointer != "fits" && len(broken) == 0:
			t.Errorf("%s is taken", input)
		case pointer != "fits" && broken[0].Rule == "":
			t.Errorf("%s breaks no rule", input)
		case pointer != "fits" && broken[0].Pointer != pointer && !strings.HasPrefix(broken[0].Pointer, pointer):
			t.Errorf("%s: pointer %q, want %q", input, broken[0].Pointer, pointer)
		}
	}
}

// A schema of the author's own may admit more than the type has; the rest is ignored.
func TestInputSchema(t *testing.T) {
	t.Parallel()
	fn := func(_ durable.Context, in item) (int, error) { return in.Count, nil }
	opts := &durable.Options{InputSchema: json.RawMessage(`{"type":"object","required":["count"]}`)}
	d, err := durable.Define("test", "1", fn, opts)
	if err != nil {
		t.Fatal(err)
	}
	if broken := d.Definition().Input.Validate([]byte(`{"count":1,"more":2}`)); len(broken) > 0 {
		t.Errorf("refused: %v", broken)
	}
	if broken := d.Definition().Input.Validate([]byte(`{"count":"1"}`)); len(broken) != 1 || broken[0].Pointer != "/count" || broken[0].Rule != "type" {
		t.Errorf("a value that does not fit the type: %v", broken)
	}
}

// What is wrong with a deployment is said when it is defined.
func TestDefine(t *testing.T) {
	t.Parallel()
	fn := func(durable.Context, int) (int, error) { return 0, nil }
	for _, name := range []string{"", "-a", "a b", "ä", strings.Repeat("a", 65), "a/b"} {
		if _, err := durable.Define(name, "1", fn, nil); err == nil {
			t.Errorf("name %q is taken", name)
		}
		if _, err := durable.Define("test", name, fn, nil); err == nil {
			t.Errorf("revision %q is taken", name)
		}
	}
	for _, opts := range []durable.Options{
		{Slots: -1}, {Retries: -2}, {Lease: -1}, {MaxUnfinished: -2}, {InputSchema: json.RawMessage(`{"type":3}`)},
		{InputSchema: json.RawMessage(`{`)}, {InputSchema: json.RawMessage(`{"$ref":"http://example.com/x"}`)},
	} {
		if _, err := durable.Define("test", "1", fn, &opts); err == nil {
			t.Errorf("options %+v are taken", opts)
		}
	}
	if _, err := durable.Define("test", "1", func(durable.Context, chan int) (int, error) { return 0, nil }, nil); err == nil {
		t.Error("a channel is taken for an input")
	}
	defer func() {
		if recover() == nil {
			t.Error("MustDefine does not panic")
		}
	}()
	durable.MustDefine("", "", fn, nil)
}

// None says "none" where zero takes the default, and naming one budget leaves the others at theirs.
func TestOptions(t *testing.T) {
	t.Parallel()
	fn := func(durable.Context, int) (int, error) { return 0, nil }
	none, seven := int64(0), int64(7)
	for _, tc := range []struct {
		opts durable.Options
		want handler.Options
	}{
		{durable.Options{}, handler.Options{}},
		{durable.Options{Retries: durable.None, MaxUnfinished: durable.None},
			handler.Options{Budgets: execution.Budgets{LostLeases: 3, Retries: 0, Claims: 20}, MaxNonterminal: &none}},
		{durable.Options{LostLeases: 5, Claims: 9, MaxUnfinished: 7, Slots: 2, Lease: time.Second, DropChunks: true},
			handler.Options{Budgets: execution.Budgets{LostLeases: 5, Retries: 2, Claims: 9}, MaxNonterminal: &seven,
				Slots: 2, Lease: time.Second, DropChunks: true}},
	} {
		d, err := durable.Define("test", "1", fn, &tc.opts)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, d.Definition().Options); diff != "" {
			t.Error(diff)
		}
	}
}

// A suspension carries the derived schema, the checkpoint and a default answer that fits.
func TestSuspend(t *testing.T) {
	t.Parallel()
	o := run(t.Context(), t, &fake{}, func(c durable.Context) error {
		wait := durable.Wait{Kind: "count", Message: "How many?", Timeout: time.Hour, Default: item{Count: 3}}
		return fmt.Errorf("ask: %w", durable.Suspend[item](c, []int{1}, wait))
	})
	s, ok := o.(handler.Suspended)
	if !ok {
		t.Fatalf("%#v", o)
	}
	if string(s.Checkpoint) != `{"v":1,"state":[1]}` || string(s.Wait.Default) != `{"count":3}` || s.Timeout != time.Hour {
		t.Errorf("%+v", s)
	}
	if !strings.Contains(string(s.Wait.Schema), `"additionalProperties":false`) {
		t.Errorf("schema %s", s.Wait.Schema)
	}
	for name, wait := range map[string]durable.Wait{
		"default that does not fit": {Default: "three"}, "negative timeout": {Timeout: -1},
	} {
		o := run(t.Context(), t, &fake{}, func(c durable.Context) error { return durable.Suspend[item](c, nil, wait) })
		if _, ok := o.(handler.Failed); !ok {
			t.Errorf("%s: %#v", name, o)
		}
	}
}

// With SuspendSchema the answer is whatever the author's schema says.
func TestSuspendSchema(t *testing.T) {
	t.Parallel()
	for schema, taken := range map[string]bool{`{"enum":["yes","no"]}`: true, ``: true, `{"type":1}`: false} {
		o := run(t.Context(), t, &fake{}, func(c durable.Context) error {
			var raw json.RawMessage
			if schema != "" {
				raw = json.RawMessage(schema)
			}
			return durable.SuspendSchema(c, raw, nil, durable.Wait{Default: "no"})
		})
		s, ok := o.(handler.Suspended)
		if ok != taken || ok && (s.Checkpoint != nil || s.Wait.Kind != "input") {
			t.Errorf("%s: %#v", schema, o)
		}
	}
}

// An answer that does not fit the type is an error that clients may see.
func TestAnswer(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{`{"count":3}`: "3 true", ``: "0 false", `"x"`: "answer_unreadable"} {
		a := &fake{}
		if answer != "" {
			a.answer = []byte(answer)
		}
		o := run(t.Context(), t, a, func(c durable.Context) error {
			got, ok, err := durable.Answer[item](c)
			if text := fmt.Sprint(got.Count, ok); err == nil && text != want {
				t.Errorf("%s: %s", answer, text)
			}
			return err
		})
		if f, failed := o.(handler.Failed); failed && f.Error.Code != want {
			t.Errorf("%s: %+v", answer, f.Error)
		}
	}
}

// A retry shows its cause as any error, and logs all of it.
func TestRetry(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		delay time.Duration
		cause error
		want  handler.Retried
	}{
		{time.Minute, durable.Error{Type: "Busy", Code: "busy", Message: "Later.", Err: errors.New("why")}, handler.Retried{
			Delay: time.Minute, Message: "busy: Later.: why",
			Error: execution.Failure{Type: "Busy", Code: "busy", Message: "Later."}}},
		{durable.Backoff, errors.New("secret"), handler.Retried{Delay: -1, Message: "secret", Error: execution.Failure{
			Type: "errors.errorString", Code: "application_error",
			Message: "The deployment failed. The reason is in the log of the worker."}}},
		{0, nil, handler.Retried{Message: "retry: The deployment asked for another attempt.", Error: execution.Failure{
			Type: "Retry", Code: "retry", Message: "The deployment asked for another attempt.", Retryable: true}}},
	} {
		o := run(t.Context(), t, &fake{}, func(c durable.Context) error {
			return fmt.Errorf("wrapped: %w", durable.Retry(c, tc.delay, tc.cause))
		})
		if diff := cmp.Diff(handler.Outcome(tc.want), o); diff != "" {
			t.Error(diff)
		}
	}
}

// The context tells who runs what for whom.
func TestContext(t *testing.T) {
	t.Parallel()
	a := &fake{info: handler.Info{ID: "id", Deployment: "d", Revision: "r", Owner: "o", Labels: "a=b\nc=", Number: 3, Retries: 1,
		Trace: execution.Trace{Parent: "p", State: "s"}}}
	run(t.Context(), t, a, func(c durable.Context) error {
		got := fmt.Sprint(c.ExecutionID(), c.Deployment(), c.Revision(), c.Owner(), c.Labels(), c.Attempt(), c.Retries())
		if want := fmt.Sprint("id", "d", "r", "o", map[string]string{"a": "b", "c": ""}, int64(3), int64(1)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if parent, state := c.Trace(); parent != "p" || state != "s" {
			t.Errorf("trace %q, %q", parent, state)
		}
		return nil
	})
}

// Input that was admitted but can't be read fails the execution as stored state that is invalid.
func TestStoredInput(t *testing.T) {
	t.Parallel()
	d := define(t, func(durable.Context, item) (int, error) { return 0, nil })
	f := failure(t, d.Handler.Run(t.Context(), &fake{info: handler.Info{Input: []byte(`{"count":`)}}))
	if f.Code != execution.FailureStoredInvalid {
		t.Errorf("%+v", f)
	}
}
