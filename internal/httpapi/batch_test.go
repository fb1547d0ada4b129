package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store/faultstore"
)

// batch submits items and returns what they came to.
func (r *rig) batch(deployment string, items []string, headers ...string) []contract.BatchResult {
	r.Helper()
	a := r.call("POST", submitPath(deployment)+"/batch", `{"items":[`+strings.Join(items, ",")+`]}`, headers...)
	if a.status != http.StatusOK {
		r.Fatalf("%d %s", a.status, a.body)
	}
	var got contract.BatchResponse
	r.must(json.Unmarshal([]byte(a.body), &got))
	if len(got.Results) != len(items) {
		r.Fatalf("%d results for %d items", len(got.Results), len(items))
	}
	return got.Results
}

// Each item comes to what it would have come to alone, in the order of the items; none fails another.
func TestBatchIsAsSingles(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys)
	single := r.projection(r.call("POST", submitPath("typed"), `{"input":{"n":1}}`, as(ann), "Idempotency-Key: k"))
	deep := strings.Repeat("[", testDepth) + strings.Repeat("]", testDepth)
	got := r.batch("typed", []string{
		`{"submission":{"input":{"n":2}}}`, `{"idempotency_key":"k","submission":{"input":{"n":1}}}`,
		`{"submission":{"input":{"n":1}},"idempotency_key":"k"}`, `{"submission":{"input":{"n":3}},"idempotency_key":"k"}`,
		`{"submission":{"input":{"n":"x"}}}`, `{"submission":{"input":{"n":2},"prio":1}}`, `{"submission":{"input":{"n":2},"owner":"b"}}`,
		`{"submission":{"input":{"n":2}},"idempotency_key":""}`, `{"submission":{"input":{"n":2}},"idempotency_key":"\u0000"}`,
		`{"submission":{"input":{"n":2}},"idempotency_key":"` + strings.Repeat("é", 257) + `"}`, `{"submission":{"input":{"n":2}},"key":"k"}`,
		`{}`, `7`, `{"submission":[]}`, `{"submission":{}}`, `{"submission":{"input":` + deep + `}}`, `{"submission":{"input":{"n":4}}}`,
	}, as(ann))
	want := []string{"202", "202 replayed", "202 replayed", "422 key_reused ", "422 invalid_input /input/n", "400 invalid_request /prio",
		"403 forbidden ", "400 invalid_idempotency_key ", "400 invalid_idempotency_key ", "400 invalid_idempotency_key ",
		"400 invalid_request /key", "400 invalid_request ", "400 invalid_json ", "400 invalid_json ", "400 invalid_request ",
		"422 invalid_input /input", "202"}
	for i, result := range got {
		if text := brief(result); text != want[i] {
			t.Errorf("item %d: %s, want %s", i, text, want[i])
		}
		if result.Replayed && result.Execution.ExecutionID != single.ExecutionID {
			t.Errorf("item %d is another execution", i)
		}
		if result.Problem != nil && !strings.HasPrefix(result.Problem.Instance, "urn:windrow:request:") {
			t.Errorf("item %d: %+v", i, result.Problem)
		}
	}
	for i, n := range map[int]string{0: "2", 16: "4"} {
		r.token = ann
		r.await(got[i].Execution.Links.Self, execution.Completed)
		if a := r.call("GET", got[i].Execution.Links.Self+"/result", ""); a.body != n {
			t.Errorf("item %d came to %s", i, a.body)
		}
		if a := r.call("GET", got[i].Execution.Links.Self, "", as(bob)); a.status != 404 {
			t.Errorf("another owner sees item %d", i)
		}
	}
}

func brief(r contract.BatchResult) string {
	text := fmt.Sprint(r.Status)
	switch {
	case r.Replayed:
		text += " replayed"
	case r.Problem != nil:
		text += " " + string(r.Problem.Code) + " "
		if len(r.Problem.Errors) > 0 {
			text += r.Problem.Errors[0].Pointer
		}
	}
	return text
}

// A batch that can't be taken on as a whole stores nothing.
func TestBadBatches(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys)
	items := func(n int) string {
		return `{"items":[` + strings.TrimSuffix(strings.Repeat(`{"submission":{"input":1}},`, n), ",") + `]}`
	}
	for body, code := range map[string]string{
		items(0): "invalid_request", items(101): "too_large", `{"items":{}}`: "invalid_request", `{"items":null}`: "invalid_request",
		`{"items":[{"submission":{"input":{"a":1,"a":2}}}]}`: "invalid_json", `{"items":[],"more":1}`: "invalid_request", `[]`: "invalid_json",
		`{"items":[{"submission":{"input":` + strings.Repeat("[", testDepth+1) + strings.Repeat("]", testDepth+1) + `}}]}`: "invalid_json",
	} {
		if a := r.call("POST", submitPath("echo")+"/batch", body, as(boss)); string(r.problem(a).Code) != code {
			t.Errorf("%.50s: %d %s", body, a.status, a.body)
		}
	}
	if a := r.call("POST", submitPath("ask")+"/batch", items(1), as(echoes)); a.status != 404 {
		t.Errorf("another deployment: %d", a.status)
	}
	if unfinished, changes := r.stored(); unfinished+int64(changes) != 0 {
		t.Errorf("%d executions, %d exchanges", unfinished, changes)
	}
}

// A full batch keeps its order, goes beside itself in a bounded way, and finds the ceiling where it stands.
func TestFullBatch(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		const delay = time.Second
		r.store.Inject(faultstore.Submit, faultstore.Fault{Delay: delay})
		var items []string
		for i := range maxBatch {
			items = append(items, fmt.Sprintf(`{"submission":{"input":%d}}`, i))
		}
		began := time.Now()
		got := r.batch("ask", items)
		if took, want := time.Since(began), delay*((maxBatch+batchWidth-1)/batchWidth); took != want {
			r.Errorf("took %v, want %v", took, want)
		}
		r.store.Heal()
		for i, result := range got {
			if brief(result) != "202" {
				r.Errorf("item %d: %s", i, brief(result))
				continue
			}
			if a := r.call("GET", result.Execution.Links.Self+"/input", ""); a.body != fmt.Sprint(i) {
				r.Errorf("item %d has the input %s", i, a.body)
			}
		}
		if a := r.call("POST", submitPath("ask")+"/batch", `{"items":[`+strings.Join(append(items, items[0]), ",")+`]}`); a.status != 400 ||
			r.problem(a).Limit != maxBatch {
			r.Errorf("one too many: %d %s", a.status, a.body)
		}
		refused := 0
		for _, result := range r.batch("echo", items[:20]) {
			if brief(result) == "503 capacity_reached " {
				refused++
			}
		}
		if refused != 17 {
			r.Errorf("%d were refused beyond a ceiling of three", refused)
		}
	}, func(s *setup) { s.idle, s.api.BodyBytes = true, 100_000 })
}

// A store that does not answer, or that panics, costs an item no more than itself, and the batch no more than its time.
func TestBatchOnBrokenStore(t *testing.T) {
	t.Parallel()
	b := &breaking{}
	r := start(t, b.wrap)
	b.broken.Store(true)
	for i, result := range r.batch("echo", []string{`{"submission":{"input":1}}`, `{"submission":{}}`}) {
		if want := []string{"500 internal ", "400 invalid_request "}[i]; brief(result) != want {
			t.Errorf("panics: %s", brief(result))
		}
	}
	b.broken.Store(false)
	r.store.Cut()
	if got := brief(r.batch("echo", []string{`{"submission":{"input":1}}`})[0]); got != "503 unconfirmed " {
		t.Errorf("cut: %s", got)
	}
}

// Every item counts as a request.
func TestBatchRate(t *testing.T) {
	t.Parallel()
	r := start(t, withKeys, func(s *setup) { s.idle, s.api.Limits = true, Limits{Rate: 1, Burst: 3} })
	three := []string{`{"submission":{"input":1}}`, `{"submission":{"input":1}}`, `{"submission":{"input":1}}`}
	r.batch("ask", three, as(ann))
	a := r.call("POST", submitPath("ask")+"/batch", `{"items":[`+strings.Join(three[:2], ",")+`]}`, as(bob))
	if a.status != 200 || a.header.Get(rateHeader) != `"requests";r=1;t=2` {
		t.Errorf("%d %v", a.status, a.header)
	}
	a = r.call("POST", submitPath("ask")+"/batch", `{"items":[`+strings.Join(three, ",")+`,`+three[0]+`]}`, as(boss))
	if a.status != 429 {
		t.Errorf("more than may be: %d", a.status)
	}
	if unfinished, _ := r.stored(); unfinished != 5 {
		t.Errorf("%d executions", unfinished)
	}
}
