package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/store"
)

// many asks for one request of a run.
func (r *rig) many(what, body string, headers ...string) (answer contract.BulkAnswer) {
	r.Helper()
	a := r.call("POST", "/v1/bulk/"+what, body, headers...)
	if err := json.Unmarshal([]byte(a.body), &answer); err != nil || a.status != http.StatusOK {
		r.Fatalf("%s %s: %d %s", what, body, a.status, a.body)
	}
	return answer
}

// counted makes a dry run and returns its confirmation. It waits for the clock to have left the last submission behind.
func (r *rig) counted(what, filter string, want int64, headers ...string) string {
	r.Helper()
	for {
		if got := r.many(what, `{`+filter+`,"dry_run":true}`, headers...); got.Total >= want {
			if got.Total != want || got.Done != 0 || got.Cursor != nil || got.Confirmation == nil {
				r.Fatalf("%s %s: counted %+v, want %d", what, filter, got, want)
			}
			return *got.Confirmation
		}
	}
}

// sum runs to the end, so many at a time, and adds up. Each answer holds what it may.
func (r *rig) sum(what, filter, confirmation string, limit int, headers ...string) (sum contract.BulkAnswer) {
	r.Helper()
	cursor := ""
	for {
		got := r.many(what, fmt.Sprintf(`{%s,"confirmation":%q,"limit":%d%s}`, filter, confirmation, limit, cursor), headers...)
		sum.Matched += got.Matched
		sum.Done += got.Done
		sum.Failed += got.Failed
		sum.Total, sum.Stopped = got.Total, got.Stopped
		if got.Matched > int64(limit) || got.Total != sum.Matched {
			r.Fatalf("took on %+v", got)
		}
		if got.Cursor == nil || got.Stopped != nil {
			return sum
		}
		cursor = fmt.Sprintf(`,"cursor":%q`, *got.Cursor)
	}
}

func onlyIdle(s *setup) { s.idle = true }

// moreMatch cancels two executions, of which one before a dry run, whose confirmation does not hold for both.
func (r *rig) moreMatch(what, filter string) reply {
	r.Helper()
	paths := []string{r.submit("typed", `{"n":1}`), r.submit("typed", `{"n":1}`)}
	r.call("POST", paths[0]+"/cancel", "")
	created := func(path string) time.Time { return r.projection(r.call("GET", path, "")).CreatedAt.Time }
	for before := created(paths[1]); !created(r.submit("typed", `{"n":1}`)).After(before); { // what a run counts came before it
	}
	confirmation := r.counted(what, filter, 1)
	r.call("POST", paths[1]+"/cancel", "")
	return r.call("POST", "/v1/bulk/"+what, `{`+filter+`,"confirmation":"`+confirmation+`"}`)
}

// uncounted cancels what no dry run has counted: what can be canceled becomes no more without being submitted, so that it takes a
// confirmation that is made up.
func (r *rig) uncounted() reply {
	r.Helper()
	r.submit("typed", `{"n":1}`)
	run := bulkRun{kind: "cancel", asOf: time.Now().Add(time.Hour).UnixMilli(), filters: encode(store.ListRequest{
		Scope: store.Scope{All: true}, Statuses: []execution.Status{execution.Queued, execution.Running, execution.Waiting}})}
	return r.call("POST", "/v1/bulk/cancel", `{"all":true,"confirmation":"`+run.confirmation(0)+`"}`)
}

// Cancel and erase reach what the filter names and the dry run counted, in requests of a bounded size, and nothing else.
func TestBulkCancelAndErase(t *testing.T) {
	t.Parallel()
	r := start(t, func(s *setup) { s.idle = true })
	for i := range 25 {
		r.call("POST", submitPath("typed"), fmt.Sprintf(`{"input":{"n":1},"labels":{"part":"%d"}}`, i%5))
	}
	const filter = `"filter":{"deployment":"typed","labels":{"part":"3"}}`
	confirmation := r.counted("cancel", filter, 5)
	got := r.sum("cancel", filter+`,"reason":"enough"`, confirmation, 2)
	if got.Matched != 5 || got.Done != 5 || got.Failed != 0 {
		t.Errorf("canceled %+v", got)
	}
	if ids := r.listed("?status=canceled"); len(ids) != 5 {
		t.Errorf("canceled %v", ids)
	}
	if again := r.sum("cancel", filter, confirmation, 100); again.Matched != 0 {
		t.Errorf("canceled again: %+v", again)
	}
	erase := `"filter":{"status":["canceled","queued"],"labels":{"part":"3"}}`
	if got := r.sum("erase", erase, r.counted("erase", erase, 5), 3); got.Done != 5 {
		t.Errorf("erased %+v", got)
	}
	if ids := r.listed("?limit=200"); len(ids) != 20 {
		t.Errorf("left %d", len(ids))
	}
	if got := r.sum("erase", `"all":true`, r.counted("erase", `"all":true`, 20), 7); got.Done != 20 {
		t.Errorf("erased %+v", got)
	}
}

// Where more match than were counted nothing more is touched, and what came after the dry run never is.
func TestBulkTouchesNoMoreThanCounted(t *testing.T) {
	t.Parallel()
	r := start(t, func(s *setup) { s.idle = true })
	submit := func(label string) string {
		return r.projection(r.call("POST", submitPath("typed"), `{"input":{"n":1},"labels":{"x":"`+label+`"}}`)).Links.Self
	}
	first, second := submit("a"), submit("b")
	r.call("POST", second+"/cancel", "")
	const filter = `"filter":{"status":["canceled"]}`
	confirmation := r.counted("erase", filter, 1)
	r.call("POST", first+"/cancel", "")
	a := r.call("POST", "/v1/bulk/erase", `{`+filter+`,"confirmation":"`+confirmation+`"}`)
	if p := r.problem(a); a.status != 409 || p.Code != "more_match" || p.Limit != 1 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if got := r.listed("?"); len(got) != 2 {
		t.Errorf("left %v", got)
	}
	one := r.many("erase", `{`+filter+`,"confirmation":"`+confirmation+`","limit":1}`)
	if one.Done != 1 || one.Cursor == nil {
		t.Fatalf("erased %+v", one)
	}
	a = r.call("POST", "/v1/bulk/erase", `{`+filter+`,"confirmation":"`+confirmation+`","cursor":"`+*one.Cursor+`"}`)
	if p := r.problem(a); a.status != 409 || p.Code != "more_match" {
		t.Errorf("%d %s", a.status, a.body)
	}
	confirmation = r.counted("erase", `"all":true`, 1)
	asOf := r.many("erase", `{"all":true,"confirmation":"`+confirmation+`","limit":1}`).AsOf
	late := submit("late")
	for r.projection(r.call("GET", late, "")).CreatedAt.Before(asOf.Time) {
		late = submit("late")
	}
	r.many("erase", `{"all":true,"confirmation":"`+confirmation+`"}`)
	if a := r.call("GET", late, ""); a.status != 200 {
		t.Errorf("what came later: %d %s", a.status, a.body)
	}
}

// Who asks for nothing in particular, without a dry run, or with what belongs to another run, is refused.
func TestBulkRefusals(t *testing.T) {
	t.Parallel()
	r := start(t, func(s *setup) { s.idle = true })
	confirmation := r.counted("erase", `"filter":{"status":["failed"]}`, 0)
	for body, want := range map[string]string{
		`{"dry_run":true}`:             "/filter required",
		`{"filter":{},"dry_run":true}`: "/filter required",
		`{"filter":{"status":["failed"]},"all":true,"dry_run":true}`:                            "/all not",
		`{"all":1,"dry_run":true}`:                                                              "/all type",
		`{"all":true}`:                                                                          "/confirmation required",
		`{"all":true,"confirmation":"` + confirmation + `"}`:                                    "/confirmation pattern",
		`{"all":true,"confirmation":"x","dry_run":true}`:                                        "/confirmation not",
		`{"all":true,"dry_run":true,"limit":10001}`:                                             "/limit type",
		`{"all":true,"limit":1001}`:                                                             "/limit type",
		`{"filter":{"prio":1},"dry_run":true}`:                                                  "/filter/prio unknown_member",
		`{"filter":{"status":[]},"dry_run":true}`:                                               "/filter/status type",
		`{"filter":{"status":[` + strings.Repeat(`"failed",`, 6) + `"failed"]},"dry_run":true}`: "/filter/status maxItems",
		`{"filter":{"labels":{"A":"b"}},"dry_run":true}`:                                        "/filter/labels/A propertyNames",
		`{"filter":{"created_from":"now"},"dry_run":true}`:                                      "/filter/created_from format",
		`{"all":true,"dry_run":true,"reason":"x"}`:                                              "/reason unknown_member",
	} {
		p := r.problem(r.call("POST", "/v1/bulk/erase", body))
		if p.Status != 400 || len(p.Errors) != 1 || p.Errors[0].Pointer+" "+p.Errors[0].Rule != want {
			t.Errorf("%s: %+v", body, p)
		}
	}
	for what, status := range map[string]string{"cancel": "failed", "resubmit": "running"} {
		p := r.problem(r.call("POST", "/v1/bulk/"+what, `{"filter":{"status":["`+status+`"]},"dry_run":true}`))
		if len(p.Errors) != 1 || p.Errors[0].Pointer != "/filter/status" {
			t.Errorf("%s: %+v", what, p)
		}
	}
}

// What failed is submitted again with all it had but its times, once for each dry run, however often a reply is lost.
func TestBulkResubmit(t *testing.T) {
	t.Parallel()
	r := start(t)
	const old = `{"input":{"a":1e2},"labels":{"team":"x"},"priority":7}`
	for range 3 {
		r.reaches(r.projection(r.call("POST", submitPath("fail"), old)).Links.Self, execution.Failed)
	}
	const filter = `"filter":{"deployment":"fail","status":["failed"]}`
	confirmation := r.counted("resubmit", filter, 3)
	before := r.listed("?deployment=fail")
	once := `{` + filter + `,"confirmation":"` + confirmation + `"}`
	if got := r.many("resubmit", once); got.Done != 3 || got.Cursor != nil {
		t.Errorf("resubmitted %+v", got)
	}
	for _, id := range r.listed("?deployment=fail") {
		r.reaches(pathOf(id), execution.Failed)
	}
	again := r.many("resubmit", `{"filter":{"deployment":"fail","status":["failed"]},"confirmation":"`+confirmation+`"}`)
	if again.Skipped["resubmitted"] < 3 || len(r.listed("?deployment=fail")) > 9 {
		t.Errorf("resubmitted again: %+v", again)
	}
	for _, id := range before {
		copies := r.listed("?label=" + runtime.ResubmittedFrom + "=" + id)
		if len(copies) != 1 {
			t.Fatalf("%s has the copies %v", id, copies)
		}
		e := r.projection(r.call("GET", pathOf(copies[0]), ""))
		if e.Labels["team"] != "x" || e.Priority != 7 || r.call("GET", pathOf(copies[0])+"/input", "").body != `{"a":1e2}` {
			t.Errorf("%+v", e)
		}
	}
}

// A single one, under a key or without.
func TestResubmit(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.reaches(r.submit("typed", `{"n":7}`), execution.Completed)
	first := r.call("POST", path+"/resubmit", "", "Idempotency-Key: k")
	again := r.call("POST", path+"/resubmit", "", "Idempotency-Key: k")
	if a, b := r.projection(first), r.projection(again); a.ExecutionID != b.ExecutionID || again.header.Get("Idempotent-Replay") != "true" || a.KeyRetention == nil {
		t.Errorf("%s\n%s", first.body, again.body)
	}
	for _, body := range []string{"", `{}`, `{"revision":"current"}`, `{"revision":"same"}`} {
		e := r.projection(r.call("POST", path+"/resubmit", body))
		if got := r.await(e.Links.Self, execution.Completed); string(got.Result) != "7" || e.Links.Self == path {
			t.Errorf("%s: %+v", body, got)
		}
	}
	if p := r.problem(r.call("POST", path+"/resubmit", `{"revision":"2"}`)); p.Code != "invalid_request" {
		t.Errorf("%+v", p)
	}
	other := r.reaches(r.submit("typed", `{"n":8}`), execution.Completed)
	if e := r.projection(r.call("POST", other+"/resubmit", "", "Idempotency-Key: k")); e.ExecutionID == r.projection(first).ExecutionID {
		t.Errorf("a key of one execution reaches another")
	}
}

// A key holds over dry runs, and for a single one too.
func TestBulkResubmitKey(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.reaches(r.submit("typed", `{"n":1}`), execution.Completed)
	const filter = `"filter":{"deployment":"typed"}`
	first := r.many("resubmit", `{`+filter+`,"confirmation":"`+r.counted("resubmit", filter, 1)+`"}`, "Idempotency-Key: k")
	again := r.call("POST", path+"/resubmit", "", "Idempotency-Key: k")
	if first.Done != 1 || again.header.Get("Idempotent-Replay") != "true" {
		t.Errorf("%+v, then %d %s", first, again.status, again.body)
	}
	r.reaches(r.projection(again).Links.Self, execution.Completed)
	second := r.many("resubmit", `{`+filter+`,"confirmation":"`+r.counted("resubmit", filter, 2)+`"}`, "Idempotency-Key: k")
	if second.Done != 1 || second.Skipped["resubmitted"] != 1 {
		t.Errorf("%+v", second)
	}
}

// What holds for all of them stops a run, which goes on from its cursor.
func TestBulkResubmitStops(t *testing.T) {
	t.Parallel()
	r := start(t)
	for range 5 {
		r.reaches(r.submit("typed", `{"n":1}`), execution.Completed)
	}
	const filter = `"filter":{"deployment":"typed"}`
	confirmation := r.counted("resubmit", filter, 5)
	r.runtime.Quiesce()
	got := r.many("resubmit", `{`+filter+`,"confirmation":"`+confirmation+`"}`)
	if got.Stopped == nil || got.Stopped.Code != "draining" || got.Done+got.Matched+got.Failed != 0 || got.Cursor == nil {
		t.Errorf("%+v", got)
	}
}

// Owners and limited tokens reach only what is theirs, by whatever filter, cursor or confirmation.
func TestBulkOwners(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys, func(s *setup) { s.idle = true })
	mine := map[string][]string{}
	for _, token := range []string{ann, bob} {
		for range 3 {
			mine[token] = append(mine[token], r.submitAs(token, "ask", ""))
		}
		mine[token] = append(mine[token], r.submitAs(token, "tell", ""))
	}
	confirmation := r.counted("cancel", `"all":true`, 4, as(ann))
	for _, filter := range []string{`"all":true`, `"filter":{"deployment":"ask"}`, `"filter":{"status":["queued"]}`, `"filter":{"owner":"b"}`} {
		before := r.listed("?status=queued", as(ann))
		want := int64(4)
		if strings.Contains(filter, "ask") {
			want = 3
		}
		r.counted("cancel", filter, want, as(bob))
		r.call("POST", "/v1/bulk/cancel", `{`+filter+`,"confirmation":"`+confirmation+`"}`, as(bob))
		if after := r.listed("?status=queued", as(ann)); !slices.Equal(before, after) || len(after) != 4 {
			t.Errorf("%s: of %v are left %v", filter, before, after)
		}
	}
	for _, what := range []string{"cancel", "resubmit"} {
		r.refusedAs(what, r.call("POST", "/v1/bulk/"+what, `{"filter":{"owner":"a"},"dry_run":true}`, as(bob)), 403, "forbidden",
			`Bearer realm="windrow", error="insufficient_scope"`)
		r.refusedAs(what, r.call("POST", "/v1/bulk/"+what, `{"all":true,"dry_run":true}`, as(echoes)), 403, "forbidden",
			`Bearer realm="windrow", error="insufficient_scope", scope="admin"`)
	}
	if got := r.sum("cancel", `"all":true`, confirmation, 3, as(ann)); got.Done != 4 {
		t.Errorf("canceled %+v", got)
	}
	if got := r.listed("?status=queued", as(bob)); len(got) != 4 {
		t.Errorf("of %v are left %v", mine[bob], got)
	}
	r.counted("resubmit", `"all":true`, 0, as(bob))
	if got := r.many("erase", `{"filter":{"owner":"a"},"dry_run":true}`, as(boss)); got.Matched != 4 {
		t.Errorf("counted %+v", got)
	}
	if diff := cmp.Diff(4, len(r.listed("?", as(ann)))); diff != "" {
		t.Error(diff)
	}
}
