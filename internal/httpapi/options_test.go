package httpapi

import (
	"net/http"
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
	a := r.asked(`{"input":1,"priority":7,"run_at":"2030-01-31T09:00:00.0001+01:00"}`)
	r.has(a, `"priority":7`, `"available_at":"2030-01-31T08:00:00.001Z"`)

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
		`{"input":1,"run_at":"2030-01-01T00:00:00Z","delay":1}`: {"together", `"pointer":"/delay"`},
	} {
		r.refuses(r.asked(body), wrong{status: http.StatusUnprocessableEntity, code: "invalid_option", words: words})
	}
	if unfinished, _ := r.stored(); unfinished != 0 {
		t.Errorf("%d executions", unfinished)
	}
}
