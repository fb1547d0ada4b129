package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// asked submits to echo on a server that starts nothing.
func (r *rig) asked(body string, headers ...string) reply {
	r.Helper()
	return r.call("POST", submitPath("echo"), body, headers...)
}

// Options show in the projection.
func TestOptionsShow(t *testing.T) {
	t.Parallel()
	r := start(t, func(s *setup) { s.idle = true })
	a := r.asked(`{"input":1,"priority":7,"deadline":"2030-01-31T10:00:00+01:00","run_at":"2030-01-31T09:00:00.0001+01:00"}`)
	r.has(a, `"priority":7`, `"available_at":"2030-01-31T08:00:00.001Z"`, `"deadline":"2030-01-31T09:00:00.000Z"`)

	before := time.Now()
	e := r.projection(r.asked(`{"input":1,"delay":0.25}`))
	if e.AvailableAt == nil || e.AvailableAt.Sub(e.CreatedAt.Time) != 250*time.Millisecond || e.CreatedAt.Before(before.Truncate(time.Millisecond)) {
		t.Errorf("available at %v, created at %v", e.AvailableAt, e.CreatedAt)
	}
	r.has(r.asked(`{"input":1,"run_at":"1950-01-01T00:00:00Z"}`), `"available_at":null`)
}

// What can't be met is refused with 422 and names the option.
func TestOptionsThatCannotBeMet(t *testing.T) {
	t.Parallel()
	r := start(t, func(s *setup) { s.idle = true })
	for body, words := range map[string][]string{
		`{"input":1,"run_at":"9999-01-01T00:00:00Z"}`:           {"3650 days", `"pointer":"/run_at"`, `"rule":"option"`},
		`{"input":1,"deadline":"9999-01-01T00:00:00Z"}`:         {"3650 days", `"pointer":"/deadline"`},
		`{"input":1,"deadline":"1960-01-01T00:00:00Z"}`:         {"has passed", `"pointer":"/deadline"`},
		`{"input":1,"run_at":"2030-01-01T00:00:00Z","delay":1}`: {"together", `"pointer":"/delay"`},
	} {
		r.refuses(r.asked(body), wrong{status: http.StatusUnprocessableEntity, code: "invalid_option", words: words})
	}
	if unfinished, _ := r.stored(); unfinished != 0 {
		t.Errorf("%d executions", unfinished)
	}
}

// An owner's ceiling is told apart from a deployment's, with what an owner may have and next to what they may ask.
func TestOwnersCeiling(t *testing.T) {
	t.Parallel()
	r := start(t, func(s *setup) {
		s.idle, s.runtime.MaxOwned = true, 1
		s.api.Limits = Limits{Rate: 100, Burst: 100}
	})
	r.projection(r.asked(`{"input":1,"owner":"ann"}`))
	a := r.asked(`{"input":1,"owner":"ann"}`)
	r.refuses(a, wrong{status: http.StatusTooManyRequests, code: "owner_capacity_reached", words: []string{`"limit":1`}})
	if a.header.Get("Retry-After") == "" || !strings.HasSuffix(a.header.Get(rateHeader), `, "unfinished";r=0`) ||
		!strings.HasSuffix(a.header.Get(ratePolicyHeader), `, "unfinished";q=1`) {
		t.Errorf("headers %v", a.header)
	}
	r.projection(r.asked(`{"input":1,"owner":"bob"}`))
	r.projection(r.asked(`{"input":1}`))
}

// A client of hayhooks whose owner has no more room is told so as well, and when to try again.
func TestHayhooksOwnersCeiling(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys, func(s *setup) { s.idle, s.runtime.MaxOwned = true, 1 })
	r.hayhooks(r.call("POST", "/echo/run-durable", "1", as(ann)))
	a := r.call("POST", "/echo/run-durable", "1", as(ann))
	r.tells("the second", a, http.StatusTooManyRequests, detail("The owner has 1 unfinished executions."))
	if a.header.Get("Retry-After") == "" {
		t.Errorf("headers %v", a.header)
	}
	r.hayhooks(r.call("POST", "/echo/run-durable", "1", as(bob)))
}

// A submission keeps its place in a trace, in the form of the standard's first version; what is not of the standard counts as none.
func TestTraceIsKept(t *testing.T) {
	t.Parallel()
	const parent = "-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, test := range []struct {
		parent, want string
		states       []string
		state        string
	}{
		{"00" + parent, "00" + parent, []string{"congo=t61r, rojo=00f0 67", "", "a@b=1"}, "congo=t61r,rojo=00f0 67,a@b=1"},
		{"cc" + parent + "-more", "00" + parent, nil, ""},
		{"00" + parent, "00" + parent, []string{"no member"}, ""},
		{"00" + parent, "00" + parent, []string{"a=" + strings.Repeat("x", 256)}, "a=" + strings.Repeat("x", 256)},
		{"00" + parent, "00" + parent, []string{"a=" + strings.Repeat("x", 250), "b=" + strings.Repeat("x", 250), "c=123456789"}, ""},
		{"00" + parent, "00" + parent, []string{strings.Repeat("a=1,", 33)}, ""},
		{"00" + parent + "-more", "", []string{"a=1"}, ""},
		{"", "", []string{"a=1"}, ""},
	} {
		header := http.Header{"Traceparent": {test.parent}, "Tracestate": test.states}
		if got := traceOf(header); got.Parent != test.want || got.State != test.state {
			t.Errorf("%q %q: kept %+v", test.parent, test.states, got)
		}
	}
	r := start(t)
	for path, body := range map[string]string{submitPath("hold"): `{"input":1}`, "/hold/run-durable": `1`} {
		r.call("POST", path, body, "Traceparent: 00"+parent, "Tracestate: a=1")
		if p, state := (<-r.held).Trace(); p != "00"+parent || state != "a=1" {
			t.Errorf("%s: the handler got %q, %q", path, p, state)
		}
		r.release <- struct{}{}
	}
}
