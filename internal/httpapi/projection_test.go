package httpapi

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// fullRecord is an execution that has everything that one can have at once.
func fullRecord(status execution.Status) store.Record {
	event := []byte(`{"sequence":1,"kind":"k","message":"m","timestamp":"2026-03-01T09:30:00.000Z","metadata":{"a":[]}}`)
	return store.Record{
		Control: execution.Control{ID: "4YtGzq0XnJ2rVb8mKd7Lw1Qs", Deployment: "story", Revision: "r1", Status: status, Attempt: 2, Labels: "a/b=\"c\"\nd=",
			Version: 9, CanceledAt: 1_700_000_000_001, AvailableAt: 1_700_000_000_002, WaitUntil: 1_700_000_000_003,
			CreatedAt: 1_700_000_000_004, UpdatedAt: 1_700_000_000_005},
		Progress: [][]byte{event, event, event},
		Result:   []byte(`{"n":1e400}`),
		Error:    []byte(`{"type":"T","code":"c","message":"m","retryable":false}`),
		Wait:     []byte(`{"kind":"k","message":"m","expected_input_schema":{"type":"string"},"default":"secret"}`),
		Reason:   []byte("no \"more\""),
	}
}

// The projection is the contract's type as an encoder would write it, but for the order of members: each payload stands only
// where the status gives it a meaning.
func TestProjectionIsTheContract(t *testing.T) {
	t.Parallel()
	for _, status := range []execution.Status{execution.Queued, execution.Running, execution.Waiting, execution.Completed,
		execution.Failed, execution.Canceled} {
		record := fullRecord(status)
		record.Reason = append(record.Reason, 0xff) // no UTF-8
		raw, err := projectionOf(record)
		if err != nil || bytes.Contains(raw, []byte("secret")) {
			t.Fatalf("%s: %s (%v)", status, raw, err)
		}
		var got contract.Execution
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&got); err != nil {
			t.Fatalf("%s: %v", status, err)
		}
		shown := map[string]bool{"result": string(got.Result) != "null", "error": got.Error != nil, "waiting": got.Waiting != nil}
		want := map[string]bool{"result": status == execution.Completed, "waiting": status == execution.Waiting,
			"error": status == execution.Failed || status == execution.Queued}
		if diff := cmp.Diff(want, shown); diff != "" {
			t.Errorf("%s shows (-want +got):\n%s", status, diff)
		}
		if string(got.Status) != string(status) || got.Sequence != 9 || got.Attempt != 2 || len(got.Progress) != 3 ||
			got.CancellationRequestedAt.UnixMilli() != 1_700_000_000_001 || *got.CancellationReason != "no \"more\"\uFFFD" ||
			len(got.Labels) != 2 || got.Labels["a/b"] != `"c"` {
			t.Errorf("%s: %+v", status, got)
		}
	}
}

// What waits with a wait that can't be read can't be shown.
func TestProjectionOfUnreadableWait(t *testing.T) {
	t.Parallel()
	r := fullRecord(execution.Waiting)
	r.Wait = []byte("{")
	if raw, err := projectionOf(r); err == nil {
		t.Errorf("shown as %s", raw)
	}
	r.Control.Status = execution.Completed
	if _, err := projectionOf(r); err != nil {
		t.Error(err)
	}
}

// A projection costs one piece of memory, and one for each time in it. Not parallel: it counts allocations.
func TestBudgetProjection(t *testing.T) {
	for status, most := range map[execution.Status]float64{execution.Completed: 5, execution.Failed: 5, execution.Waiting: 20} {
		r := fullRecord(status)
		got := testing.AllocsPerRun(100, func() {
			if _, err := projectionOf(r); err != nil {
				t.Fatal(err)
			}
		})
		if got > most {
			t.Errorf("%s: %.0f allocations, at most %.0f", status, got, most)
		}
	}
}

func BenchmarkProjection(b *testing.B) {
	for _, status := range []execution.Status{execution.Completed, execution.Waiting} {
		b.Run(string(status), func(b *testing.B) {
			r := fullRecord(status)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := projectionOf(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
