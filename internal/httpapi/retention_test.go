package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
)

// Who submits with a key is told how long it lives, and everybody when an ended execution goes. Clients of hayhooks know neither.
func TestRetentionIsTold(t *testing.T) {
	t.Parallel()
	r := start(t)
	const body = `{"input":{"n":7}}`
	seconds := int64(testRetention / time.Second)
	first := r.projection(r.call("POST", submitPath("typed"), body, "Idempotency-Key: k"))
	if first.KeyRetention == nil || *first.KeyRetention != seconds || first.ExpiresAt != nil {
		t.Errorf("submitted: %+v", first)
	}
	ended := r.await(r.reaches(first.Links.Self, execution.Completed), execution.Completed)
	if ended.KeyRetention != nil || ended.ExpiresAt == nil || ended.ExpiresAt.Sub(ended.UpdatedAt.Time) != testRetention {
		t.Errorf("ended: %+v", ended)
	}
	again := r.call("POST", submitPath("typed"), body, "Idempotency-Key: k")
	if e := r.projection(again); *e.KeyRetention != seconds || !e.ExpiresAt.Equal(ended.ExpiresAt.Time) {
		t.Errorf("replayed: %s", again.body)
	}
	waited := r.call("POST", submitPath("typed"), `{"input":{"n":8}}`, "Idempotency-Key: w", "Prefer: wait=60")
	if e := r.projection(waited); waited.status != http.StatusOK || *e.KeyRetention != seconds || e.ExpiresAt == nil {
		t.Errorf("waited for: %d %s", waited.status, waited.body)
	}
	if e := r.projection(r.call("POST", submitPath("typed"), body)); e.KeyRetention != nil {
		t.Errorf("without a key: %+v", e)
	}
	items := r.batch("typed", []string{`{"idempotency_key":"b","submission":` + body + `}`, `{"submission":` + body + `}`})
	if with, without := items[0].Execution.KeyRetention, items[1].Execution.KeyRetention; with == nil || *with != seconds || without != nil {
		t.Errorf("in a batch: %v and %v", with, without)
	}
	if a := r.call("GET", "/typed/executions/"+first.ExecutionID, ""); strings.Contains(a.body, "expires") || strings.Contains(a.body, "retention") {
		t.Errorf("hayhooks: %s", a.body)
	}
}
