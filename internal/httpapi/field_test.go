package httpapi

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
)

// A payload of exactly the limit is taken, and one byte more is not, by every route that takes one and whether or not the client
// says how long it is. The refusal says the limit.
func TestLimitsAreExact(t *testing.T) {
	t.Parallel()
	r := start(t, func(s *setup) { s.api.BodyBytes = 2 * testInput })
	bare := func(value string) string { return value }
	member := func(value string) string { return `{"input":` + value + `}` }
	waiting := func() string { return r.waiting("true") + "/resume" }
	for name, route := range map[string]struct {
		path func() string
		body func(value string) string
		want int // of what is over the limit
	}{
		"submit":          {func() string { return submitPath("hold") }, member, 413},
		"resume":          {waiting, member, 413},
		"hayhooks submit": {func() string { return "/hold/run-durable" }, bare, 422},
		"hayhooks resume": {func() string { return strings.Replace(waiting(), "/v1/", "/ask/", 1) }, bare, 422},
	} {
		for _, over := range []int{-1, 0, 1} {
			value := `"` + strings.Repeat("x", testInput+over-2) + `"`
			for _, known := range []bool{true, false} {
				a := r.post(route.path(), route.body(value), known)
				if over <= 0 && a.status != 202 || over > 0 && (a.status != route.want || !strings.Contains(a.body, "the limit is 1500.")) {
					t.Errorf("%s, %d over, length known %v: %d %s", name, over, known, a.status, a.body)
				}
				if a.status == 413 && r.problem(a).Limit != testInput {
					t.Errorf("%s: %s", name, a.body)
				}
			}
		}
	}
}

// post sends a body, with its length or in chunks.
func (r *rig) post(path, body string, known bool) reply {
	r.Helper()
	if known {
		return r.call("POST", path, body)
	}
	request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, r.server.URL+path, chunked(body))
	r.must(err)
	request.Header.Set("Content-Type", "application/json")
	response, err := r.client.Do(request)
	r.must(err)
	return r.whole(response)
}

// A key belongs to a deployment and an owner. White space does not make another body; the order of members does.
func TestScopeOfKeys(t *testing.T) {
	t.Parallel()
	r := start(t)
	submit := func(deployment, body string) reply {
		return r.call("POST", submitPath(deployment), body, "Idempotency-Key: k")
	}
	first := r.projection(submit("hold", `{"input":{"a":1,"b":2}}`))
	if again := submit("hold", "{ \"input\" :\n{\"a\":1, \"b\":2} }"); r.projection(again).ExecutionID != first.ExecutionID {
		t.Errorf("with white space: %s", again.body)
	}
	if other := submit("again", `{"input":{"a":1,"b":2}}`); r.projection(other).ExecutionID == first.ExecutionID || other.header.Get("Idempotent-Replay") != "" {
		t.Errorf("of another deployment: %s", other.body)
	}
	for _, body := range []string{`{"input":{"b":2,"a":1}}`, `{"input":{"a":1,"b":2.0}}`} {
		if p := r.problem(submit("hold", body)); p.Code != "key_reused" || p.Status != 422 {
			t.Errorf("%s: %+v", body, p)
		}
	}
}

// Where the log of an execution is not kept any more, a viewer that goes on is told so before the end, and one of hayhooks that begins
// gets the end alone.
func TestLogIsGone(t *testing.T) {
	t.Parallel()
	r := start(t, func(s *setup) { s.limits.StreamTTL = 50 * time.Millisecond })
	e := r.durable("flood", "2")
	v1 := pathOf(e.ExecutionID)
	r.await(v1, execution.Completed)
	gone := []string{"gap", "completed"}
	for deadline := time.Now().Add(30 * time.Second); !slices.Equal(outline(r.hayhooksEvents(e, "1-0")), gone); {
		if time.Now().After(deadline) {
			t.Fatal("the log is kept")
		}
	}
	if _, events := r.follow(v1, "", "Last-Event-ID: 1-1-0-0"); !slices.Equal(outline(events), gone) {
		t.Errorf("goes on: %v", outline(events))
	}
	if got := outline(r.hayhooksEvents(e, "0-0")); !slices.Equal(got, []string{"completed"}) {
		t.Errorf("begins: %v", got)
	}
}

// More streams than a browser opens connections go over one connection of HTTP/2, beside other requests.
func TestManyStreamsOnOneConnection(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.running()
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(r.server.Config.Handler)
	server.EnableHTTP2 = true
	server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		connections.Add(1)
		return ctx
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, MinVersion: tls.VersionTLS12}}}
	t.Cleanup(client.CloseIdleConnections)
	ask := func(method, path string) *http.Response {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, http.NoBody)
		r.must(err)
		response, err := client.Do(request)
		r.must(err)
		if response.ProtoMajor != 2 {
			t.Fatalf("%s is answered over %s", path, response.Proto)
		}
		return response
	}
	var streams []*http.Response
	for range 10 {
		streams = append(streams, ask("GET", path+"/stream"), ask("GET", strings.Replace(path, "/v1/", "/hold/", 1)+"/stream"))
	}
	r.metrics.until(t, func(m *tally) bool { return m.open["hold"] == len(streams) })
	if a := r.whole(ask("POST", path+"/cancel")); a.status != 202 {
		t.Errorf("asked to stop: %d %s", a.status, a.body)
	}
	for i, response := range streams {
		events := r.read(response, "")
		response.Body.Close()
		if last := events[len(events)-1]; last.Name != "canceled" {
			t.Errorf("stream %d ended with %+v", i, last)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}
