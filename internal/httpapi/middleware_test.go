package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
)

// journal is a log that tests read line by line.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) lines(t *testing.T) []map[string]any {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	var lines []map[string]any
	for line := range strings.Lines(j.text.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fields)
	}
	return lines
}

// seen is what the observer was told of one request.
type seen struct {
	Route, Method string
	Status        int
}

// testRouter has a few routes, a log and an observer.
func testRouter(t *testing.T) (handler http.Handler, log *journal, observed *[]seen) {
	t.Helper()
	log, observed = &journal{}, &[]seen{}
	logger := slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var mu sync.Mutex // guards *observed while requests are served at once
	observe := func(route, method string, status int, elapsed time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		*observed = append(*observed, seen{route, method, status})
		if elapsed < 0 {
			t.Errorf("a request took %v", elapsed)
		}
	}
	router := newRouter(routerParams{log: logger, observe: observe, headerBytes: 1000, bodyTimeout: time.Minute})
	router.Get("/v1/executions/{id}", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "ok") })
	router.Post("/v1/executions/{id}/cancel", func(http.ResponseWriter, *http.Request) {})
	router.Get("/livez", func(http.ResponseWriter, *http.Request) {})
	router.Get("/panic", func(http.ResponseWriter, *http.Request) { panic("secret of the house") })
	router.Get("/half", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic("secret of the house")
	})
	router.Get("/abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	return router, log, observed
}

func send(handler http.Handler, method, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, http.NoBody)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func problemOf(t *testing.T, w *httptest.ResponseRecorder) contract.Problem {
	t.Helper()
	var p contract.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%d %s is no problem document (%v)", w.Code, w.Body, err)
	}
	return p
}

// A client's name for its request is kept if it is fit to be logged.
func TestRequestID(t *testing.T) {
	t.Parallel()
	handler, _, _ := testRouter(t)
	for _, id := range []string{"a", "A.b_c-9", strings.Repeat("x", 64)} {
		if got := send(handler, "GET", "/livez", "X-Request-Id: "+id).Header().Get(problem.RequestIDHeader); got != id {
			t.Errorf("%s became %s", id, got)
		}
	}
	for _, id := range []string{"", "a b", "a\"b", "ü", strings.Repeat("x", 65)} {
		got := send(handler, "GET", "/livez", "X-Request-Id: "+id).Header().Get(problem.RequestIDHeader)
		if got == id || !plain(got) {
			t.Errorf("%q became %q", id, got)
		}
	}
}

func TestSecurityHeaders(t *testing.T) {
	t.Parallel()
	handler, _, _ := testRouter(t)
	for _, target := range []string{"/livez", "/nowhere", "/panic"} {
		header := send(handler, "GET", target).Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		} {
			if got := header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", target, name, got, want)
			}
		}
	}
}

// The log and the metrics know requests by their route; an id is a secret that neither sees.
func TestRequestsAreObserved(t *testing.T) {
	t.Parallel()
	handler, log, observed := testRouter(t)
	send(handler, "GET", "/v1/executions/s3cret?cursor=s3cret", "X-Request-Id: r1")
	send(handler, "HEAD", "/v1/executions/s3cret", "X-Request-Id: r2")
	send(handler, "GET", "/livez", "X-Request-Id: r3")
	send(handler, "GET", "/s3cret", "X-Request-Id: r4")
	want := []seen{
		{"/v1/executions/{id}", "GET", 200}, {"/v1/executions/{id}", "HEAD", 200}, {"/livez", "GET", 200}, {"", "GET", 404},
	}
	if diff := cmp.Diff(want, *observed); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
	lines := log.lines(t)
	for i, level := range []string{"INFO", "INFO", "DEBUG", "INFO"} {
		id := fmt.Sprintf("r%d", i+1)
		if lines[i]["level"] != level || lines[i]["request_id"] != id || lines[i]["route"] != want[i].Route {
			t.Errorf("line %d is %v, want the level %s", i, lines[i], level)
		}
	}
	if strings.Contains(log.text.String(), "s3cret") {
		t.Errorf("an id is in the log: %s", &log.text)
	}
}

// A panic is told to the log only.
func TestPanicBecomesAProblem(t *testing.T) {
	t.Parallel()
	handler, log, observed := testRouter(t)
	w := send(handler, "GET", "/panic", "X-Request-Id: r1")
	p := problemOf(t, w)
	if w.Code != 500 || p.Code != contract.ProblemCodeInternal || p.Instance != "urn:windrow:request:r1" || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
	if diff := cmp.Diff([]seen{{"/panic", "GET", 500}}, *observed); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
	lines := log.lines(t)
	if len(lines) != 2 || lines[0]["reason"] != "secret of the house" || lines[0]["request_id"] != "r1" || lines[1]["level"] != "ERROR" {
		t.Errorf("logged %v", lines)
	}
}

// An answer that has begun can't be taken back: the connection breaks, so that nobody takes half for the whole.
func TestPanicBreaksABegunAnswer(t *testing.T) {
	t.Parallel()
	handler, _, _ := testRouter(t)
	server := httptest.NewServer(handler)
	defer server.Close()
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	for _, target := range []string{"/half", "/abort"} {
		response, err := server.Client().Get(server.URL + target)
		if err == nil {
			_, err = io.ReadAll(response.Body)
			response.Body.Close()
		}
		if err == nil {
			t.Errorf("%s was answered as if it were whole", target)
		}
	}
}

func TestHeaderLimit(t *testing.T) {
	t.Parallel()
	handler, _, _ := testRouter(t)
	for _, w := range []*httptest.ResponseRecorder{
		send(handler, "GET", "/livez", "X-Long: "+strings.Repeat("x", 1000)),
		send(handler, "GET", "/livez?"+strings.Repeat("x", 1000)),
	} {
		if p := problemOf(t, w); w.Code != 431 || p.Code != contract.ProblemCodeHeadersTooLarge || p.Limit != 1000 {
			t.Errorf("answered %d %s", w.Code, w.Body)
		}
	}
	if w := send(handler, "GET", "/livez", "X-Long: "+strings.Repeat("x", 900)); w.Code != 200 {
		t.Errorf("below the limit: %d %s", w.Code, w.Body)
	}
}

// What no operation has is answered with a problem as well.
func TestRoutesThatAreNotThere(t *testing.T) {
	t.Parallel()
	handler, _, _ := testRouter(t)
	for _, target := range []string{"/", "/v1", "/v1/executions/", "/v1/executions/x/", "/livez/", "/%00", "//livez"} {
		if w := send(handler, "GET", target); w.Code != 404 || problemOf(t, w).Code != contract.ProblemCodeNoSuchRoute {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	tests := map[string][2]string{
		"/livez":                  {"POST", "GET, HEAD"},
		"/v1/executions/x/cancel": {"GET", "POST"},
		"/v1/executions/x":        {"PATCH", "GET, HEAD"},
	}
	for target, test := range tests {
		w := send(handler, test[0], target)
		if p := problemOf(t, w); w.Code != 405 || p.Code != contract.ProblemCodeMethodNotAllowed || w.Header().Get("Allow") != test[1] ||
			p.Detail != "This path takes "+test[1]+"." {
			t.Errorf("%s %s: %d, Allow %q, %s", test[0], target, w.Code, w.Header().Get("Allow"), w.Body)
		}
	}
}
