package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/api/client"
)

// serve starts a server that answers with h, and returns a client of it that repeats fast.
func serve(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return dial(t, s.URL, &client.Options{Backoff: client.Backoff{First: time.Millisecond, Max: time.Millisecond}})
}

func dial(t *testing.T, url string, opts *client.Options) *client.Client {
	t.Helper()
	c, err := client.New(url, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// write answers a request. What does not arrive fails the test of the client.
func write(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

const queued = `{"execution_id":"e1","deployment":"story","revision":"1","status":"queued","attempt":0,"sequence":1,` +
	`"created_at":"2026-01-02T03:04:05.678Z","updated_at":"2026-01-02T03:04:05.678Z","links":{"self":"/v1/executions/e1"}}`

// request is what a server saw.
type request struct{ Method, Path, Body, Key, Type string }

func seen(r *http.Request) request {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	return request{r.Method, r.URL.EscapedPath(), string(body), r.Header.Get("Idempotency-Key"), r.Header.Get("Content-Type")}
}

// Each call is the request that the contract says, with the bytes of raw JSON unchanged.
func TestRequests(t *testing.T) {
	t.Parallel()
	var got request
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = seen(r)
		write(w, queued)
	})
	ctx, raw := t.Context(), json.RawMessage(`{"n":1e400,"h":"<&>"}`)
	const executions = "/v1/executions/"
	for _, tc := range []struct {
		call func() (client.Execution, error)
		want request
	}{
		{func() (client.Execution, error) { return c.Submit(ctx, "a/b", raw, nil) },
			request{"POST", "/v1/deployments/a%2Fb/executions", `{"input":` + string(raw) + `}`, "", "application/json"}},
		{func() (client.Execution, error) { return c.Submit(ctx, "d", 1, &client.SubmitOptions{Key: "k"}) },
			request{"POST", "/v1/deployments/d/executions", `{"input":1}`, "k", "application/json"}},
		{func() (client.Execution, error) { return c.Submit(ctx, "d", 1, &client.SubmitOptions{Key: `k\"`}) },
			request{"POST", "/v1/deployments/d/executions", `{"input":1}`, `k\"`, "application/json"}},
		{func() (client.Execution, error) { return c.Submit(ctx, "d", 1, &client.SubmitOptions{Key: ` k\"`}) },
			request{"POST", "/v1/deployments/d/executions", `{"input":1}`, `" k\\\""`, "application/json"}},
		{func() (client.Execution, error) { return c.Submit(ctx, "d", 1, &client.SubmitOptions{Key: `"k"`}) },
			request{"POST", "/v1/deployments/d/executions", `{"input":1}`, `"\"k\""`, "application/json"}},
		{func() (client.Execution, error) { return c.Get(ctx, "e1") }, request{Method: "GET", Path: executions + "e1"}},
		{func() (client.Execution, error) {
			return c.Resume(ctx, "e1", raw, &client.ResumeOptions{Key: "k", Sequence: 3})
		}, request{"POST", executions + "e1/resume", `{"input":` + string(raw) + `,"sequence":3}`, "k", "application/json"}},
		{func() (client.Execution, error) { return c.Cancel(ctx, "e1", "why") },
			request{"POST", executions + "e1/cancel", `{"reason":"why"}`, "", "application/json"}},
		{func() (client.Execution, error) { return c.Cancel(ctx, "e1", "") },
			request{"POST", executions + "e1/cancel", `{}`, "", "application/json"}},
	} {
		e, err := tc.call()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Error(diff)
		}
		if e.ExecutionID != "e1" || e.Ended() || string(e.Raw) != queued || e.CreatedAt.UnixMilli() != 1767323045678 {
			t.Errorf("%+v", e)
		}
	}
}

// A refusal is the server's problem document; whatever else answers is told by its status.
func TestProblems(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"type":"x","title":"Invalid","status":422,"detail":"It does not fit.","code":"invalid_input",` +
			`"errors":[{"pointer":"/a/0","message":"must be a string"}]}`: "It does not fit. (422 invalid_input)\n  \"/a/0\" must be a string",
		`<html>`: "Unprocessable Entity (422)",
	} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			write(w, body)
		})
		_, err := c.Submit(t.Context(), "d", 1, &client.SubmitOptions{Key: "k"})
		var p *client.Problem
		if !errors.As(err, &p) || p.Status != 422 || p.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Something that is no Windrow server is not taken for one.
func TestOtherServer(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{}`, `<html>`, ``} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) { write(w, body) })
		if _, err := c.Get(t.Context(), "e1"); err == nil {
			t.Errorf("%q is taken for an execution", body)
		}
	}
	for _, url := range []string{"", "localhost:8080", "ftp://x", "http://", "/x"} {
		if _, err := client.New(url, nil); err == nil {
			t.Errorf("%q is taken for a server", url)
		}
	}
}

// A failed request is repeated where it can't be done twice, and only there.
func TestRepeats(t *testing.T) {
	t.Parallel()
	type call func(context.Context, *client.Client) error
	submit := func(key string) call {
		return func(ctx context.Context, c *client.Client) error {
			_, err := c.Submit(ctx, "d", 1, &client.SubmitOptions{Key: key})
			return err
		}
	}
	get := func(ctx context.Context, c *client.Client) error { _, err := c.Get(ctx, "e1"); return err }
	cancel := func(ctx context.Context, c *client.Client) error { _, err := c.Cancel(ctx, "e1", ""); return err }
	resume := func(ctx context.Context, c *client.Client) error { _, err := c.Resume(ctx, "e1", 1, nil); return err }
	for name, tc := range map[string]struct {
		call   call
		status int // of the first two answers; 0: the connection is cut
		want   int64
	}{
		"get": {get, 503, 3}, "get, cut": {get, 0, 3}, "get, 404": {get, 404, 1}, "get, 500": {get, 500, 1},
		"cancel": {cancel, 502, 3}, "resume": {resume, 503, 1}, "resume, cut": {resume, 0, 1},
		"submit": {submit(""), 503, 1}, "submit, cut": {submit(""), 0, 1},
		"submit with key": {submit("k"), 429, 3}, "submit with key, cut": {submit("k"), 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				seen(r)
				switch {
				case asked.Add(1) > 2:
					write(w, queued)
				case tc.status == 0:
					panic(http.ErrAbortHandler)
				default:
					w.WriteHeader(tc.status)
				}
			})
			err := tc.call(t.Context(), c)
			if got := asked.Load(); got != tc.want || (err == nil) != (tc.want == 3) {
				t.Errorf("asked %d times, want %d; %v", got, tc.want, err)
			}
		})
	}
}

// A call ends with its context, also while it waits to repeat.
func TestContextEndsCall(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
		cancel()
	})
	if _, err := c.Get(ctx, "e1"); err == nil {
		t.Error("no error")
	}
}

// Ready is the server's readiness, asked once.
func TestReady(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("asked %s", r.URL.Path)
		}
		w.WriteHeader(status)
	})
	if err := c.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	status = http.StatusServiceUnavailable
	if err := c.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "503") {
		t.Error(err)
	}
}

// Every request says who makes it, streams included.
func TestToken(t *testing.T) {
	t.Parallel()
	got := make(chan string, 2)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Authorization")
		if strings.HasSuffix(r.URL.Path, "/stream") {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		write(w, queued)
	}))
	t.Cleanup(s.Close)
	c := dial(t, s.URL, &client.Options{Token: "wdr_x"})
	if _, err := c.Wait(t.Context(), "e1"); err != nil { // follows, and then reads
		t.Fatal(err)
	}
	for range 2 {
		if header := <-got; header != "Bearer wdr_x" {
			t.Errorf("sent %q", header)
		}
	}
}

// What waits, filters or asks for what has changed is told to the server, and answered as it answers.
func TestReads(t *testing.T) {
	t.Parallel()
	var asked []string
	answers := []string{queued, "", queued, `{"n":1e400}`, `[1.0]`, queued}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("If-None-Match")+r.Header.Get("Prefer")))
		answer := answers[len(asked)-1]
		w.Header().Set("ETag", `"t`+strconv.Itoa(len(asked))+`"`)
		if answer == "" {
			w.WriteHeader(http.StatusNotModified)
		}
		write(w, answer)
	})
	ctx := t.Context()
	e, err := c.Get(ctx, "e1")
	if err != nil || e.ETag != `"t1"` {
		t.Fatalf("%+v, %v", e, err)
	}
	if same, err := c.Refresh(ctx, e, 1500*time.Millisecond); err != nil || same.ETag != `"t1"` || string(same.Raw) != queued {
		t.Errorf("unchanged: %+v, %v", same, err)
	}
	if changed, err := c.Refresh(ctx, e, 0); err != nil || changed.ETag != `"t3"` {
		t.Errorf("changed: %+v, %v", changed, err)
	}
	if result, err := c.Result(ctx, "e1"); err != nil || string(result) != `{"n":1e400}` {
		t.Errorf("%s, %v", result, err)
	}
	if input, err := c.Input(ctx, "e1"); err != nil || string(input) != `[1.0]` {
		t.Errorf("%s, %v", input, err)
	}
	if _, err := c.Submit(ctx, "d", 1, &client.SubmitOptions{Wait: time.Millisecond}); err != nil {
		t.Error(err)
	}
	want := []string{"GET /v1/executions/e1", `GET /v1/executions/e1?wait=2 "t1"`, `GET /v1/executions/e1?wait=0 "t1"`,
		"GET /v1/executions/e1/result", "GET /v1/executions/e1/input", "POST /v1/deployments/d/executions wait=1"}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Error(diff)
	}
}

// A batch is answered item by item, and repeated only where every item can be.
func TestSubmitBatch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		key  string
		want int
	}{"all have keys": {"k2", 2}, "one has none": {"", 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []request
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				got = append(got, seen(r))
				if len(got) < tc.want {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				write(w, `{"results":[{"status":202,"replayed":true,"execution":`+queued+`},{"status":422,"problem":{"status":422,"code":"invalid_input"}}]}`)
			})
			outcomes, err := c.SubmitBatch(t.Context(), "d", []client.Item{{Input: json.RawMessage(`1e400`), Key: "k1"}, {Input: "<>", Key: tc.key}})
			if err != nil || len(got) != tc.want || len(outcomes) != 2 {
				t.Fatalf("%+v, %v after %d requests", outcomes, err, len(got))
			}
			if one := outcomes[0]; one.Execution.ExecutionID != "e1" || !one.Replayed || one.Problem != nil || string(one.Execution.Raw) != queued {
				t.Errorf("%+v", one)
			}
			if two := outcomes[1]; two.Problem == nil || two.Problem.Status != 422 || two.Execution.ExecutionID != "" {
				t.Errorf("%+v", two)
			}
			body := `{"items":[{"idempotency_key":"k1","submission":{"input":1e400}},{"submission":{"input":"<>"}}]}`
			if tc.key != "" {
				body = strings.Replace(body, `},{"submission`, `},{"idempotency_key":"k2","submission`, 1)
			}
			if want := (request{"POST", "/v1/deployments/d/executions/batch", body, "", "application/json"}); got[0] != want {
				t.Errorf("%+v, want %+v", got[0], want)
			}
		})
	}
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) { write(w, `{"results":[]}`) })
	if _, err := c.SubmitBatch(t.Context(), "d", []client.Item{{Input: 1}}); err == nil {
		t.Error("too few results are taken for an answer")
	}
}
