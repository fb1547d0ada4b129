package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/sse"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/stream"
)

// inHayhooks reports whether the operation is one of hayhooks'.
func inHayhooks(operation string) bool { return strings.HasPrefix(operation, "hayhooks") }

// sent is a request.
type sent struct{ method, path, body string }

func (s sent) ask(r *rig, headers ...string) reply {
	r.Helper()
	return r.call(s.method, s.path, s.body, headers...)
}

// hayhooksRequests are requests for each of hayhooks' operations, for an execution that might be there but is not.
func hayhooksRequests() map[string]sent {
	const path = "/echo/executions/00000000000000000000000"
	return map[string]sent{
		"hayhooksSubmit": {"POST", "/echo/run-durable", "1"}, "hayhooksGet": {"GET", path, ""},
		"hayhooksCancel": {"POST", path + "/cancel", ""}, "hayhooksResume": {"POST", path + "/resume", "1"},
		"hayhooksStream": {"GET", path + "/stream", ""},
	}
}

// durable hands work in as a client of hayhooks does.
func (r *rig) durable(deployment, input string, headers ...string) contract.HayhooksExecution {
	r.Helper()
	return r.hayhooks(r.call("POST", "/"+deployment+"/run-durable", input, headers...))
}

func (r *rig) hayhooks(a reply) contract.HayhooksExecution {
	r.Helper()
	var e contract.HayhooksExecution
	if err := json.Unmarshal([]byte(a.body), &e); err != nil || a.status >= 300 {
		r.Fatalf("%d %s is no execution (%v)", a.status, a.body, err)
	}
	return e
}

// reaching hands work in and returns its path once it has that status.
func (r *rig) reaching(deployment, input string, status execution.Status) string {
	r.Helper()
	e := r.durable(deployment, input)
	if got := r.await(pathOf(e.ExecutionID), status); string(got.Status) != string(status) {
		r.Fatalf("it is %s, want %s", got.Status, status)
	}
	return e.Links.Self
}

// hayhooksAnswers are ways to the statuses of hayhooks' operations that are not those of every operation.
func hayhooksAnswers() (all []provoked) {
	waiting := func(r *rig) string { return r.reaching("ask", "true", execution.Waiting) }
	running := func(r *rig) string { return r.reaching("hold", "1", execution.Running) }
	add := func(operation string, status int, change func(*setup), ask func(r *rig) reply) {
		all = append(all, provoked{operation, status, "", change, ask})
	}
	add("hayhooksSubmit", 202, nil, func(r *rig) reply { return r.call("POST", "/echo/run-durable", "1") })
	add("hayhooksSubmit", 200, nil, func(r *rig) reply {
		e := r.durable("echo", "1", "Idempotency-Key: k")
		r.await(pathOf(e.ExecutionID), execution.Completed)
		return r.call("POST", "/echo/run-durable", "1", "Idempotency-Key: k")
	})
	add("hayhooksSubmit", 404, nil, func(r *rig) reply { return r.call("POST", "/nobody/run-durable", "1") })
	add("hayhooksSubmit", 409, nil, func(r *rig) reply {
		r.durable("echo", "1", "Idempotency-Key: k")
		return r.call("POST", "/echo/run-durable", "2", "Idempotency-Key: k")
	})
	add("hayhooksGet", 200, nil, func(r *rig) reply { return r.call("GET", waiting(r), "") })
	add("hayhooksCancel", 200, nil, func(r *rig) reply { return r.call("POST", waiting(r)+"/cancel", "") })
	add("hayhooksCancel", 202, nil, func(r *rig) reply { return r.call("POST", running(r)+"/cancel", "") })
	add("hayhooksResume", 202, nil, func(r *rig) reply { return r.call("POST", waiting(r)+"/resume", "1") })
	add("hayhooksResume", 409, nil, func(r *rig) reply { return r.call("POST", running(r)+"/resume", "1") })
	add("hayhooksStream", 200, nil, func(r *rig) reply { return r.call("GET", r.durable("echo", "1").Links.Stream, "") })
	slowly := func(s *setup) { s.api.BodyTimeout = 50 * time.Millisecond }
	add("hayhooksSubmit", 408, slowly, func(r *rig) reply { return r.callSlowly("/echo/run-durable") })
	add("hayhooksResume", 408, slowly, func(r *rig) reply { return r.callSlowly(waiting(r) + "/resume") })
	add("hayhooksSubmit", 422, nil, func(r *rig) reply { return r.call("POST", "/echo/run-durable", "") })
	for operation, request := range hayhooksRequests() {
		add(operation, 503, nil, func(r *rig) reply {
			r.running()
			r.store.Cut()
			return request.ask(r)
		})
		corrupt := &breaking{err: execution.Errorf(execution.CodeCorrupt, "secret")}
		add(operation, 500, corrupt.wrap, func(r *rig) reply {
			corrupt.broken.Store(true)
			return request.ask(r)
		})
		if operation != "hayhooksSubmit" {
			add(operation, 404, nil, func(r *rig) reply { return request.ask(r) })
			add(operation, 422, nil, func(r *rig) reply {
				odd := request
				odd.path = strings.Replace(odd.path, "0000", "a.b", 1)
				return odd.ask(r)
			})
		}
	}
	return all
}

// tells holds an answer against a status and a body.
func (r *rig) tells(what string, a reply, status int, body string) {
	r.Helper()
	if a.status != status || a.body != body || a.header.Get("Content-Type") != "application/json" {
		r.Errorf("%s: answered %d %s %s\nwant %d %s", what, a.status, a.header.Get("Content-Type"), a.body, status, body)
	}
}

func detail(text string) string { return string(encode(map[string]string{"detail": text})) }

// A submission is answered at once with where to look, and shows what hayhooks shows, in its form.
func TestHayhooksSubmission(t *testing.T) {
	t.Parallel()
	r := start(t, func(s *setup) { s.idle = true })
	a := r.call("POST", "/ask/run-durable", `{"n": 1e400}`)
	e := r.hayhooks(a)
	self := "/ask/executions/" + e.ExecutionID
	if a.status != 202 || a.header.Get("Location") != self || a.header.Values("Idempotent-Replay") != nil {
		t.Errorf("%d %v", a.status, a.header)
	}
	links := contract.Links{Self: self, Cancel: self + "/cancel", Resume: self + "/resume", Stream: self + "/stream"}
	if diff := cmp.Diff(links, e.Links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	var members map[string]json.RawMessage
	r.must(json.Unmarshal([]byte(a.body), &members))
	want := []string{"attempt", "cancellation_requested_at", "created_at", "error", "execution_id", "links", "progress", "result", "sequence",
		"status", "updated_at", "waiting"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(members))); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if e.Status != "queued" || e.Attempt != 0 || e.Sequence != 1 || string(members["progress"]) != "[]" || string(members["result"]) != "null" {
		t.Errorf("%s", a.body)
	}
	if again := r.call("GET", self, ""); again.status != 200 || again.body != a.body {
		t.Errorf("read: %d %s, submitted %s", again.status, again.body, a.body)
	}
}

// The same key and the same input are the same execution, whatever order the input is written in, and no two numbers are the same that
// differ. A key counts as it is spelled.
func TestHayhooksKeys(t *testing.T) {
	t.Parallel()
	r := start(t)
	const input, key = `{"a":9007199254740993,"b":{"x":"é","y":[]}}`, "Idempotency-Key: k"
	submit := func(body string, headers ...string) reply {
		return r.call("POST", "/ask/run-durable", body, headers...)
	}
	first := r.hayhooks(submit(input, key))
	for _, same := range []string{input, `{ "b": {"y": [], "x": "\u00e9"}, "a": 9007199254740993 }`} {
		if a := submit(same, key); a.status != 202 || a.header.Get("Idempotent-Replay") != "true" || r.hayhooks(a).ExecutionID != first.ExecutionID {
			t.Errorf("%s: %d %v %s", same, a.status, a.header, a.body)
		}
	}
	for _, other := range []string{strings.Replace(input, "93", "92", 1), strings.Replace(input, "93", "93.0", 1), strings.Replace(input, "[]", "null", 1)} {
		r.tells(other, submit(other, key), 409, detail("The idempotency key was used with another body."))
	}
	if a := r.call("POST", submitPath("ask"), `{"input":`+input+`}`, key); r.problem(a).Code != "key_reused" {
		t.Errorf("by v1: %s", a.body)
	}
	for _, other := range []string{`Idempotency-Key: "k"`, "Idempotency-Key: K", "X: y"} {
		if a := submit(input, other); a.header.Get("Idempotent-Replay") != "" || r.hayhooks(a).ExecutionID == first.ExecutionID {
			t.Errorf("%s: %d %s", other, a.status, a.body)
		}
	}
	if a, b := r.hayhooks(submit("true")), r.hayhooks(submit("true")); a.ExecutionID == b.ExecutionID {
		t.Error("without a key, twice the same")
	}
	for name, wrong := range map[string][]string{
		"empty": {"Idempotency-Key: "}, "513 bytes": {"Idempotency-Key: " + strings.Repeat("k", 513)}, "two": {key, key},
	} {
		if a := submit(input, wrong...); a.status != 422 || !strings.HasPrefix(a.body, `{"detail":"`) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if a := submit(input, "Idempotency-Key: "+strings.Repeat("k", 512)); a.status != 202 {
		t.Errorf("512 bytes: %d %s", a.status, a.body)
	}
}

// A replay of what has ended is answered with 200.
func TestHayhooksReplayOfTheEnd(t *testing.T) {
	t.Parallel()
	r := start(t)
	e := r.durable("echo", "[1.0]", "Idempotency-Key: k")
	r.await(pathOf(e.ExecutionID), execution.Completed)
	a := r.call("POST", "/echo/run-durable", "[1.0]", "Idempotency-Key: k")
	if a.status != 200 || a.header.Get("Idempotent-Replay") != "true" || a.header.Get("Location") != e.Links.Self || string(r.hayhooks(a).Result) != "[1.0]" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
}

// A request that is not valid is told so with 422, as a list of places where the body is meant.
func TestHayhooksInvalid(t *testing.T) {
	t.Parallel()
	r := start(t)
	for name, test := range map[string]struct {
		path, body string
		headers    []string
		want       string
	}{
		"no body":        {"/echo/run-durable", "", nil, `{"detail":[{"type":"missing","loc":["body"],"msg":"Field required"}]}`},
		"not JSON":       {"/echo/run-durable", `{"a":nope}`, nil, `{"detail":[{"type":"json_invalid","loc":["body",6],"msg":"The document is not valid JSON."}]}`},
		"schema":         {"/typed/run-durable", `{"n":"x"}`, nil, `{"detail":[{"type":"type","loc":["body","n"],"msg":"must be an integer, not a string"}]}`},
		"body too large": {"/echo/run-durable", `"` + strings.Repeat("x", testBody) + `"`, nil, detail("The body must have at most 2000 bytes.")},
		"too large":      {"/echo/run-durable", `"` + strings.Repeat("x", testInput) + `"`, nil, detail("The input has 1502 bytes, the limit is 1500.")},
		"media type":     {"/echo/run-durable", "1", []string{"Content-Type: text/plain"}, detail("The body must be of the media type application/json.")},
		"too deep":       {"/echo/run-durable", strings.Repeat("[", testDepth+1) + strings.Repeat("]", testDepth+1), nil, ""},
		"id":             {"/echo/executions/a.b/resume", "1", nil, detail("The id of an execution has 1 to 128 letters, digits, dashes and underscores.")},
		"long id":        {"/echo/executions/" + strings.Repeat("a", 129) + "/cancel", "", nil, detail("The id of an execution has 1 to 128 letters, digits, dashes and underscores.")},
	} {
		a := r.call("POST", test.path, test.body, test.headers...)
		if test.want != "" {
			r.tells(name, a, 422, test.want)
		} else if a.status != 422 || !strings.Contains(a.body, `"type":"json_invalid"`) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if unfinished, changes := r.stored(); unfinished != 0 || changes != 0 {
		t.Errorf("%d executions and %d exchanges", unfinished, changes)
	}
	if a := r.call("POST", "/echo/run-durable", strings.Repeat("[", testDepth)+strings.Repeat("]", testDepth)); a.status != 202 {
		t.Errorf("as deep as may be: %d %s", a.status, a.body)
	}
}

// Errors have hayhooks' statuses and texts, and say when to come back only where hayhooks does.
func TestHayhooksErrors(t *testing.T) {
	t.Parallel()
	panics, corrupt := &breaking{}, &breaking{err: execution.Errorf(execution.CodeCorrupt, "secret")}
	get, submit := hayhooksRequests()["hayhooksGet"], hayhooksRequests()["hayhooksSubmit"]
	for name, test := range map[string]struct {
		change func(*setup)
		ask    func(r *rig) reply
		status int
		detail string
		retry  string
	}{
		"absent":             {nil, func(r *rig) reply { return get.ask(r) }, 404, "Execution not found", ""},
		"a name of v1":       {nil, func(r *rig) reply { return r.call("POST", "/v1/run-durable", "1") }, 404, "Not Found", ""},
		"unknown deployment": {nil, func(r *rig) reply { return r.call("POST", "/nobody/run-durable", "1") }, 404, "Not Found", ""},
		"other method":       {nil, func(r *rig) reply { return r.call("PUT", "/echo/run-durable", "1") }, 405, "Method Not Allowed", ""},
		"not waiting": {nil, func(r *rig) reply { return r.call("POST", r.reaching("hold", "1", execution.Running)+"/resume", "1") },
			409, "The execution is running and waits for no answer.", ""},
		"corrupt":        {corrupt.wrap, func(r *rig) reply { corrupt.broken.Store(true); return get.ask(r) }, 500, "Durable execution state is invalid", ""},
		"store, read":    {nil, func(r *rig) reply { r.store.Cut(); return get.ask(r) }, 503, "Durable execution store is unavailable", ""},
		"store, written": {nil, func(r *rig) reply { r.store.Cut(); return submit.ask(r) }, 503, "Durable execution store is unavailable", ""},
		"panic":          {panics.wrap, func(r *rig) reply { panics.broken.Store(true); return get.ask(r) }, 503, "Durable execution service is unavailable", ""},
		"full": {func(s *setup) { s.idle = true }, func(r *rig) reply {
			for range 3 {
				r.durable("echo", "1")
			}
			return submit.ask(r)
		}, 503, "", "1"},
		"draining": {nil, func(r *rig) reply { r.runtime.Quiesce(); return submit.ask(r) }, 503, "This process shuts down and takes no more work.", "1"},
		"token":    {withKeys, func(r *rig) reply { return get.ask(r) }, 401, "The header Authorization is missing.", ""},
		"scope":    {withKeys, func(r *rig) reply { return get.ask(r, as(only("submit"))) }, 403, "This takes a token with the scope read.", ""},
	} {
		var changes []func(*setup)
		if test.change != nil {
			changes = append(changes, test.change)
		}
		r := start(t, changes...)
		a := test.ask(r)
		if test.detail == "" && a.status == test.status && strings.HasPrefix(a.body, `{"detail":"`) {
			test.detail = strings.TrimSuffix(strings.TrimPrefix(a.body, `{"detail":"`), `"}`)
		}
		r.tells(name, a, test.status, detail(test.detail))
		if got := a.header.Get("Retry-After"); got != test.retry || strings.Contains(a.body, "secret") {
			t.Errorf("%s: Retry-After %q, want %q; %s", name, got, test.retry, a.body)
		}
	}
}

// An execution of another deployment is not there, by no route, and is not changed.
func TestHayhooksOtherDeployment(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.reaching("ask", "true", execution.Waiting)
	before := r.call("GET", path, "").body
	other := strings.Replace(path, "/ask/", "/echo/", 1)
	for _, a := range []reply{r.call("GET", other, ""), r.call("POST", other+"/cancel", ""), r.call("POST", other+"/resume", "1"),
		r.call("GET", other+"/stream", ""), r.call("GET", strings.Replace(path, "/ask/", "/nobody/", 1), "")} {
		r.tells("as another's", a, 404, detail("Execution not found"))
	}
	if after := r.call("GET", path, "").body; after != before {
		t.Errorf("%s became %s", before, after)
	}
}

// A request to stop takes no reason, whatever it brings, and can be repeated.
func TestHayhooksCancel(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.reaching("hold", "1", execution.Running)
	a := r.call("POST", path+"/cancel", `{"reason": [`, "Content-Type: text/plain")
	if e := r.hayhooks(a); a.status != 202 || e.Status != "running" || e.CancellationRequestedAt == nil {
		t.Errorf("running: %d %s", a.status, a.body)
	}
	if e := r.await(pathOf(path[len("/hold/executions/"):]), execution.Canceled); e.Status != "canceled" {
		t.Errorf("it is %s", e.Status)
	}
	if a := r.call("POST", path+"/cancel", ""); a.status != 200 || r.hayhooks(a).Status != "canceled" {
		t.Errorf("again: %d %s", a.status, a.body)
	}
}

// The body of an answer is the answer; none is null. What the wait asks for is shown without its deadline.
func TestHayhooksResume(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.reaching("ask", `{"type":"string"}`, execution.Waiting)
	a := r.call("GET", path, "")
	r.has(a, `"waiting":{"expected_input_schema":{"type":"string"},"kind":"approval","message":"<\"Ship\" & go?>"}`)
	r.tells("wrong", r.call("POST", path+"/resume", "1"), 422, `{"detail":[{"type":"type","loc":["body"],"msg":"must be a string, not a number"}]}`)
	r.tells("none", r.call("POST", path+"/resume", ""), 422, `{"detail":[{"type":"type","loc":["body"],"msg":"must be a string, not null"}]}`)
	a = r.call("POST", path+"/resume", `"yes"`, "Idempotency-Key: k")
	if e := r.hayhooks(a); a.status != 202 || e.Status != "queued" || e.Waiting != nil {
		t.Errorf("%d %s", a.status, a.body)
	}
	if again := r.call("POST", path+"/resume", `"yes"`, "Idempotency-Key: k"); again.status != 202 || again.header.Get("Idempotent-Replay") != "true" {
		t.Errorf("repeated: %d %s", again.status, again.body)
	}
	r.tells("with the key", r.call("POST", path+"/resume", `"no"`, "Idempotency-Key: k"), 409, detail("The idempotency key was used with another body."))
	if a := r.call("POST", path+"/resume", `"yes"`); a.status != 409 {
		t.Errorf("without a key, again: %d %s", a.status, a.body)
	}
	open := r.reaching("ask", "true", execution.Waiting)
	if a := r.call("POST", open+"/resume", ""); a.status != 202 {
		t.Errorf("none, where any will do: %d %s", a.status, a.body)
	}
	if e := r.await(pathOf(open[len("/ask/executions/"):]), execution.Completed); string(e.Result) != "null" {
		t.Errorf("the answer was %s", e.Result)
	}
}

// listening keeps the answers that a store is asked to apply.
type listening struct {
	store.Store
	mu      sync.Mutex
	answers []store.ResumeRequest // guarded by mu
}

func (l *listening) Resume(ctx context.Context, q store.ResumeRequest) (store.Resumed, error) {
	l.mu.Lock()
	l.answers = append(l.answers, q)
	l.mu.Unlock()
	return l.Store.Resume(ctx, q)
}

// An answer names the wait that was open when it came, so that it never answers another.
func TestHayhooksAnswersOneWait(t *testing.T) {
	t.Parallel()
	l := &listening{}
	r := start(t, func(s *setup) {
		s.wrap = func(inner store.Store) store.Store { l.Store = inner; return l }
	})
	path := r.reaching("ask", "true", execution.Waiting)
	e := r.hayhooks(r.call("GET", path, ""))
	r.call("POST", path+"/resume", "1")
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.answers) == 0 || l.answers[0].Sequence != e.Sequence {
		t.Errorf("%+v, want the wait %d", l.answers, e.Sequence)
	}
}

// What an author tells shows with its metadata, and a failure with its error.
func TestHayhooksProgressAndError(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.release <- struct{}{}
	told := r.hayhooks(r.call("GET", r.reaching("tell", "[1e400]", execution.Completed), ""))
	if len(told.Progress) != 1 || told.Progress[0].Kind != "told" || string(told.Progress[0].Metadata) != "[1e400]" || told.Progress[0].Sequence != 1 {
		t.Errorf("%+v", told.Progress)
	}
	a := r.call("GET", r.reaching("fail", "1", execution.Failed), "")
	r.has(a, `"error":{"type":"Broken","code":"broken","message":"<No & no>","retryable":true}`, `"result":null`)
}

// A stream begins with a heartbeat, has ids on chunks only, names what hayhooks names, and goes on after each id.
func TestHayhooksStream(t *testing.T) {
	t.Parallel()
	r := start(t)
	e := r.durable("flood", "3")
	r.await(pathOf(e.ExecutionID), execution.Completed)
	a := r.call("GET", e.Links.Stream, "")
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	frames := strings.Split(strings.TrimSuffix(a.body, "\n\n"), "\n\n")
	if frames[0] != ": heartbeat" || strings.Contains(a.body, "retry:") {
		t.Errorf("begins with %q", frames[0])
	}
	frames = slices.DeleteFunc(frames, func(frame string) bool { return frame == ": heartbeat" })
	chunk := regexp.MustCompile(`^id: (\d{1,20}-\d{1,20})\nevent: chunk\ndata: {"attempt":1,"payload":"x+"}$`)
	var ids []string
	for i, frame := range frames[:len(frames)-1] {
		found := chunk.FindStringSubmatch(frame)
		if found == nil {
			t.Fatalf("frame %d is %.200q", i, frame)
		}
		ids = append(ids, found[1])
	}
	last := frames[len(frames)-1]
	if want := "event: completed\ndata: " + r.call("GET", e.Links.Self, "").body; last != want || len(ids) != 3 {
		t.Errorf("%d chunks, then %q, want %q", len(ids), last, want)
	}
	for i, id := range ids {
		got := outline(r.hayhooksEvents(e, id))
		want := slices.Concat(outline(r.hayhooksEvents(e, "0-0"))[i+1:3], []string{"completed"})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", id, diff)
		}
	}
	if got := r.hayhooksEvents(e, "1-0"); len(got) != 5 || got[0].Name != "gap" || got[0].Data != detail("Requested stream history is no longer available") {
		t.Errorf("after what is gone: %v", outline(got))
	}
	if got := r.hayhooksEvents(e, "18446744073709551615-18446744073709551615"); len(got) != 5 || got[0].Name != "gap" {
		t.Errorf("after what never was: %v", outline(got))
	}
	if sent := r.metrics.eventsSent(); sent["status"] != 0 || sent["gap"] != 2 {
		t.Errorf("counted %v", sent)
	}
	for _, wrong := range []string{"", "x", "1", "1-", "-1", "1-2-3", "1-x", "18446744073709551616-0", "000000000000000000001-0", "5-end"} {
		if a := r.call("GET", e.Links.Stream, "", "Last-Event-ID: "+wrong); a.status != 422 || !strings.HasPrefix(a.body, `{"detail":"`) {
			t.Errorf("Last-Event-ID %q: %d %s", wrong, a.status, a.body)
		}
	}
}

// hayhooksEvents follows an execution from a place to its end.
func (r *rig) hayhooksEvents(e contract.HayhooksExecution, from string) []sse.Event {
	r.Helper()
	response := r.open("GET", e.Links.Stream, "", "Last-Event-ID: "+from)
	defer response.Body.Close()
	return r.read(response, "")
}

// Heartbeats come in silence, and at a shutdown the stream just ends.
func TestHayhooksSilence(t *testing.T) {
	t.Parallel()
	r := start(t, func(s *setup) { s.hub = stream.Params{Keepalive: 10 * time.Millisecond} })
	path := r.reaching("hold", "1", execution.Running)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.server.URL+path+"/stream", http.NoBody)
	r.must(err)
	response, err := r.server.Client().Do(request) // not held against the contract, by which a stream that is whole has an end
	r.must(err)
	defer response.Body.Close()
	const beats = 5
	begin := make([]byte, beats*len(": heartbeat\n\n"))
	_, err = io.ReadFull(response.Body, begin)
	r.must(err)
	r.hub.Close()
	rest, err := io.ReadAll(response.Body)
	r.must(err)
	if all := string(begin) + string(rest); strings.ReplaceAll(all, ": heartbeat\n\n", "") != "" {
		t.Errorf("%q", all)
	}
}

// Whose an execution is, is the token's to say. Another owner's key is another key.
func TestHayhooksOwners(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys)
	key := "Idempotency-Key: k"
	a, b := r.durable("ask", `{"owner":"b"}`, key, as(ann)), r.durable("ask", `{"owner":"b"}`, key, as(bob))
	if a.ExecutionID == b.ExecutionID {
		t.Error("two owners have one execution")
	}
	for _, path := range []string{a.Links.Self, a.Links.Stream} {
		r.tells("another's", r.call("GET", path, "", as(bob)), 404, detail("Execution not found"))
	}
	if got := r.call("GET", a.Links.Self, "", as(ann)); got.status != 200 {
		t.Errorf("its own: %d %s", got.status, got.body)
	}
	r.tells("not its deployment", r.call("POST", "/ask/run-durable", "1", as(echoes)), 404, detail("Not Found"))
}

// The routes of v1 come before those of a deployment of that name, which there is none of.
func TestHayhooksBesideV1(t *testing.T) {
	t.Parallel()
	r := start(t)
	e := r.durable("echo", "1")
	if got := r.projection(r.call("GET", pathOf(e.ExecutionID), "")); got.Deployment != "echo" {
		t.Errorf("%+v", got)
	}
	if got := r.problem(r.call("GET", possible, "")); got.Code != "not_found" {
		t.Errorf("%+v", got)
	}
	if a := r.call("PUT", possible+"/cancel", ""); a.header.Get("Allow") != "POST" || r.problem(a).Code != "method_not_allowed" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
}

// A server may be run without.
func TestWithoutHayhooks(t *testing.T) {
	t.Parallel()
	r := start(t, func(s *setup) { s.api.Hayhooks = false })
	r.client = r.server.Client() // the contract has the routes
	for operation, request := range hayhooksRequests() {
		if a := request.ask(r); a.status != 404 || r.problem(a).Code != "no_such_route" {
			t.Errorf("%s: %d %s", operation, a.status, a.body)
		}
	}
}
