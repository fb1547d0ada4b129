package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/auth"
	"github.com/windrow-run/windrow/internal/httpapi/hayhooks"
	"github.com/windrow-run/windrow/internal/store"
)

// Tokens of these tests.
const (
	ann    = "ann"    // of the owner "a", may do all but administrate
	bob    = "bob"    // of the owner "b", the same
	boss   = "boss"   // of nobody, may do all
	echoes = "echoes" // of nobody, may do all with the deployment echo
	clerk  = "clerk"  // of the owner "a", and an administrator
)

func as(token string) string { return "Authorization: Bearer " + token }

// only is a token with one scope.
func only(s auth.Scope) string { return "only-" + string(s) }

// doorman accepts the tokens of these tests.
type doorman map[string]auth.Principal

func (d doorman) Authenticate(_ context.Context, token string) (auth.Principal, error) {
	p, ok := d[token]
	if !ok {
		return p, &auth.Error{Detail: "The token is not known.", Unavailable: token == "later"}
	}
	return p, nil
}

func keys() doorman {
	ordinary := []auth.Scope{auth.Submit, auth.Read, auth.Resume, auth.Worker}
	d := doorman{
		ann: principal("a", ordinary), bob: principal("b", ordinary), boss: principal("", auth.Scopes()),
		echoes: principal("", ordinary, "echo"), clerk: principal("a", auth.Scopes()),
	}
	d["echo-admin"] = principal("", auth.Scopes(), "echo")
	for _, s := range auth.Scopes() {
		d[only(s)] = principal("", []auth.Scope{s})
	}
	return d
}

func principal(owner string, scopes []auth.Scope, deployments ...string) auth.Principal {
	key, id := auth.NewKey()
	entry := auth.KeyEntry{ID: id, Hash: auth.HashKey(key), Scopes: scopes, Owner: owner, Deployments: deployments}
	list, err := auth.ReadKeys("keys:\n" + entry.Line())
	if err != nil {
		panic(err)
	}
	p, err := (&auth.Bearer{Keys: list}).Authenticate(context.Background(), key)
	if err != nil {
		panic(err)
	}
	return p
}

func withKeys(s *setup) { s.api.Auth = keys() }

func withStreamTokens(s *setup) {
	s.api.StreamTokens = auth.NewStreamTokens([]byte(strings.Repeat("s", auth.MinStreamSecret)))
}

// accessOf is what an operation takes.
func accessOf(operation string) access {
	keeper, err := keeper()
	if err != nil {
		panic(err)
	}
	for _, o := range keeper.Operations() {
		if o.ID == operation {
			return accesses()[o.Method+" "+o.Path]
		}
	}
	panic("no such operation: " + operation)
}

// refusedAccess are the refusals of an operation that takes a scope.
func refusedAccess(operation string, takes access, ask func(r *rig, headers ...string) reply) []provoked {
	other := auth.Scopes()[(slices.Index(auth.Scopes(), takes.scope)+1)%len(auth.Scopes())]
	tight := func(s *setup) { s.api.Limits = Limits{Rate: 1, Burst: 1} }
	return []provoked{
		{operation, 401, "unauthenticated", withKeys, func(r *rig) reply { return ask(r) }},
		{operation, 403, "forbidden", withKeys, func(r *rig) reply { return ask(r, as(only(other))) }},
		{operation, 429, "rate_limited", tight, func(r *rig) reply { ask(r); return ask(r) }},
		{operation, 503, "authentication_unavailable", withKeys, func(r *rig) reply { return ask(r, as("later")) }},
	}
}

// The contract and the table that requests are held against agree on every operation.
func TestAccessesFitTheContract(t *testing.T) {
	t.Parallel()
	keeper, err := keeper()
	if err != nil {
		t.Fatal(err)
	}
	left := accesses()
	for _, o := range keeper.Operations() {
		name := o.Method + " " + o.Path
		takes, ok := left[name]
		delete(left, name)
		want := map[string][]string(nil)
		if takes.scope != "" {
			want = map[string][]string{"bearer": {string(takes.scope)}}
		}
		if takes.token {
			want["streamToken"] = []string{}
		}
		if diff := gocmp.Diff(o.Security, want); !ok || diff != "" {
			t.Errorf("%s: listed %v; the contract and the table differ:\n%s", name, ok, diff)
		}
	}
	if len(left) > 0 {
		t.Errorf("the contract does not have %v", slices.Collect(maps.Keys(left)))
	}
}

// Every operation that takes a scope is refused without a token, with one that is not known, and with each scope but its own.
// The others are answered whoever asks.
func TestEveryOperationTakesItsScope(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys, withStreamTokens)
	keeper, err := keeper()
	r.must(err)
	for _, o := range keeper.Operations() {
		ask, ok := asks()[o.ID]
		if !ok {
			t.Errorf("%s: no request is known", o.ID)
			continue
		}
		takes := accessOf(o.ID).scope
		if takes == "" {
			for _, a := range []reply{ask(r), ask(r, as("nobody"))} {
				if a.status >= 400 && a.status != http.StatusServiceUnavailable {
					t.Errorf("%s: %d %s", o.ID, a.status, a.body)
				}
			}
			continue
		}
		r.refusedAs(o.ID, ask(r), 401, "unauthenticated", `Bearer realm="windrow"`)
		for _, header := range []string{as("nobody"), "Authorization: Basic Ym9zczo=", "Authorization: Bearer", "Authorization: boss"} {
			r.refusedAs(o.ID, ask(r, header), 401, "unauthenticated", `Bearer realm="windrow", error="invalid_token"`)
		}
		r.refusedAs(o.ID, ask(r, as(boss), as(boss)), 401, "unauthenticated", `Bearer realm="windrow", error="invalid_token"`)
		for _, s := range auth.Scopes() {
			a := ask(r, as(only(s)))
			switch {
			case s != takes:
				r.refusedAs(o.ID+" as "+string(s), a, 403, "forbidden",
					`Bearer realm="windrow", error="insufficient_scope", scope="`+string(takes)+`"`)
			case accessOf(o.ID).many:
				r.refusedAs(o.ID+" as "+string(s), a, 403, "forbidden", `Bearer realm="windrow", error="insufficient_scope", scope="admin"`)
			case a.status == 401 || a.status == 403:
				t.Errorf("%s as %s: %d %s", o.ID, s, a.status, a.body)
			}
		}
	}
}

func (r *rig) refusedAs(what string, a reply, status int, code, challenge string) {
	r.Helper()
	if operation, _, _ := strings.Cut(what, " "); inHayhooks(operation) {
		// it has no codes
	} else if p := r.problem(a); string(p.Code) != code {
		r.Errorf("%s: %+v", what, p)
	}
	if a.status != status || a.header.Get("WWW-Authenticate") != challenge {
		r.Errorf("%s: %d %s, %q", what, a.status, a.body, a.header.Get("WWW-Authenticate"))
	}
}

// victim is an execution with what others may have learned of it.
type victim struct {
	path, id, deployment string
	cursor               string // in its events
	token                string // opens its stream
	key                  string // it was submitted with
}

// attack tries to get at an execution by one operation with a token that must not, and returns what was answered to each try.
type attack func(r *rig, token string, v victim) []reply

// peek is call for what may be answered with a stream that has no end, which is not waited for.
func (r *rig) peek(method, path, body string, headers ...string) reply {
	r.Helper()
	response := r.open(method, path, body, headers...)
	if response.StatusCode == http.StatusOK {
		response.Body.Close()
		return reply{response.StatusCode, response.Header, "(not read)"}
	}
	return r.whole(response)
}

// attacks are tries on every operation that takes a scope but not that of administrators.
func attacks() map[string]attack {
	on := func(method, of, body string, headers ...string) attack {
		return func(r *rig, token string, v victim) []reply {
			encoded := strings.Replace(v.path, v.id, fmt.Sprintf("%%%x%s", v.id[0], v.id[1:]), 1)
			headers := append(headers, as(token))
			return []reply{r.peek(method, v.path+of, body, headers...), r.peek(method, encoded+of, body, headers...)}
		}
	}
	there := func(method, of, body string, headers ...string) attack {
		return func(r *rig, token string, v victim) []reply {
			headers := append(headers, as(token))
			return []reply{r.peek(method, hayhooks.Path(v.deployment, v.id)+of, body, headers...), r.peek(method, hayhooks.Path("echo", v.id)+of, body, headers...)}
		}
	}
	return map[string]attack{
		"submitExecution": nil, // see TestOwnersShareNoKeys
		"submitBatch":     nil, // see TestBatchIsAsSingles
		"listExecutions":  nil, // see TestOwnersListTheirOwn
		"listDeployments": nil, // see TestDeploymentsOfOthers
		"getDeployment":   nil, // the same
		"getExecution": func(r *rig, token string, v victim) []reply {
			return append(on("GET", "", "")(r, token, v), r.call("GET", v.path, "", as(token), "If-None-Match: *"),
				r.call("GET", v.path+"?owner=a&token="+v.token, "", as(token)), r.call("GET", v.path+"?wait=1", "", as(token)))
		},
		"getResult": func(r *rig, token string, v victim) []reply {
			return append(on("GET", "/result", "")(r, token, v), on("GET", "/result", "", "If-None-Match: *")(r, token, v)...)
		},
		"getInput": func(r *rig, token string, v victim) []reply {
			return append(on("GET", "/input", "")(r, token, v), on("GET", "/input", "", "If-None-Match: *")(r, token, v)...)
		},
		"getHistory": func(r *rig, token string, v victim) []reply {
			return append(on("GET", "/history", "")(r, token, v), on("GET", "/history?limit=2", "", "If-None-Match: *")(r, token, v)...)
		},
		"resumeExecution": func(r *rig, token string, v victim) []reply {
			body := `{"input":"theft","sequence":3}`
			return slices.Concat(on("POST", "/resume", body)(r, token, v), on("POST", "/resume", body, "Idempotency-Key: "+v.key)(r, token, v))
		},
		"cancelExecution":   on("POST", "/cancel", `{"reason":"theft"}`),
		"resubmitExecution": on("POST", "/resubmit", "", "Idempotency-Key: k"),
		"bulkCancel":        nil, // see TestBulkOwners
		"bulkResubmit":      nil, // the same
		"streamExecution": func(r *rig, token string, v victim) []reply {
			return slices.Concat(on("GET", "/stream", "")(r, token, v), on("GET", "/stream?cursor="+v.cursor, "")(r, token, v),
				on("GET", "/stream", "", "Last-Event-ID: "+v.cursor)(r, token, v), on("GET", "/stream?token="+v.token, "")(r, token, v))
		},
		"createStreamToken": on("POST", "/stream-token", ""),
		"hayhooksSubmit":    nil, // see TestHayhooksOwners
		"hayhooksGet":       there("GET", "", ""),
		"hayhooksCancel":    there("POST", "/cancel", ""),
		"hayhooksResume": func(r *rig, token string, v victim) []reply {
			return append(there("POST", "/resume", `"theft"`)(r, token, v), there("POST", "/resume", `"theft"`, "Idempotency-Key: "+v.key)(r, token, v)...)
		},
		"hayhooksStream": func(r *rig, token string, v victim) []reply {
			return append(there("GET", "/stream", "")(r, token, v), there("GET", "/stream", "", "Last-Event-ID: 1-0")(r, token, v)...)
		},
	}
}

// What one owner has, another can't see, follow, answer or stop, by no route, id, cursor, key or token; nor can a principal that is
// limited to other deployments. To both, it is as if it were not there.
func TestOthersSeeNothing(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys, withStreamTokens)
	keeper, err := keeper()
	r.must(err)
	absent := r.problem(r.call("GET", possible, "", as(bob)))
	for _, v := range r.victims() {
		before := r.call("GET", v.path, "", as(ann)).body
		for _, o := range keeper.Operations() {
			takes := accessOf(o.ID).scope
			if takes == "" || takes == auth.Admin {
				continue
			}
			try, ok := attacks()[o.ID]
			if !ok {
				t.Errorf("%s: nobody tried to get at another's execution by it", o.ID)
			}
			if try == nil {
				continue
			}
			for _, token := range []string{bob, echoes} {
				for i, a := range try(r, token, v) {
					if a.status != http.StatusNotFound {
						t.Errorf("%s by %s, try %d on %s: %d %s", o.ID, token, i, v.deployment, a.status, a.body)
						continue
					}
					if inHayhooks(o.ID) {
						if a.body != `{"detail":"Execution not found"}` {
							t.Errorf("%s by %s, try %d on %s: %s", o.ID, token, i, v.deployment, a.body)
						}
						continue
					}
					p := r.problem(a)
					p.Instance = absent.Instance
					if diff := gocmp.Diff(absent, p); diff != "" {
						t.Errorf("%s by %s, try %d on %s: %d %s\n%s", o.ID, token, i, v.deployment, a.status, a.body, diff)
					}
				}
			}
		}
		if after := r.call("GET", v.path, "", as(boss)).body; after != before {
			t.Errorf("%s was changed:\n%s\n%s", v.deployment, before, after)
		}
		for _, token := range []string{ann, boss, clerk} {
			if a := r.call("GET", v.path, "", as(token)); a.status != 200 {
				t.Errorf("%s does not see %s: %d", token, v.deployment, a.status)
			}
		}
	}
}

// victims are executions of the owner "a": one that runs, one that waits and one that has ended.
func (r *rig) victims() (all []victim) {
	r.Helper()
	r.token = ann
	for _, kind := range []struct{ deployment, until string }{{"tell", "progress"}, {"ask", "waiting"}, {"fail", "failed"}} {
		v := victim{deployment: kind.deployment, key: "key-of-" + kind.deployment}
		e := r.projection(r.call("POST", submitPath(v.deployment), `{"input":true}`, "Idempotency-Key: "+v.key))
		v.path, v.id = e.Links.Self, e.ExecutionID
		v.cursor, _ = r.follow(v.path, kind.until)
		var made contract.StreamToken
		r.must(json.Unmarshal([]byte(r.call("POST", v.path+"/stream-token", "").body), &made))
		v.token = made.Token
		all = append(all, v)
	}
	r.token = ""
	return all
}

// The same key under another owner is another key, and nobody submits for another owner but who is not limited to one.
func TestOwnersShareNoKeys(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys)
	submit := func(token, body string) reply {
		return r.call("POST", submitPath("ask"), body, as(token), "Idempotency-Key: k")
	}
	id := func(a reply) string { return r.projection(a).ExecutionID }
	a, b := submit(ann, `{"input":true}`), submit(bob, `{"input":{}}`)
	if id(a) == id(b) || b.header.Get("Idempotent-Replay") != "" {
		t.Errorf("%s and %s", a.body, b.body)
	}
	if again := submit(ann, `{"input":true}`); id(again) != id(a) {
		t.Errorf("repeated: %s", again.body)
	}
	named := submit(boss, `{"input":true,"owner":"b"}`)
	if got := r.problem(named); got.Code != "key_reused" { // of the body with the owner, under b's key
		t.Errorf("%+v", got)
	}
	for _, token := range []string{boss, clerk} {
		e := r.projection(r.call("POST", submitPath("echo"), `{"input":1,"owner":"b"}`, as(token)))
		if got := r.call("GET", e.Links.Self, "", as(bob)); got.status != 200 {
			t.Errorf("%s submitted for b, who is answered %d", token, got.status)
		}
		if got := r.call("GET", e.Links.Self, "", as(ann)); got.status != 404 {
			t.Errorf("%s submitted for b, and a is answered %d", token, got.status)
		}
		r.token = token
		r.follow(e.Links.Self, "completed") // the deployment takes no more than three that are unfinished
		r.token = ""
	}
	r.refusedAs("for another", submit(bob, `{"input":true,"owner":"a"}`), 403, "forbidden", `Bearer realm="windrow", error="insufficient_scope"`)
	if got := r.call("POST", submitPath("echo"), `{"input":1,"owner":"a"}`, as(ann)); got.status != 202 {
		t.Errorf("for itself: %d %s", got.status, got.body)
	}
	for _, owner := range []string{`""`, `1`, `null`, `"a\u0000"`, `"` + strings.Repeat("é", 256) + `"`} {
		if p := r.problem(r.call("POST", submitPath("echo"), `{"input":1,"owner":`+owner+`}`, as(boss))); p.Code != "invalid_request" {
			t.Errorf("owner %s: %+v", owner, p)
		}
	}
	if got := r.call("POST", submitPath("echo"), `{"input":1,"owner":"`+strings.Repeat("é", 255)+`"}`, as(boss)); got.status != 202 {
		t.Errorf("a long owner: %d %s", got.status, got.body)
	}
}

// A principal that is limited to deployments submits to no other, and uses its own as any does.
func TestDeploymentLimits(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys)
	if p := r.problem(r.call("POST", submitPath("ask"), `{"input":true}`, as(echoes))); p.Code != "unknown_deployment" {
		t.Errorf("%+v", p)
	}
	e := r.projection(r.call("POST", submitPath("echo"), `{"input":1}`, as(echoes)))
	r.token = echoes
	if _, events := r.follow(e.Links.Self, "completed"); !strings.Contains(events[len(events)-1].Data, `"result":1`) {
		t.Errorf("followed to %+v", events)
	}
	if got := r.call("POST", e.Links.Cancel, ""); got.status != 200 {
		t.Errorf("stopped: %d %s", got.status, got.body)
	}
}

// A stream token opens the stream of its execution until it expires, and nothing else. It is not logged.
func TestStreamToken(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys, withStreamTokens)
	v := r.victims()
	other := v[1]
	for _, v := range v[:1] {
		if got := r.open("GET", v.path+"/stream?token="+v.token, ""); got.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", v.deployment, got.StatusCode)
		} else {
			got.Body.Close()
		}
		for _, try := range []struct{ method, path string }{
			{"GET", other.path + "/stream?token=" + v.token}, {"GET", v.path + "/stream?token=x" + v.token},
			{"GET", v.path + "/stream?token=" + v.token[:len(v.token)-1]}, {"GET", v.path + "?token=" + v.token},
			{"POST", v.path + "/cancel?token=" + v.token}, {"POST", v.path + "/stream-token?token=" + v.token},
			{"GET", "/status?token=" + v.token}, {"GET", v.path + "/stream?token="}, {"GET", v.path + "/stream?token=" + ann},
		} {
			if got := r.peek(try.method, try.path, ""); got.status != 401 {
				t.Errorf("%s %s: %d %s", try.method, try.path, got.status, got.body)
			}
		}
		if got := r.call("GET", v.path, "", as(v.token)); got.status != 401 {
			t.Errorf("as a bearer token: %d", got.status)
		}
		expired := auth.NewStreamTokens([]byte(strings.Repeat("s", auth.MinStreamSecret))).Issue(v.id, auth.Account{}, time.Now().Add(-time.Second))
		if got := r.problem(r.call("GET", v.path+"/stream?token="+expired, "")); got.Detail != "The stream token has expired." {
			t.Errorf("%+v", got)
		}
		if log := fmt.Sprint(r.journal.lines(t)); strings.Contains(log, v.token) || strings.Contains(log, v.id) || strings.Contains(log, "Bearer") {
			t.Errorf("logged: %s", log)
		}
	}
	for body, code := range map[string]string{`{"expires_in":0}`: "invalid_request", `{"expires_in":3601}`: "invalid_request", `{"x":1}`: "invalid_request"} {
		if p := r.problem(r.call("POST", other.path+"/stream-token", body, as(ann))); string(p.Code) != code {
			t.Errorf("%s: %+v", body, p)
		}
	}
}

// Each owner has a bucket of its own, which is told in every answer.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys, func(s *setup) { s.api.Limits = Limits{Rate: 1, Burst: 3} })
	for left, want := range []int{2, 1, 0} {
		a := r.call("GET", possible, "", as(ann))
		if a.status != 404 || a.header.Get(rateHeader) != fmt.Sprintf(`"requests";r=%d;t=%d`, want, left+1) ||
			a.header.Get(ratePolicyHeader) != `"requests";q=3;w=3` {
			t.Errorf("%d: %+v", left, a)
		}
	}
	a := r.call("GET", possible, "", as(ann))
	if a.status != 429 || a.header.Get("Retry-After") != "1" || a.header.Get(rateHeader) != `"requests";r=0;t=3` {
		t.Errorf("%+v", a)
	}
	for _, header := range []string{as(bob), as(boss), as(only(auth.Read))} {
		if a := r.call("GET", possible, "", header); a.status != 404 {
			t.Errorf("%s: %d", header, a.status)
		}
	}
	if a := r.call("GET", "/readyz", ""); a.header.Get(rateHeader) != "" || a.status == 429 {
		t.Errorf("%+v", a)
	}
}

// A viewer counts for its owner until it leaves, whether it came by a key or by a stream token.
func TestViewerLimit(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys, withStreamTokens, func(s *setup) { s.api.Limits.Viewers = 1 })
	r.token = ann
	path := r.submit("tell", "true") + "/stream"
	r.token = ""
	var made contract.StreamToken
	r.must(json.Unmarshal([]byte(r.call("POST", path+"-token", "", as(ann)).body), &made))
	byKey := func() *http.Response { return r.open("GET", path, "", as(ann)) }
	byToken := func() *http.Response { return r.open("GET", path+"?token="+made.Token, "") }
	for _, open := range []func() *http.Response{byKey, byToken} {
		first := r.onceThereIsRoom(open)
		for _, again := range []func() *http.Response{byKey, byToken} {
			second := r.whole(again())
			if second.status != 429 || second.header.Get("Retry-After") != "15" {
				t.Errorf("a second viewer: %+v", second)
			}
		}
		if a := r.peek("GET", path, "", as(bob)); a.status != 404 {
			t.Errorf("another owner's: %d", a.status)
		}
		first.Body.Close()
	}
}

// onceThereIsRoom opens a stream again and again until the viewers before it are seen to have left.
func (r *rig) onceThereIsRoom(open func() *http.Response) *http.Response {
	r.Helper()
	for {
		response := open()
		if response.StatusCode == http.StatusOK {
			return response
		}
		if refused := r.whole(response); refused.status != http.StatusTooManyRequests {
			r.Fatalf("answered %+v", refused)
		}
	}
}

// Where operators have an address of their own, their routes are there alone, without authentication.
func TestSides(t *testing.T) {
	t.Parallel()
	clients := start(t, withKeys, onClientsSide)
	operators := start(t, withKeys, func(s *setup) { s.api.Side = OperatorsSide })
	keeper, err := keeper()
	clients.must(err)
	for _, o := range keeper.Operations() {
		takes := accessOf(o.ID)
		a, b := asks()[o.ID](clients, as(boss)), asks()[o.ID](operators)
		gone := func(a reply) bool {
			return a.status == 404 && (strings.Contains(a.body, "no_such_route") || a.body == `{"detail":"Not Found"}`)
		}
		if gone(a) != takes.operators || gone(b) != (takes.scope != "" && !takes.operators) {
			t.Errorf("%s: to clients %d %s, to operators %d %s", o.ID, a.status, a.body, b.status, b.body)
		}
	}
	if a := operators.call("GET", "/status", ""); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// Nobody's scope is that of no owner: it would see what has none.
func TestScopes(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]store.Scope{ann: {Owner: "a"}, boss: {All: true}, clerk: {All: true, Owner: "a"}, only(auth.Read): {All: true}} {
		p := keys()[token]
		want.By = p.Name
		if got := scopeOf(p); got != want || p.Name == "" {
			t.Errorf("%s: %+v", token, got)
		}
	}
}
