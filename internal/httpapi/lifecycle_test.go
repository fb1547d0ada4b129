package httpapi

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
)

// plainText is a body with what differs from run to run taken out.
func plainText(path, body string) string {
	body = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:]{8}\.\d{3}Z"`).ReplaceAllString(body, "TIME")
	return strings.ReplaceAll(body, path[len(executionsPath):], "ID")
}

const linksOfID = `{"self":"/v1/executions/ID","stream":"/v1/executions/ID/stream","resume":"/v1/executions/ID/resume",` +
	`"cancel":"/v1/executions/ID/cancel"}`

// A projection says all that is known of an execution, whatever becomes of it.
func TestProjections(t *testing.T) {
	t.Parallel()
	const head = `{"execution_id":"ID","deployment":`
	for name, test := range map[string]struct {
		reach func(r *rig) string
		want  string
	}{
		"completed": {
			func(r *rig) string { return r.reaches(r.submit("typed", `{"n":7}`), execution.Completed) },
			`"typed","revision":"1","status":"completed","attempt":1,"sequence":3,"progress":[],"result":7,"error":null,"waiting":null,` +
				`"cancellation_requested_at":null,"cancellation_reason":null,"available_at":null,"labels":{},"priority":0,"deadline":null,`},
		"failed": {
			func(r *rig) string { return r.reaches(r.submit("fail", `1`), execution.Failed) },
			`"fail","revision":"1","status":"failed","attempt":1,"sequence":3,"progress":[],"result":null,` +
				`"error":{"type":"Broken","code":"broken","message":"<No & no>","retryable":true},"waiting":null,` +
				`"cancellation_requested_at":null,"cancellation_reason":null,"available_at":null,"labels":{},"priority":0,"deadline":null,`},
		"waiting": {
			func(r *rig) string { return r.waiting(`{"type":"string"}`) },
			`"ask","revision":"r-2.x","status":"waiting","attempt":1,"sequence":3,"progress":[],"result":null,"error":null,` +
				`"waiting":{"kind":"approval","message":"<\"Ship\" & go?>","expected_input_schema":{"type":"string"},"deadline":null},` +
				`"cancellation_requested_at":null,"cancellation_reason":null,"available_at":null,"labels":{},"priority":0,"deadline":null,`},
		"canceling": {
			func(r *rig) string {
				path := r.running()
				r.call("POST", path+"/cancel", `{"reason":"<\"why\">"}`)
				return r.reaches(path, execution.Canceled)
			},
			`"hold","revision":"1","status":"canceled","attempt":1,"sequence":4,"progress":[],"result":null,"error":null,"waiting":null,` +
				`"cancellation_requested_at":TIME,"cancellation_reason":"<\"why\">","available_at":null,"labels":{},"priority":0,"deadline":null,`},
		"running": {
			func(r *rig) string { return r.running() },
			`"hold","revision":"1","status":"running","attempt":1,"sequence":2,"progress":[],"result":null,"error":null,"waiting":null,` +
				`"cancellation_requested_at":null,"cancellation_reason":null,"available_at":null,"labels":{},"priority":0,"deadline":null,`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			path := test.reach(r)
			a := r.call("GET", path, "")
			now := `"created_at":TIME,"updated_at":TIME,"expires_at":null,"links":` + linksOfID + "}"
			if strings.Contains(test.want, `"status":"c`) || strings.Contains(test.want, `"status":"f`) { // it has ended
				now = strings.Replace(now, "null", "TIME", 1)
			}
			if diff := cmp.Diff(head+test.want+now, plainText(path, a.body)); diff != "" {
				t.Errorf("projection (-want +got):\n%s", diff)
			}
			if got := a.header.Get("Content-Length"); got != fmt.Sprint(len(a.body)) || a.header.Get("Content-Type") != "application/json" ||
				a.header.Get("Cache-Control") != "no-cache, private" {
				t.Errorf("headers %v", a.header)
			}
		})
	}
}

// reaches waits for the status and returns the path.
func (r *rig) reaches(path string, status execution.Status) string {
	r.Helper()
	if e := r.await(path, status); string(e.Status) != string(status) {
		r.Fatalf("%+v, want %s", e, status)
	}
	return path
}

// A submission is answered with where its execution is, and so is its replay.
func TestSubmission(t *testing.T) {
	t.Parallel()
	r := start(t, func(s *setup) { s.idle = true })
	const want = `{"execution_id":"ID","deployment":"echo","revision":"1","status":"queued","attempt":0,"sequence":1,"progress":[],` +
		`"result":null,"error":null,"waiting":null,"cancellation_requested_at":null,"cancellation_reason":null,"available_at":null,"labels":{},"priority":0,"deadline":null,"created_at":TIME,` +
		`"updated_at":TIME,"expires_at":null,"links":` + linksOfID + `,"key_retention":604800}`
	for i, replayed := range []string{"", "true"} {
		a := r.call("POST", submitPath("echo"), strings.Repeat(" ", i)+`{"input":1}`, "Idempotency-Key: k", "X-Request-Id: r9")
		path := a.header.Get("Location")
		if a.status != http.StatusAccepted || !strings.HasPrefix(path, executionsPath) || a.header.Get("Idempotent-Replay") != replayed ||
			a.header.Get(problem.RequestIDHeader) != "r9" {
			t.Fatalf("answered %d %v %s", a.status, a.header, a.body)
		}
		if diff := cmp.Diff(want, plainText(path, a.body)); diff != "" {
			t.Errorf("projection (-want +got):\n%s", diff)
		}
	}
	if unfinished, _ := r.stored(); unfinished != 1 {
		t.Errorf("%d executions", unfinished)
	}
}

// Whatever an input breaks is named by its place in the body, and nothing is stored.
func TestViolations(t *testing.T) {
	t.Parallel()
	r := start(t)
	a := r.call("POST", submitPath("typed"), `{"input":{"n":"x","a/b":1}}`)
	r.has(a, `"code":"invalid_input","detail":"The input does not fit its schema.","errors":[{"message":"`,
		`"pointer":"/input/n","rule":"type"}`, `"pointer":"/input/a~1b"`)
	if unfinished, changes := r.stored(); a.status != 422 || unfinished != 0 || changes != 0 {
		t.Errorf("%d, %d executions, %d exchanges", a.status, unfinished, changes)
	}
	path := r.waiting(`{"properties":{"approved":{"type":"boolean"}},"required":["approved"]}`)
	r.has(r.call("POST", path+"/resume", `{"input":{"approved":"yes"}}`), `"code":"invalid_input"`, `"pointer":"/input/approved","rule":"type"`)
	r.has(r.call("POST", path+"/resume", `{"input":{}}`), `"pointer":"/input","rule":"required"`)
	r.reaches(path, execution.Waiting)
}

// Five answers at once are applied once: with one key all get the same answer, without one the first wins.
func TestAnswersAtOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		headers []string
		want    map[int]int
	}{
		"one key": {[]string{"Idempotency-Key: k"}, map[int]int{202: 5}},
		"no key":  {nil, map[int]int{202: 1, 409: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			path := r.waiting(`true`)
			got := map[int]int{}
			var all sync.WaitGroup
			var mu sync.Mutex // guards got
			for range 5 {
				all.Go(func() {
					a := r.call("POST", path+"/resume", `{"input":7}`, test.headers...)
					mu.Lock()
					defer mu.Unlock()
					got[a.status]++
				})
			}
			all.Wait()
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			r.reaches(path, execution.Completed)
		})
	}
}

// Asking again to stop changes nothing, and what has ended stays as it is.
func TestCancelAgain(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.submit("echo", "1")
	r.reaches(path, execution.Completed)
	first, second := r.call("POST", path+"/cancel", ""), r.call("POST", path+"/cancel", `{}`)
	if first.status != 200 || second.status != 200 || first.body != second.body || r.projection(first).Status != "completed" {
		t.Errorf("%d %s, then %d %s", first.status, first.body, second.status, second.body)
	}
}
