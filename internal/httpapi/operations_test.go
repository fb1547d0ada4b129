package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/contracttest"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/store"
)

// provoked is a way to one answer of one operation.
type provoked struct {
	operation string
	status    int
	code      string // of the problem; empty: there is none
	change    func(*setup)
	ask       func(r *rig) reply
}

// unprovoked are the documented answers that nothing leads to, with the reason.
func unprovoked() map[string]string {
	return map[string]string{
		"getLiveness 500": "nothing that liveness does can fail; the status stands for a panic in what surrounds it",
		"getLiveness 503": "it takes a store that breaks its promise to mind contexts; see the runtime's test of being stuck",
		"getContract 500": "nothing can fail; the status stands for a panic in what surrounds it",
		"submitBatch 500": "what an item does to the server is told for that item; the status stands for a panic in what surrounds it",
	}
}

// codesOfStreams are the codes that only come in the events of a stream, which have tests of their own.
func codesOfStreams() []string { return []string{"stream_interrupted"} }

// Every status that the contract documents for an operation, and every code of a problem, is answered by something, as the
// contract has it.
func TestEveryAnswer(t *testing.T) {
	t.Parallel()
	seen, codes := map[string]bool{}, codesOfStreams()
	for _, p := range slices.Concat(successes(), refusals(), conflicts(), failures(), hayhooksAnswers()) {
		answer := contracttest.Answer{Operation: p.operation, Status: p.status}.String()
		seen[answer] = true
		codes = append(codes, p.code)
		t.Run(strings.TrimSpace(answer+" "+p.code), func(t *testing.T) {
			t.Parallel()
			p.check(t)
		})
	}
	contract, err := keeper()
	if err != nil {
		t.Fatal(err)
	}
	for _, documented := range contract.Answers() {
		_, excused := unprovoked()[documented.String()]
		if seen[documented.String()] == excused {
			t.Errorf("%s: provoked %v, excused %v", documented, !excused, excused)
		}
	}
	for _, code := range contract.Enum("ProblemCode") {
		if !slices.Contains(codes, code) {
			t.Errorf("no answer has the code %s", code)
		}
	}
}

func (p provoked) check(t *testing.T) {
	t.Helper()
	var changes []func(*setup)
	if p.change != nil {
		changes = append(changes, p.change)
	}
	r := start(t, changes...)
	a := p.ask(r)
	if a.status != p.status {
		t.Fatalf("answered %d %s", a.status, a.body)
	}
	if p.code == "" || inHayhooks(p.operation) { // which has no codes
		return
	}
	got := r.problem(a)
	if string(got.Code) != p.code || got.Status != p.status || got.Type != "https://windrow.run/problems/"+p.code ||
		got.Instance != "urn:windrow:request:"+a.header.Get(problem.RequestIDHeader) {
		t.Errorf("problem %+v", got)
	}
}

// asks are requests, one for each operation, that succeed where nothing is wrong.
func asks() map[string]func(r *rig, headers ...string) reply {
	get := func(path string) func(r *rig, headers ...string) reply {
		return func(r *rig, headers ...string) reply { return r.call("GET", path, "", headers...) }
	}
	post := func(of string) func(r *rig, headers ...string) reply {
		return func(r *rig, headers ...string) reply { return r.call("POST", possible+of, `{}`, headers...) }
	}
	remove := func(path string) func(r *rig, headers ...string) reply {
		return func(r *rig, headers ...string) reply { return r.call("DELETE", path, "", headers...) }
	}
	many := func(what string) func(r *rig, headers ...string) reply {
		return func(r *rig, headers ...string) reply {
			return r.call("POST", "/v1/bulk/"+what, `{"all":true,"dry_run":true}`, headers...)
		}
	}
	all := map[string]func(r *rig, headers ...string) reply{
		"submitExecution": func(r *rig, headers ...string) reply {
			return r.call("POST", submitPath("echo"), `{"input":1}`, headers...)
		},
		"submitBatch": func(r *rig, headers ...string) reply {
			return r.call("POST", submitPath("echo")+"/batch", `{"items":[{"submission":{"input":1}}]}`, headers...)
		},
		"getExecution":    get(possible),
		"getResult":       get(possible + "/result"),
		"getInput":        get(possible + "/input"),
		"getHistory":      get(possible + "/history"),
		"listExecutions":  get("/v1/executions"),
		"listDeployments": get("/v1/deployments"),
		"getDeployment":   get("/v1/deployments/echo"),
		"moveRevision": func(r *rig, headers ...string) reply {
			return r.call("POST", revisionPath+"/move", `{"to":"1"}`, headers...)
		},
		"failRevision": func(r *rig, headers ...string) reply {
			return r.call("POST", revisionPath+"/fail", `{"reason":"gone"}`, headers...)
		},
		"resumeExecution": func(r *rig, headers ...string) reply {
			return r.call("POST", possible+"/resume", `{"input":1}`, headers...)
		},
		"cancelExecution":   post("/cancel"),
		"resubmitExecution": post("/resubmit"),
		"bulkCancel":        many("cancel"),
		"bulkErase":         many("erase"),
		"bulkResubmit":      many("resubmit"),
		"eraseExecution":    remove(possible),
		"eraseOwner":        remove("/v1/owners/acme"),
		"streamExecution":   get(possible + "/stream"),
		"createStreamToken": post("/stream-token"),
		"getStatus":         get("/status"),
		"getLiveness":       get("/livez"),
		"getReadiness":      get("/readyz"),
		"getMetrics":        get("/metrics"),
		"getContract":       get("/openapi.yaml"),
	}
	for operation, request := range hayhooksRequests() {
		all[operation] = request.ask
	}
	return all
}

// revisionPath is that of a revision that nobody serves, of a deployment that is.
const revisionPath = "/v1/deployments/echo/revisions/r0"

// possible is the path of an execution that might be there but is not.
const possible = "/v1/executions/00000000000000000000000"

func successes() []provoked {
	return []provoked{
		{"submitBatch", 200, "", nil, func(r *rig) reply { return asks()["submitBatch"](r) }},
		{"submitExecution", 200, "", nil, func(r *rig) reply { return r.call("POST", submitPath("echo"), `{"input":1}`, "Prefer: wait=60") }},
		{"submitExecution", 202, "", nil, func(r *rig) reply { return r.call("POST", submitPath("echo"), `{"input":1}`) }},
		{"listExecutions", 200, "", nil, func(r *rig) reply {
			r.submit("echo", "1")
			return r.call("GET", "/v1/executions?limit=1", "")
		}},
		{"listDeployments", 200, "", nil, func(r *rig) reply { return r.call("GET", "/v1/deployments?limit=1", "") }},
		{"moveRevision", 200, "", nil, func(r *rig) reply { return asks()["moveRevision"](r) }},
		{"failRevision", 200, "", nil, func(r *rig) reply { return asks()["failRevision"](r) }},
		{"getDeployment", 200, "", nil, func(r *rig) reply { return r.call("GET", "/v1/deployments/typed", "") }},
		{"getExecution", 200, "", nil, func(r *rig) reply { return r.call("GET", r.submit("echo", "1"), "") }},
		{"getExecution", 304, "", nil, func(r *rig) reply { return r.known(r.waiting("true")) }},
		{"getResult", 200, "", nil, func(r *rig) reply { return r.call("GET", r.reaches(r.submit("echo", "1"), "completed")+"/result", "") }},
		{"getResult", 304, "", nil, func(r *rig) reply { return r.known(r.reaches(r.submit("echo", "1"), "completed") + "/result") }},
		{"getInput", 200, "", nil, func(r *rig) reply { return r.call("GET", r.running()+"/input", "") }},
		{"getInput", 304, "", nil, func(r *rig) reply { return r.known(r.running() + "/input") }},
		{"getHistory", 200, "", nil, func(r *rig) reply { return r.call("GET", r.running()+"/history?limit=2", "") }},
		{"getHistory", 304, "", nil, func(r *rig) reply { return r.known(r.running() + "/history") }},
		{"resumeExecution", 202, "", nil, func(r *rig) reply {
			return r.call("POST", r.waiting(`true`)+"/resume", `{"input":1}`)
		}},
		{"cancelExecution", 200, "", nil, func(r *rig) reply { return r.call("POST", r.waiting(`true`)+"/cancel", "") }},
		{"cancelExecution", 202, "", nil, func(r *rig) reply { return r.call("POST", r.running()+"/cancel", `{"reason":"r"}`) }},
		{"resubmitExecution", 202, "", nil, func(r *rig) reply { return r.call("POST", r.reaches(r.submit("fail", "1"), "failed")+"/resubmit", "") }},
		{"resubmitExecution", 200, "", nil, func(r *rig) reply {
			return r.call("POST", r.reaches(r.submit("echo", "1"), "completed")+"/resubmit", `{"revision":"same"}`, "Prefer: wait=60")
		}},
		{"bulkCancel", 200, "", nil, func(r *rig) reply { return asks()["bulkCancel"](r) }},
		{"bulkErase", 200, "", nil, func(r *rig) reply { return asks()["bulkErase"](r) }},
		{"bulkResubmit", 200, "", nil, func(r *rig) reply { return asks()["bulkResubmit"](r) }},
		{"eraseExecution", 200, "", nil, func(r *rig) reply { return r.call("DELETE", r.running(), "") }},
		{"eraseOwner", 200, "", nil, func(r *rig) reply { return r.call("DELETE", "/v1/owners/a%2Fb%20%C3%A9", "") }},
		{"streamExecution", 200, "", nil, func(r *rig) reply { return r.call("GET", r.submit("echo", "1")+"/stream", "") }},
		{"streamExecution", 204, "", nil, func(r *rig) reply {
			path := r.submit("echo", "1")
			end, _ := r.follow(path, "completed")
			return r.call("GET", path+"/stream", "", "Last-Event-ID: "+end)
		}},
		{"createStreamToken", 200, "", withStreamTokens, func(r *rig) reply { return r.call("POST", r.running()+"/stream-token", "") }},
		{"getStatus", 200, "", nil, func(r *rig) reply { return r.call("GET", "/status", "") }},
		{"getLiveness", 200, "", nil, func(r *rig) reply { return r.call("GET", "/livez", "") }},
		{"getReadiness", 200, "", nil, func(r *rig) reply {
			r.running() // what runs has been claimed by a runtime that runs
			return r.call("GET", "/readyz", "")
		}},
		{"getMetrics", 200, "", nil, func(r *rig) reply { return r.call("GET", "/metrics", "") }},
		{"getContract", 200, "", nil, func(r *rig) reply { return r.call("GET", "/openapi.yaml", "") }},
	}
}

// known asks for what the client knows already.
func (r *rig) known(path string) reply {
	r.Helper()
	return r.call("GET", path, "", "If-None-Match: "+r.call("GET", path, "").header.Get("ETag"))
}

// waiting is the path of an execution that waits for an answer of that schema.
func (r *rig) waiting(schema string) string {
	r.Helper()
	path := r.submit("ask", schema)
	r.await(path, execution.Waiting)
	return path
}

// running is the path of an execution that runs.
func (r *rig) running() string {
	r.Helper()
	path := r.submit("hold", "1")
	<-r.held
	return path
}

// refusals are answers to requests that are wrong in themselves.
func refusals() (all []provoked) {
	long := `{"input":"` + strings.Repeat("x", testBody) + `"}`
	for operation, path := range map[string]string{
		"submitExecution": submitPath("echo"), "submitBatch": submitPath("echo") + "/batch", "resumeExecution": possible + "/resume", "cancelExecution": possible + "/cancel",
		"createStreamToken": possible + "/stream-token", "resubmitExecution": possible + "/resubmit",
		"bulkCancel": "/v1/bulk/cancel", "bulkErase": "/v1/bulk/erase", "bulkResubmit": "/v1/bulk/resubmit",
		"moveRevision": revisionPath + "/move", "failRevision": revisionPath + "/fail",
	} {
		post := func(body string, headers ...string) func(r *rig) reply {
			return func(r *rig) reply { return r.call("POST", path, body, headers...) }
		}
		all = append(all,
			provoked{operation, 400, "invalid_json", nil, post(`{`)},
			provoked{operation, 400, "invalid_request", nil, post(`{"prio":1}`)},
			provoked{operation, 413, "too_large", nil, post(long)},
			provoked{operation, 415, "unsupported_media_type", nil, post(`{}`, "Content-Type: text/plain")},
			provoked{operation, 408, "request_timeout", func(s *setup) { s.api.BodyTimeout = 50 * time.Millisecond },
				func(r *rig) reply { return r.callSlowly(path) }})
	}
	for operation, ask := range asks() {
		all = append(all, provoked{operation, 431, "headers_too_large", nil, func(r *rig) reply {
			return ask(r, "X-Long: "+strings.Repeat("x", testHeader))
		}})
		if takes := accessOf(operation); takes.scope != "" {
			all = append(all, refusedAccess(operation, takes, ask)...)
		}
		if slices.Contains([]string{"createStreamToken", "getResult", "getInput", "getHistory"}, operation) || strings.HasSuffix(operation, "Execution") && operation != "submitExecution" {
			all = append(all, provoked{operation, 404, "not_found", withStreamTokens, func(r *rig) reply { return ask(r) }})
		}
	}
	for _, operation := range []string{"getExecution", "getResult", "getInput", "getHistory"} {
		all = append(all, provoked{operation, 400, "invalid_request", nil, func(r *rig) reply {
			return asks()[operation](r, `If-None-Match: "a"`, `If-None-Match: "b"`)
		}})
	}
	key := "Idempotency-Key: "
	return append(all,
		provoked{"submitExecution", 400, "invalid_idempotency_key", nil, func(r *rig) reply { return asks()["submitExecution"](r, key) }},
		provoked{"resumeExecution", 400, "invalid_idempotency_key", nil, func(r *rig) reply { return asks()["resumeExecution"](r, key) }},
		provoked{"resubmitExecution", 400, "invalid_idempotency_key", nil, func(r *rig) reply { return asks()["resubmitExecution"](r, key) }},
		provoked{"bulkResubmit", 400, "invalid_idempotency_key", nil, func(r *rig) reply { return asks()["bulkResubmit"](r, key) }},
		provoked{"bulkErase", 400, "invalid_cursor", nil, func(r *rig) reply {
			return r.call("POST", "/v1/bulk/erase", `{"all":true,"dry_run":true,"cursor":"x"}`)
		}},
		provoked{"bulkErase", 404, "no_such_route", func(s *setup) { s.api.Side = OperatorsSide }, func(r *rig) reply { return asks()["bulkErase"](r) }},
		provoked{"bulkCancel", 404, "unknown_deployment", nil, func(r *rig) reply {
			return r.call("POST", "/v1/bulk/cancel", `{"filter":{"deployment":"-"},"dry_run":true}`)
		}},
		provoked{"bulkResubmit", 404, "unknown_deployment", nil, func(r *rig) reply {
			return r.call("POST", "/v1/bulk/resubmit", `{"filter":{"deployment":"-"},"dry_run":true}`)
		}},
		provoked{"submitExecution", 404, "unknown_deployment", nil, func(r *rig) reply {
			return r.call("POST", submitPath("nobody"), `{"input":1}`)
		}},
		provoked{"eraseOwner", 400, "invalid_request", nil, func(r *rig) reply { return r.call("DELETE", "/v1/owners/a%0Ab", "") }},
		provoked{"listExecutions", 400, "invalid_request", nil, func(r *rig) reply { return r.call("GET", "/v1/executions?prio=1", "") }},
		provoked{"listExecutions", 400, "invalid_cursor", nil, func(r *rig) reply { return r.call("GET", "/v1/executions?cursor=x", "") }},
		provoked{"listExecutions", 404, "unknown_deployment", withKeys, func(r *rig) reply {
			return r.call("GET", "/v1/executions?deployment=ask", "", as(echoes))
		}},
		provoked{"listDeployments", 400, "invalid_request", nil, func(r *rig) reply { return r.call("GET", "/v1/deployments?limit=201", "") }},
		provoked{"listDeployments", 400, "invalid_cursor", nil, func(r *rig) reply { return r.call("GET", "/v1/deployments?cursor=-", "") }},
		provoked{"moveRevision", 404, "unknown_deployment", nil, func(r *rig) reply {
			return r.call("POST", "/v1/deployments/none/revisions/r0/move", `{"to":"r1"}`)
		}},
		provoked{"failRevision", 404, "unknown_deployment", nil, func(r *rig) reply {
			return r.call("POST", "/v1/deployments/none/revisions/r0/fail", `{}`)
		}},
		provoked{"getDeployment", 404, "unknown_deployment", withKeys, func(r *rig) reply {
			return r.call("GET", "/v1/deployments/ask", "", as(echoes))
		}},
		provoked{"streamExecution", 400, "invalid_cursor", nil, func(r *rig) reply { return asks()["streamExecution"](r, "Last-Event-ID: x") }},
		provoked{"listDeployments", 404, "no_such_route", func(s *setup) { s.api.Side = OperatorsSide }, func(r *rig) reply { return asks()["listDeployments"](r) }},
		provoked{"getStatus", 404, "no_such_route", onClientsSide, func(r *rig) reply { return asks()["getStatus"](r) }},
		provoked{"getMetrics", 404, "no_such_route", onClientsSide, func(r *rig) reply { return asks()["getMetrics"](r) }},
		provoked{"eraseOwner", 404, "no_such_route", func(s *setup) { s.api.Side = OperatorsSide }, func(r *rig) reply { return asks()["eraseOwner"](r) }},
		provoked{"createStreamToken", 501, "not_configured", nil, func(r *rig) reply { return asks()["createStreamToken"](r) }},
		provoked{"submitExecution", 403, "forbidden", withKeys, func(r *rig) reply {
			return r.call("POST", submitPath("echo"), `{"input":1,"owner":"b"}`, as(ann))
		}},
		provoked{"submitBatch", 400, "invalid_idempotency_key", nil, func(r *rig) reply { return asks()["submitBatch"](r, key+"k") }},
		provoked{"submitBatch", 404, "unknown_deployment", nil, func(r *rig) reply { return r.call("POST", submitPath("-")+"/batch", `{}`) }},
		provoked{"getResult", 404, "no_result", nil, func(r *rig) reply { return r.call("GET", r.running()+"/result", "") }},
		provoked{"getExecution", 400, "invalid_request", nil, func(r *rig) reply { return r.call("GET", possible+"?wait=61", "") }},
		provoked{"getHistory", 400, "invalid_request", nil, func(r *rig) reply { return r.call("GET", possible+"/history?limit=1", "") }},
		provoked{"getExecution", 429, "too_many_viewers", func(s *setup) { s.api.Limits.Viewers = 1 }, func(r *rig) reply {
			first := r.open("GET", r.running()+"/stream", "")
			defer first.Body.Close()
			return r.call("GET", possible+"?wait=1", "")
		}},
		provoked{"streamExecution", 429, "too_many_viewers", func(s *setup) { s.api.Limits.Viewers = 1 }, func(r *rig) reply {
			first := r.open("GET", r.running()+"/stream", "")
			defer first.Body.Close()
			return r.call("GET", possible+"/stream", "")
		}},
		provoked{"", 404, "no_such_route", nil, func(r *rig) reply { return r.call("GET", "/v1", "") }},
		provoked{"", 405, "method_not_allowed", nil, func(r *rig) reply { return r.call("PUT", possible, "") }})
}

func onClientsSide(s *setup) { s.api.Side = ClientsSide }

// callSlowly announces a body that never comes.
func (r *rig) callSlowly(path string) reply {
	r.Helper()
	body, writer := io.Pipe()
	defer writer.Close()
	request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, r.server.URL+path, body)
	r.must(err)
	request.Header.Set("Content-Type", "application/json")
	response, err := r.client.Do(request)
	r.must(err)
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	r.must(err)
	return reply{response.StatusCode, response.Header, string(read)}
}

// conflicts are answers to requests that don't fit what is there.
func conflicts() []provoked {
	key := "Idempotency-Key: k"
	return []provoked{
		{"submitExecution", 413, "too_large", nil, func(r *rig) reply {
			return r.call("POST", submitPath("echo"), `{"input":"`+strings.Repeat("x", testInput)+`"}`)
		}},
		{"submitExecution", 422, "invalid_option", nil, func(r *rig) reply {
			return r.call("POST", submitPath("echo"), `{"input":1,"run_at":"9999-01-01T00:00:00Z"}`)
		}},
		{"submitExecution", 422, "invalid_input", nil, func(r *rig) reply {
			return r.call("POST", submitPath("typed"), `{"input":{"n":"x"}}`)
		}},
		{"submitExecution", 422, "key_reused", nil, func(r *rig) reply {
			r.call("POST", submitPath("echo"), `{"input":1}`, key)
			return r.call("POST", submitPath("echo"), `{"input":2}`, key)
		}},
		{"submitExecution", 429, "owner_capacity_reached", func(s *setup) { s.idle, s.runtime.MaxOwned = true, 1 }, func(r *rig) reply {
			r.call("POST", submitPath("echo"), `{"input":1,"owner":"ann"}`)
			return r.call("POST", submitPath("echo"), `{"input":1,"owner":"ann"}`)
		}},
		{"submitExecution", 503, "capacity_reached", func(s *setup) { s.idle = true }, func(r *rig) reply {
			for range 3 {
				r.submit("echo", "1")
			}
			return r.call("POST", submitPath("echo"), `{"input":1}`)
		}},
		{"submitExecution", 503, "draining", nil, func(r *rig) reply {
			r.runtime.Quiesce()
			return r.call("POST", submitPath("echo"), `{"input":1}`)
		}},
		{"bulkCancel", 409, "more_match", onlyIdle, func(r *rig) reply { return r.uncounted() }},
		{"bulkErase", 409, "more_match", onlyIdle, func(r *rig) reply { return r.moreMatch("erase", `"filter":{"status":["canceled"]}`) }},
		{"bulkResubmit", 409, "more_match", onlyIdle, func(r *rig) reply { return r.moreMatch("resubmit", `"all":true`) }},
		{"resubmitExecution", 409, "not_ended", nil, func(r *rig) reply { return r.call("POST", r.running()+"/resubmit", "") }},
		{"resubmitExecution", 422, "key_reused", nil, func(r *rig) reply {
			path := r.reaches(r.submit("echo", "1"), "completed") + "/resubmit"
			r.call("POST", path, "", key)
			return r.call("POST", path, `{"revision":"same"}`, key)
		}},
		{"moveRevision", 409, "revision_unserved", nil, func(r *rig) reply { return r.call("POST", revisionPath+"/move", `{"to":"r1"}`) }},
		{"moveRevision", 422, "invalid_option", nil, func(r *rig) reply { return r.call("POST", revisionPath+"/move", `{"to":"r0"}`) }},
		{"failRevision", 409, "revision_served", nil, func(r *rig) reply {
			return r.call("POST", "/v1/deployments/echo/revisions/1/fail", `{}`)
		}},
		{"resumeExecution", 409, "not_waiting", nil, func(r *rig) reply {
			return r.call("POST", r.running()+"/resume", `{"input":1}`)
		}},
		{"resumeExecution", 409, "wait_moved", nil, func(r *rig) reply {
			return r.call("POST", r.waiting(`true`)+"/resume", `{"input":1,"sequence":77}`)
		}},
		{"resumeExecution", 413, "too_large", nil, func(r *rig) reply {
			return r.call("POST", r.waiting(`true`)+"/resume", `{"input":"`+strings.Repeat("x", testInput)+`"}`)
		}},
		{"resumeExecution", 422, "invalid_input", nil, func(r *rig) reply {
			return r.call("POST", r.waiting(`{"type":"string"}`)+"/resume", `{"input":1}`)
		}},
		{"resumeExecution", 422, "key_reused", nil, func(r *rig) reply {
			path := r.waiting(`true`) + "/resume"
			r.call("POST", path, `{"input":1}`, key)
			return r.call("POST", path, `{"input":2}`, key)
		}},
		{"getReadiness", 503, "draining", nil, func(r *rig) reply {
			r.running()
			r.runtime.Quiesce()
			return r.call("GET", "/readyz", "")
		}},
		{"streamExecution", 503, "draining", nil, func(r *rig) reply {
			path := r.submit("echo", "1")
			r.hub.Close()
			return r.call("GET", path+"/stream", "")
		}},
	}
}

// failures are answers of a server that is not well: its store does not answer, holds what can't be read, or panics.
func failures() (all []provoked) {
	for operation, code := range map[string]string{
		"submitExecution": "unconfirmed", "resumeExecution": "unconfirmed", "cancelExecution": "unconfirmed", "eraseExecution": "unconfirmed", "eraseOwner": "unconfirmed",
		"moveRevision": "store_unavailable", "failRevision": "store_unavailable", "listDeployments": "store_unavailable", "getDeployment": "store_unavailable",
		"listExecutions": "store_unavailable", "getExecution": "store_unavailable", "streamExecution": "store_unavailable", "getReadiness": "store_unavailable",
		"bulkCancel": "store_unavailable", "bulkErase": "store_unavailable", "bulkResubmit": "store_unavailable", "resubmitExecution": "store_unavailable",
		"createStreamToken": "store_unavailable", "getResult": "store_unavailable", "getInput": "store_unavailable",
		"getHistory": "store_unavailable",
	} {
		all = append(all, provoked{operation, 503, code, withStreamTokens, func(r *rig) reply {
			r.running()
			r.store.Cut()
			return asks()[operation](r)
		}})
	}
	for _, operation := range []string{"submitExecution", "resumeExecution", "cancelExecution", "eraseExecution", "eraseOwner", "listExecutions", "getExecution", "streamExecution", "listDeployments", "getDeployment", "moveRevision", "failRevision",
		"getReadiness", "getStatus", "createStreamToken", "getResult", "getInput", "getHistory", "resubmitExecution", "bulkCancel", "bulkErase", "bulkResubmit"} {
		b := &breaking{}
		change := func(s *setup) { b.wrap(s); withStreamTokens(s) }
		all = append(all, provoked{operation, 500, "internal", change, func(r *rig) reply {
			r.running()
			b.broken.Store(true)
			return asks()[operation](r)
		}})
	}
	corrupt := &breaking{err: execution.Errorf(execution.CodeCorrupt, "secret")}
	return append(all,
		provoked{"getMetrics", 500, "internal", func(s *setup) {
			s.api.Scrape = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("secret") })
		}, func(r *rig) reply { return asks()["getMetrics"](r) }},
		provoked{"getExecution", 500, "stored_state_invalid", corrupt.wrap, func(r *rig) reply {
			corrupt.broken.Store(true)
			return asks()["getExecution"](r)
		}})
}

// breaking is a store that, once it is broken, panics or fails with its error when the HTTP floor comes to it.
type breaking struct {
	store.Store
	broken atomic.Bool
	err    error
}

func (b *breaking) wrap(s *setup) {
	s.wrap = func(inner store.Store) store.Store {
		b.Store = inner
		return b
	}
}

func (b *breaking) fail() error {
	if b.broken.Load() && b.err == nil {
		panic("secret")
	}
	if b.broken.Load() {
		return b.err
	}
	return nil
}

func (b *breaking) Submit(ctx context.Context, s store.Submission) (store.Submitted, error) {
	if err := b.fail(); err != nil {
		return store.Submitted{}, err
	}
	return b.Store.Submit(ctx, s)
}

func (b *breaking) Read(ctx context.Context, q store.ReadRequest) (store.Record, error) {
	if err := b.fail(); err != nil {
		return store.Record{}, err
	}
	return b.Store.Read(ctx, q)
}

func (b *breaking) List(ctx context.Context, q store.ListRequest) (store.Listed, error) {
	if err := b.fail(); err != nil {
		return store.Listed{}, err
	}
	return b.Store.List(ctx, q)
}

func (b *breaking) Erase(ctx context.Context, id string, scope store.Scope) (store.Erased, error) {
	if err := b.fail(); err != nil {
		return store.Erased{}, err
	}
	return b.Store.Erase(ctx, id, scope)
}

func (b *breaking) EraseOwner(ctx context.Context, owner string) (store.Erased, error) {
	if err := b.fail(); err != nil {
		return store.Erased{}, err
	}
	return b.Store.EraseOwner(ctx, owner)
}

func (b *breaking) Resume(ctx context.Context, q store.ResumeRequest) (store.Resumed, error) {
	if err := b.fail(); err != nil {
		return store.Resumed{}, err
	}
	return b.Store.Resume(ctx, q)
}

func (b *breaking) Cancel(ctx context.Context, id string, scope store.Scope, reason string) (store.Record, error) {
	if err := b.fail(); err != nil {
		return store.Record{}, err
	}
	return b.Store.Cancel(ctx, id, scope, reason)
}

func (b *breaking) Counts(ctx context.Context) (store.Counts, error) {
	if err := b.fail(); err != nil {
		return store.Counts{}, err
	}
	return b.Store.Counts(ctx)
}

func (b *breaking) Check(ctx context.Context) error {
	if err := b.fail(); err != nil {
		return err
	}
	return b.Store.Check(ctx)
}

// No deployment can be named as a route is, since its own routes would begin alike.
func TestRoutesAreReserved(t *testing.T) {
	t.Parallel()
	contract, err := keeper()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range contract.Paths() {
		first := strings.Split(path, "/")[1]
		if !strings.HasPrefix(first, "{") && !slices.Contains(runtime.ReservedNames(), first) {
			t.Errorf("a deployment may be named %s, and %s is a route", first, path)
		}
	}
}

// HEAD is told what GET is, but for the body.
func TestHead(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.submit("echo", "1")
	end, _ := r.follow(path, "completed")
	for _, target := range []string{path, "/livez", "/openapi.yaml", "/nowhere", possible, path + "/stream?cursor=x",
		path + "/stream?cursor=" + end} {
		get, head := r.call("GET", target, ""), r.call("HEAD", target, "")
		for _, name := range []string{"Content-Type", "Content-Length", "Cache-Control"} {
			if get.header.Get(name) != head.header.Get(name) && get.header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s: %s is %q, for GET %q", target, name, head.header.Get(name), get.header.Get(name))
			}
		}
		if get.status != head.status || head.body != "" {
			t.Errorf("%s: %d %s, for GET %d", target, head.status, head.body, get.status)
		}
	}
}

// HEAD on a stream that runs ends at once, and nobody watches.
func TestHeadIsNoViewer(t *testing.T) {
	t.Parallel()
	r := start(t)
	a := r.call("HEAD", r.running()+"/stream", "")
	if a.status != http.StatusOK || a.header.Get("Content-Type") != "text/event-stream" ||
		a.header.Get("Cache-Control") != "no-cache, no-transform" || a.header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("%+v", a)
	}
	if r.metrics.opened != 0 {
		t.Errorf("%d viewers", r.metrics.opened)
	}
}

// The state of the server is told, and why it is not well.
func TestStatus(t *testing.T) {
	t.Parallel()
	r := start(t, func(s *setup) { s.idle = true })
	r.submit("echo", "1")
	a := r.call("GET", "/status", "")
	want := []string{`"version":"1.2.3"`, `"kind":"memory"`, `"state":"ok"`, `"error":null`, `"status":"degraded"`,
		`"reasons":["The process has not begun its work: it waits for the store, or was not started."]`,
		`{"accepting":false,"active_executions":0,"counts":{"lease_expiry":0,"nonterminal":1,"revision_delayed":0,"revision_nonterminal":1,"revision_runnable":1},"draining":0,"error_streak":0,"name":"echo","revision":"1",`}
	r.has(a, want...)
}

func TestStatusWithoutStore(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.running()
	r.store.Cut()
	r.has(r.call("GET", "/status", ""), `"status":"degraded"`, `"state":"degraded"`, `"error":"store_unavailable"`, `"counts":null`,
		`The store does not answer as it should (store_unavailable); first noticed at 20`)
}

func TestStatusWhileDraining(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.running()
	r.runtime.Quiesce()
	r.has(r.call("GET", "/status", ""), `"status":"draining"`, `The process shuts down and takes no more work.`,
		`{"accepting":false,"active_executions":1,`)
}

func (r *rig) has(a reply, words ...string) {
	r.Helper()
	for _, word := range words {
		if !strings.Contains(a.body, word) {
			r.Errorf("%s lacks %s", a.body, word)
		}
	}
}

// What fails inside is in the log under the name of the request, and nowhere else.
func TestFailuresAreLogged(t *testing.T) {
	t.Parallel()
	b := &breaking{err: fmt.Errorf("secret")}
	r := start(t, b.wrap)
	b.broken.Store(true)
	a := r.call("GET", possible, "", "X-Request-Id: r7")
	if p := r.problem(a); a.status != 500 || strings.Contains(a.body, "secret") || p.Detail != "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	for _, line := range r.journal.lines(t) {
		if line["msg"] == "a request failed" && line["request_id"] == "r7" && line["error"] == "secret" {
			return
		}
	}
	t.Errorf("logged %s", &r.journal.text)
}

// A client that does not take its answer can't hold the connection with it.
func TestAnswerThatIsNotTaken(t *testing.T) {
	t.Parallel()
	r := start(t, func(s *setup) {
		s.api.Contract = strings.Repeat("x", 20_000_000) // more than any socket holds
		s.api.BodyTimeout = 50 * time.Millisecond
	})
	connection := r.dial("GET /openapi.yaml HTTP/1.1\r\nHost: x\r\n\r\n")
	r.metrics.until(t, func(m *tally) bool { return m.answered == 1 })
	if n, _ := io.Copy(io.Discard, connection); n >= 20_000_000 {
		t.Errorf("%d bytes were sent to nobody", n)
	}
}
