package httpapi

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// strand leaves unfinished work of revisions that nobody serves: one that was there before, and a deployment that was.
func (r *rig) strand(revisions ...store.Revision) {
	r.Helper()
	for _, rev := range revisions {
		_, err := r.store.Submit(r.Context(), store.Submission{Submit: execution.Submit{ID: r.store.NewID(store.Key{}), Owner: "b",
			Deployment: rev.Deployment, Revision: rev.Revision, Budgets: execution.DefaultBudgets(), Input: []byte(`1`)}})
		r.must(err)
	}
}

func (r *rig) deployment(name, token string) contract.DeploymentState {
	r.Helper()
	a := r.call("GET", "/v1/deployments/"+name, "", as(token))
	var d contract.DeploymentState
	if err := json.Unmarshal([]byte(a.body), &d); err != nil || a.status != 200 {
		r.Fatalf("%s: %d %s", name, a.status, a.body)
	}
	return d
}

func (r *rig) deploymentNames(query, token string) (names []string) {
	r.Helper()
	for cursor := ""; ; {
		a := r.call("GET", "/v1/deployments"+query+cursor, "", as(token))
		var list contract.DeploymentList
		if err := json.Unmarshal([]byte(a.body), &list); err != nil || a.status != 200 {
			r.Fatalf("%s: %d %s", query, a.status, a.body)
		}
		for _, d := range list.Items {
			names = append(names, d.Name)
		}
		if list.NextCursor == nil {
			return names
		}
		cursor = "&cursor=" + *list.NextCursor
	}
}

// A deployment shows its schema, its ceiling, and its revisions with what is unfinished and who serves them; a revision with work
// and no worker stands first, and says so.
func TestDeployment(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys)
	r.strand(store.Revision{Deployment: "ask", Revision: "0"}, store.Revision{Deployment: "ask", Revision: "0"})
	r.token = boss
	r.waiting("true")
	got := r.deployment("ask", boss)
	workers := got.Revisions[1].Seen
	if workers == nil || len(*workers) != 1 || (*workers)[0].Name == "" || time.Since((*workers)[0].SeenAt.Time) > time.Minute {
		t.Fatalf("seen %+v", workers)
	}
	want := contract.DeploymentState{Name: "ask", Revision: new("r-2.x"), Served: true, InputSchema: contract.JSON("true"), Limit: new(int64(1000)),
		Nonterminal: new(int64(3)), RevisionsTotal: 2, Revisions: []contract.RevisionState{
			{Revision: "0", Stranded: true, Workers: new(int64(0)), Seen: &[]contract.WorkerSeen{},
				Backlog: &contract.Backlog{Nonterminal: 2, Ready: 2, OldestReadyAt: got.Revisions[0].Backlog.OldestReadyAt}},
			{Revision: "r-2.x", Served: true, ServedAt: got.Revisions[1].ServedAt, Workers: new(int64(1)), Seen: workers,
				Backlog: &contract.Backlog{Nonterminal: 1, Waiting: 1}},
		}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if oldest := got.Revisions[0].Backlog.OldestReadyAt; oldest == nil || time.Since(oldest.Time) > time.Minute {
		t.Errorf("oldest %v", oldest)
	}
	for _, w := range r.deployment("ask", only("read")).Revisions {
		if w.Seen != nil || w.Backlog == nil {
			t.Errorf("without the scope admin: %+v", w)
		}
	}
	if schema := r.deployment("typed", boss).InputSchema; !json.Valid(schema) || string(schema) == "true" {
		t.Errorf("schema %s", schema)
	}
}

// Who is limited to an owner sees what is served, and no number, nor anything that only others have; who is limited to deployments
// sees no other.
func TestDeploymentsOfOthers(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys)
	r.strand(store.Revision{Deployment: "ask", Revision: "0"}, store.Revision{Deployment: "gone", Revision: "0"})
	r.token = boss
	r.waiting("true")
	all := r.deploymentNames("", boss)
	if diff := cmp.Diff(all, r.deploymentNames("?limit=1", boss)); diff != "" || len(all) < 3 {
		t.Errorf("pages of one:\n%s", diff)
	}
	for _, token := range []string{ann, bob} {
		d := r.deployment("ask", token)
		want := contract.DeploymentState{Name: "ask", Revision: new("r-2.x"), Served: true, InputSchema: contract.JSON("true"), Limit: new(int64(1000)),
			RevisionsTotal: 1, Revisions: []contract.RevisionState{{Revision: "r-2.x", Served: true, ServedAt: d.Revisions[0].ServedAt}}}
		if diff := cmp.Diff(want, d); diff != "" {
			t.Errorf("%s (-want +got):\n%s", token, diff)
		}
		if p := r.problem(r.call("GET", "/v1/deployments/gone", "", as(token))); p.Code != "unknown_deployment" {
			t.Errorf("%s: %+v", token, p)
		}
		if names := r.deploymentNames("", token); len(names) != len(all)-1 {
			t.Errorf("%s lists %v of %v", token, names, all)
		}
	}
	if d := r.deployment("gone", clerk); d.Served || d.Revision != nil || d.Limit != nil || !d.Revisions[0].Stranded {
		t.Errorf("for an administrator: %+v", d)
	}
	if diff := cmp.Diff([]string{"echo"}, r.deploymentNames("", echoes)); diff != "" {
		t.Error(diff)
	}
}

// An operator has the work of a revision moved to one that is served, where it is done, and what is left failed; who is limited to
// other deployments finds nothing, and a dry run changes nothing.
func TestMoveAndFail(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys)
	r.token = boss
	old := store.Revision{Deployment: "echo", Revision: "r0"}
	r.strand(old, old, old)
	dispose := func(of, body string) contract.Displaced {
		t.Helper()
		a := r.call("POST", "/v1/deployments/echo/revisions/"+of, body)
		var d contract.Displaced
		if err := json.Unmarshal([]byte(a.body), &d); err != nil || a.status != 200 {
			t.Fatalf("%s %s: %d %s", of, body, a.status, a.body)
		}
		return d
	}
	same := func(what string, want, got any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	for _, path := range []string{"ask/revisions/0/fail", "echo/revisions/%0A/fail", "none/revisions/0/fail"} {
		if p := r.problem(r.call("POST", "/v1/deployments/"+path, `{}`, as("echo-admin"))); p.Code != "unknown_deployment" {
			t.Errorf("%s: %+v", path, p)
		}
	}
	same("dry", contract.Displaced{Remaining: 3}, dispose("r0/move", `{"to":"1","dry_run":true}`))
	same("moved", contract.Displaced{Executions: 3}, dispose("r0/move", `{"to":"1"}`))
	same("again", contract.Displaced{}, dispose("r0/move", `{"to":"1"}`))
	for _, id := range r.listed("?deployment=echo") {
		if e := r.await(executionsPath+id, "completed"); e.Status != "completed" || e.Revision != "1" || e.Attempt != 1 {
			t.Errorf("%+v", e)
		}
	}
	r.strand(old)
	same("forced", contract.Displaced{Executions: 1}, dispose("r0/move", `{"to":"r1","force":true}`))
	same("failed", contract.Displaced{Executions: 1}, dispose("r1/fail", `{"reason":"r1 was withdrawn"}`))
	e := r.projection(r.call("GET", executionsPath+r.listed("?status=failed")[0], ""))
	same("error", &contract.Failure{Type: "RevisionUnserved", Code: "revision_unserved", Retryable: true,
		Message: "An operator ended the work: r1 was withdrawn"}, e.Error)
	same("none", contract.Displaced{}, dispose("1/fail", `{"force":true}`))
	for _, body := range []string{`{}`, `{"to":1}`, `{"to":""}`, `{"to":"a b"}`, `{"to":"r","force":1}`, `{"to":"r","dry_run":null}`} {
		if p := r.problem(r.call("POST", "/v1/deployments/echo/revisions/r0/move", body)); p.Code != "invalid_request" {
			t.Errorf("%s: %+v", body, p)
		}
	}
}
