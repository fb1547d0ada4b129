package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
)

func (r *rig) history(path, token string) (contract.History, reply) {
	r.Helper()
	a := r.call("GET", path, "", as(token))
	var h contract.History
	if err := json.Unmarshal([]byte(a.body), &h); a.status != 200 || err != nil {
		r.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return h, a
}

// A history tells how an execution got where it is. Who clients and workers are, it tells administrators.
func TestHistory(t *testing.T) {
	t.Parallel()
	names := keys()
	r := start(t, func(s *setup) { s.api.Auth = names })
	r.token = ann
	path := r.projection(r.call("POST", submitPath("ask"), `{"input":true}`, as(ann))).Links.Self
	r.await(path, execution.Waiting)
	if a := r.call("POST", path+"/resume", `{"input":"yes"}`, as(boss)); a.status != 202 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	end := r.await(path, execution.Completed)
	told, a := r.history(path+"/history", ann)
	if again := r.call("GET", path+"/history", "", as(ann), "If-None-Match: "+a.header.Get("ETag")); again.status != 304 {
		t.Errorf("the same again: %d", again.status)
	}
	known, _ := r.history(path+"/history", clerk)
	var causes, shown []string
	for i, e := range known.Entries {
		name := ""
		if e.Actor.Name != nil {
			name = *e.Actor.Name
		}
		causes = append(causes, string(e.Cause)+": "+string(e.Status)+" by "+string(e.Actor.Kind))
		shown = append(shown, name)
		if less := told.Entries[i]; less.Actor.Name != nil || less.Cause != e.Cause || less.At != e.At {
			t.Errorf("without names: %+v", less)
		}
	}
	if diff := cmp.Diff([]string{"submitted: queued by client", "claimed: running by worker", "suspended: waiting by worker", "resumed: queued by client",
		"claimed: running by worker", "completed: completed by worker"}, causes); diff != "" {
		t.Error(diff)
	}
	client, admin, worker := names[ann].Name, names[boss].Name, shown[1]
	if diff := cmp.Diff([]string{client, worker, worker, admin, worker, worker}, shown); diff != "" || worker == "" || !strings.HasPrefix(client, "key:") {
		t.Errorf("worker %q, client %q:\n%s", worker, client, diff)
	}
	if known.Status != end.Status || known.Attempt != end.Attempt || known.Sequence != end.Sequence || known.Omitted != 0 {
		t.Errorf("it tells of %+v, the projection of %+v", known, end)
	}
	few, _ := r.history(path+"/history?limit=3", ann)
	if len(few.Entries) != 3 || few.Omitted != 3 || few.Entries[0].Cause != contract.HistoryEntryCauseSubmitted || few.Entries[2].Cause != told.Entries[5].Cause {
		t.Errorf("three entries are %+v", few)
	}
}
