package httpapi

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/api/durable"
)

func (r *rig) erase(path string, headers ...string) (e contract.Erased) {
	r.Helper()
	a := r.call("DELETE", path, "", headers...)
	if err := json.Unmarshal([]byte(a.body), &e); err != nil || a.status != 200 {
		r.Fatalf("%s: %d %s", path, a.status, a.body)
	}
	return e
}

// An execution goes with all it had: its handler is stopped, its viewers are told, its key is free, and a repeat is 404.
func TestErase(t *testing.T) {
	t.Parallel()
	r := start(t, func(s *setup) { s.hub.Keepalive = 50 * time.Millisecond })
	key := "Idempotency-Key: k"
	path := r.projection(r.call("POST", submitPath("hold"), `{"input":1}`, key)).Links.Self
	running := <-r.held
	stream := r.open("GET", path+"/stream", "")
	want := contract.Erased{Executions: 1, Unfinished: 1, Keys: 1}
	if diff := cmp.Diff(want, r.erase(path)); diff != "" {
		t.Errorf("erased (-want +got):\n%s", diff)
	}
	<-running.Done()
	if cause := context.Cause(running); cause != error(durable.ErrLeaseLost) {
		t.Errorf("the handler was stopped by %v", cause)
	}
	if seen := r.whole(stream); !strings.Contains(seen.body, `"code":"not_found"`) {
		t.Errorf("the viewer saw %s", seen.body)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if a := r.call(method, path, ""); a.status != 404 || r.problem(a).Code != "not_found" {
			t.Errorf("%s: %d %s", method, a.status, a.body)
		}
	}
	if got := r.listed("?"); len(got) != 0 {
		t.Errorf("listed %v", got)
	}
	again := r.call("POST", submitPath("hold"), `{"input":2}`, key)
	if again.status != 202 || again.header.Get("Idempotent-Replay") != "" || r.projection(again).Links.Self == path {
		t.Errorf("under the same key: %d %s", again.status, again.body)
	}
	<-r.held
}

// An owner goes, and nobody else does; a token that is limited to deployments may not.
func TestEraseOwner(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys)
	r.token = boss
	for range 3 {
		r.await(executionsPath+r.submitAs(ann, "ask", ""), "waiting")
	}
	kept := r.submitAs(bob, "ask", "")
	for _, token := range []string{ann, bob} {
		if a := r.call("DELETE", "/v1/owners/a", "", as(token)); a.status != 403 {
			t.Errorf("%s: %d %s", token, a.status, a.body)
		}
	}
	limited := keys()
	limited["part"] = principal("", keys()[boss].Scopes, "ask")
	other := start(t, func(s *setup) { s.api.Auth = limited })
	other.refusedAs("limited to deployments", other.call("DELETE", "/v1/owners/a", "", as("part")), 403, "forbidden",
		`Bearer realm="windrow", error="insufficient_scope"`)
	if diff := cmp.Diff(contract.Erased{Executions: 3, Unfinished: 3}, r.erase("/v1/owners/a", as(clerk))); diff != "" {
		t.Errorf("erased (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(contract.Erased{}, r.erase("/v1/owners/a", as(boss))); diff != "" {
		t.Errorf("erased again (-want +got):\n%s", diff)
	}
	if got := r.listed("?", as(boss)); len(got) != 1 || got[0] != kept {
		t.Errorf("left: %v", got)
	}
}
