package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/api/contract"
)

// page is what a listing shows.
func (r *rig) page(query string, headers ...string) contract.ExecutionList {
	r.Helper()
	a := r.call("GET", "/v1/executions"+query, "", headers...)
	var page contract.ExecutionList
	if err := json.Unmarshal([]byte(a.body), &page); err != nil || a.status != 200 {
		r.Fatalf("%s: %d %s", query, a.status, a.body)
	}
	return page
}

// listed are the ids on all pages of a listing.
func (r *rig) listed(query string, headers ...string) (ids []string) {
	r.Helper()
	for cursor := ""; ; {
		page := r.page(query+cursor, headers...)
		for _, e := range page.Items {
			ids = append(ids, e.ExecutionID)
		}
		if page.NextCursor == nil {
			return ids
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}

// submitAs hands work in, with more members of the body, and returns the id.
func (r *rig) submitAs(token, deployment, more string) string {
	r.Helper()
	return r.projection(r.call("POST", submitPath(deployment), `{"input":true`+more+`}`, as(token))).ExecutionID
}

// A listing shows what passes the filters, a page at a time, with what a projection shows but payloads and progress.
func TestList(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys)
	r.token = boss
	first := r.submitAs(boss, "echo", `,"labels":{"team":"a&b=c","n":"1"}`)
	r.await(executionsPath+first, "completed")
	second := r.submitAs(boss, "ask", `,"labels":{"n":"1"}`)
	r.await(executionsPath+second, "waiting")
	third := r.submitAs(boss, "echo", `,"owner":"c"`)
	r.await(executionsPath+third, "completed")
	for query, want := range map[string][]string{
		"": {third, second, first}, "?limit=1": {third, second, first}, "?limit=200": {third, second, first},
		"?deployment=echo": {third, first}, "?deployment=none": nil, "?revision=1": {third, first}, "?revision=2": nil,
		"?status=waiting": {second}, "?status=waiting&status=completed&limit=2": {third, second, first}, "?status=failed": nil,
		"?label=n=1": {second, first}, "?label=n=1&label=" + url.QueryEscape("team=a&b=c"): {first}, "?label=n=": nil, "?owner=c": {third},
		"?owner=d": nil, "?created_from=2020-01-01T00:00:00Z": {third, second, first}, "?created_before=2020-01-01T00:00:00Z": nil,
		"?created_from=9999-01-01T00:00:00Z": nil, "?created_before=1950-01-01T00:00:00Z": nil, "?created_from=1950-01-01T00:00:00Z": {third, second, first},
	} {
		got := r.listed(query)
		sameMoment := func(ids []string) []string { return slices.Sorted(slices.Values(ids)) } // all may have been made in one millisecond
		if diff := cmp.Diff(sameMoment(want), sameMoment(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	e := r.projection(r.call("GET", executionsPath+first, ""))
	want := contract.ExecutionSummary{ExecutionID: first, Deployment: "echo", Revision: "1", Status: "completed", Attempt: 1, Sequence: 3,
		Labels: contract.Labels{"team": "a&b=c", "n": "1"}, CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt, Links: e.Links}
	if diff := cmp.Diff([]contract.ExecutionSummary{want}, r.page("?label=team="+url.QueryEscape("a&b=c")).Items); diff != "" {
		t.Errorf("item (-want +got):\n%s", diff)
	}
}

// A cursor goes with its own filters and scope only, and not where a byte of it was changed. The limit may change.
func TestListCursor(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys)
	for range 3 {
		r.submitAs(ann, "ask", "")
	}
	r.token = ann
	cursor := *r.page("?limit=1&deployment=ask").NextCursor
	if got := r.page("?limit=2&deployment=ask&cursor=" + cursor); len(got.Items) != 2 {
		t.Errorf("%+v", got)
	}
	bad := []string{"?cursor=" + cursor, "?deployment=ask&status=queued&cursor=" + cursor, "?deployment=ask&cursor=", "?deployment=ask&cursor=%ff",
		"?deployment=ask&cursor=" + strings.Repeat("A", 5000/2)}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	r.must(err)
	for i := range raw {
		changed := slices.Clone(raw)
		changed[i] ^= 1
		bad = append(bad, "?deployment=ask&cursor="+base64.RawURLEncoding.EncodeToString(changed), "?deployment=ask&cursor="+base64.RawURLEncoding.EncodeToString(raw[:i]))
	}
	for _, query := range bad {
		if p := r.problem(r.call("GET", "/v1/executions"+query, "")); p.Code != "invalid_cursor" {
			t.Errorf("%s: %+v", query, p)
		}
	}
	for _, token := range []string{bob, boss, clerk} {
		if p := r.problem(r.call("GET", "/v1/executions?deployment=ask&cursor="+cursor, "", as(token))); p.Code != "invalid_cursor" {
			t.Errorf("as %s: %+v", token, p)
		}
	}
	all := *r.page("?limit=1&deployment=ask", as(boss)).NextCursor
	if got := r.page("?deployment=ask&cursor="+all, as(only("read"))); len(got.Items) != 2 {
		t.Errorf("with another key to the same executions: %+v", got)
	}
}

// A filter that breaks a rule is told which.
func TestListRefused(t *testing.T) {
	t.Parallel()
	r := start(t)
	for query, words := range map[string]string{
		"?deploy=x": `"The parameter \"deploy\" is not known."`, "?limit=0": "from 1 to 200", "?limit=201": `"limit":200`, "?limit=x": "limit",
		"?status=done": "status must be", "?revision=": "revision must", "?revision=" + strings.Repeat("r", 65): "revision must",
		"?owner=": "owner must", "?owner=%00": "owner must", "?label=team": "label must", "?label=A=b": "label must", "?label==b": "label must",
		"?label=a=" + strings.Repeat("b", 64): "label must", "?created_from=yesterday": "created_from", "?created_before=": "created_before",
		"?" + strings.Repeat("label=a=b&", 9): "at most 8", "?" + strings.Repeat("status=failed&", 7): "at most 6",
	} {
		a := r.call("GET", "/v1/executions"+query, "")
		if a.status != 400 {
			t.Errorf("%s: %d %s", query, a.status, a.body)
			continue
		}
		if p := r.problem(a); a.status != 400 || p.Code != "invalid_request" || !strings.Contains(a.body, words) {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
}

// Each owner lists its own, and a principal that is limited to deployments only theirs, whatever is asked for.
func TestOwnersListTheirOwn(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys)
	var ofA, ofB []string
	for i := range 3 {
		more := fmt.Sprintf(`,"labels":{"n":"%d"}`, i)
		ofA, ofB = append(ofA, r.submitAs(ann, "ask", more)), append(ofB, r.submitAs(bob, "ask", more))
	}
	echo := r.submitAs(boss, "echo", "")
	for query, only := range map[string][]int{"?": {0, 1, 2}, "?limit=1": {0, 1, 2}, "?deployment=ask": {0, 1, 2}, "?label=n=1": {1}, "?label=n=1&limit=1": {1}} {
		for token, all := range map[string][]string{ann: ofA, bob: ofB} {
			var want []string
			for _, i := range only {
				want = append(want, all[i])
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(r.listed(query, as(token))))); diff != "" {
				t.Errorf("%s as %s (-want +got):\n%s", query, token, diff)
			}
		}
	}
	for query, want := range map[string]int{"": 7, "?owner=a": 3, "?owner=b&label=n=2": 1} {
		for _, token := range []string{boss, clerk} {
			if got := r.listed(query, as(token)); len(got) != want {
				t.Errorf("%s as %s: %v", query, token, got)
			}
		}
	}
	if got := r.listed("", as(echoes)); len(got) != 1 || got[0] != echo {
		t.Errorf("of one deployment: %v", got)
	}
	r.refusedAs("another's", r.call("GET", "/v1/executions?owner=a", "", as(bob)), 403, "forbidden", `Bearer realm="windrow", error="insufficient_scope"`)
	if got := r.listed("?owner=b", as(bob)); len(got) != 3 {
		t.Errorf("its own by name: %v", got)
	}
}
