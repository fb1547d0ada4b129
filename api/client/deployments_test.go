package client_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/api/contract"
)

// Deployments come page by page, one alone by its name, each as the server sent it.
func TestDeployments(t *testing.T) {
	t.Parallel()
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.EscapedPath()+"?"+r.URL.RawQuery)
		switch {
		case r.URL.Path != "/v1/deployments":
			write(w, `{"name":"a/b","served":true,"nonterminal":3}`)
		case r.URL.Query().Get("cursor") == "":
			write(w, `{"items":[{"name":"a","revisions":[{"revision":"1","stranded":true}]}],"next_cursor":"c1"}`)
		default:
			write(w, `{"items":[{"name":"b","limit":0}],"next_cursor":null}`)
		}
	})
	one, err := c.Deployment(t.Context(), "a/b")
	if err != nil || one.Name != "a/b" || *one.Nonterminal != 3 || string(one.Raw) != `{"name":"a/b","served":true,"nonterminal":3}` {
		t.Errorf("one %+v, %v", one, err)
	}
	var raw []string
	for d, err := range c.Deployments(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, string(d.Raw))
	}
	if diff := cmp.Diff([]string{`{"name":"a","revisions":[{"revision":"1","stranded":true}]}`, `{"name":"b","limit":0}`}, raw); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"/v1/deployments/a%2Fb?", "/v1/deployments?limit=200", "/v1/deployments?cursor=c1&limit=200"}, asked); diff != "" {
		t.Error(diff)
	}
}

// Moving and failing say what is wanted, and tell how far it has come.
func TestMoveAndFailRevisions(t *testing.T) {
	t.Parallel()
	var got []request
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, seen(r))
		write(w, `{"executions":3,"remaining":2,"running":1}`)
	})
	moved, err := c.MoveRevision(t.Context(), "story", "r1", contract.MoveRequest{To: "r2", Force: true})
	if want := (contract.Displaced{Executions: 3, Remaining: 2, Running: 1}); err != nil || moved != want {
		t.Errorf("moved %+v, %v", moved, err)
	}
	if _, err := c.FailRevision(t.Context(), "story", "r1", contract.FailRequest{Reason: "<gone>", DryRun: true}); err != nil {
		t.Error(err)
	}
	want := []request{
		{"POST", "/v1/deployments/story/revisions/r1/move", `{"force":true,"to":"r2"}`, "", "application/json"},
		{"POST", "/v1/deployments/story/revisions/r1/fail", `{"dry_run":true,"reason":"<gone>"}`, "", "application/json"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
