package hayhooks_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/httpapi/hayhooks"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/stream"
)

// What is one of the routes speaks hayhooks' language, and nothing else does.
func TestSpeaks(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/a/run-durable", "/v1/run-durable", "/a/executions/1", "/a/executions/1/cancel", "/a/executions/1/resume",
		"/a/executions/1/stream", "/run-durable/run-durable"} {
		if !hayhooks.Speaks(path) {
			t.Errorf("%s is not one of them", path)
		}
	}
	for _, path := range []string{"", "/", "/a", "/a/", "//run-durable", "/a/run-durable/", "/a/run-durable/x", "/a/executions", "/a/executions/",
		"/a//executions", "/v1/executions/1", "/v1/executions/1/cancel", "/v1/executions/1/stream", "/v1/deployments/a/executions",
		"/a/executions/1/history", "/a/executions/1/cancel/x", "/status", "/a/status/1"} {
		if hayhooks.Speaks(path) {
			t.Errorf("%s is one of them", path)
		}
	}
}

// A place comes back as it was given out, and places of one log grow as its events do.
func TestIDs(t *testing.T) {
	t.Parallel()
	for _, c := range []execution.Cursor{
		{Entry: execution.LogID{Ms: 1}},
		{Entry: execution.LogID{Ms: 1796037400001, Seq: 7}, Chunk: execution.MaxBatchChunks - 1},
		{Entry: execution.LogID{Ms: 1<<64 - 1, Seq: 1<<50 - 1}, Chunk: 1},
	} {
		if got, err := hayhooks.ParseID(hayhooks.ID(c)); err != nil || got != c {
			t.Errorf("%s is %+v (%v), want %+v", hayhooks.ID(c), got, err, c)
		}
	}
	last := hayhooks.ID(execution.Cursor{Entry: execution.LogID{Ms: 5, Seq: 1}, Chunk: execution.MaxBatchChunks - 1})
	next := hayhooks.ID(execution.Cursor{Entry: execution.LogID{Ms: 5, Seq: 2}})
	a, _ := execution.ParseLogID(last)
	if b, err := execution.ParseLogID(next); err != nil || !a.Less(b) {
		t.Errorf("%s does not come before %s", last, next)
	}
}

// What a key is bound to says the same of two bodies that mean the same, and differs for two that do not.
func TestBinding(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"b":[2,1],"a":{"d":1,"c":"\u00e9\/"}}`: `{"hayhooks":{"a":{"c":"é/","d":1},"b":[2,1]}}`,
		`9007199254740993`:                       `{"hayhooks":9007199254740993}`,
		`[1.0,1e400,-0]`:                         `{"hayhooks":[1.0,1e400,-0]}`,
	} {
		given := []byte(body)
		if got, err := hayhooks.Binding(given); err != nil || string(got) != want || string(given) != body {
			t.Errorf("%s: %s (%v), want %s", body, got, err, want)
		}
	}
}

// Failures of the runtime have hayhooks' names. The author's have their own.
func TestFailures(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		execution.FailureLeaseLost:        `{"type":"RunAttemptsExhaustedError","code":"run_attempts_exhausted","message":"m","retryable":false}`,
		execution.FailureRetriesExhausted: `{"type":"ApplicationRetriesExhaustedError","code":"application_retries_exhausted","message":"m","retryable":false}`,
		execution.FailureStoredInvalid:    `{"type":"ExecutionStoreCorruptionError","code":"stored_execution_invalid","message":"m","retryable":false}`,
		execution.FailureTooLarge:         `{"type":"T","code":"payload_too_large","message":"m","retryable":false}`,
		"broken":                          `{"type":"T","code":"broken","message":"m","retryable":false}`,
	} {
		stored := execution.Failure{Type: "T", Code: code, Message: "m"}.Encode()
		if got := shown(t, execution.Failed, stored); !strings.Contains(got, `"error":`+want) {
			t.Errorf("%s shows as %s", code, got)
		}
	}
	pending := execution.Failure{Type: "T", Code: "broken", Message: "m"}.Encode()
	if got, want := shown(t, execution.Queued, pending), `"error":{"type":"RetryRequestedError","code":"broken","message":"m","retryable":true}`; !strings.Contains(got, want) {
		t.Errorf("a pending retry shows as %s", got)
	}
	for _, status := range []execution.Status{execution.Running, execution.Completed, execution.Canceled} {
		if got := shown(t, status, pending); !strings.Contains(got, `"error":null`) {
			t.Errorf("%s: %s", status, got)
		}
	}
	if got := shown(t, execution.Queued, nil); !strings.Contains(got, `"error":null`) {
		t.Errorf("without an error: %s", got)
	}
}

func shown(t *testing.T, status execution.Status, failure []byte) string {
	t.Helper()
	record := store.Record{Control: execution.Control{ID: "i", Deployment: "d", Status: status}, Error: failure,
		Progress: [][]byte{[]byte(`{"sequence":1,"kind":"k","message":"m","timestamp":"t"}`), []byte(`{"sequence":2,"metadata":[]}`)}}
	got, err := hayhooks.Projection(record)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(got), `[{"sequence":1,"kind":"k","message":"m","timestamp":"t","metadata":{}},{"sequence":2,"metadata":[]}]`) {
		t.Errorf("progress in %s", got)
	}
	return string(got)
}

// A viewer that begins is not told of a history that it did not ask for, unless something follows; one that goes on is. What has no
// event is a heartbeat.
func TestTeller(t *testing.T) {
	t.Parallel()
	gap, end := &stream.Gap{}, &stream.End{Record: store.Record{Control: execution.Control{Status: execution.Canceled}}}
	chunk := &stream.Chunk{Attempt: 2, Payload: []byte("1e400")}
	for name, test := range map[string]struct {
		resumed bool
		events  []stream.Event
		want    []string
	}{
		"begins, nothing left": {false, []stream.Event{&stream.Opened{}, gap, end}, []string{"", "", "canceled"}},
		"begins, some left":    {false, []stream.Event{gap, chunk, gap, end}, []string{"", "chunk", "gap", "canceled"}},
		"goes on":              {true, []stream.Event{gap, end}, []string{"gap", "canceled"}},
		"silent":               {true, []stream.Event{&stream.Status{}, &stream.Progress{}, &stream.Keepalive{}}, []string{"", "", ""}},
		"slow":                 {true, []stream.Event{&stream.Interrupted{Reason: stream.ReasonSlow}}, []string{"error"}},
		"erased":               {true, []stream.Event{&stream.Interrupted{Reason: stream.ReasonErased}}, []string{"error"}},
	} {
		teller := hayhooks.Teller{Resumed: test.resumed}
		var names []string
		for _, event := range test.events {
			frames, name := teller.Tell(event)
			names = append(names, name)
			if heartbeat := string(frames) == ": heartbeat\n\n"; heartbeat != (name == "") {
				t.Errorf("%s: %q with the name %q", name, frames, name)
			}
		}
		if diff := cmp.Diff(test.want, names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	var teller hayhooks.Teller
	teller.Tell(gap)
	const both = "event: gap\ndata: {\"detail\":\"Requested stream history is no longer available\"}\n\n" +
		"id: 0-0\nevent: chunk\ndata: {\"attempt\":2,\"payload\":1e400}\n\n"
	if frames, _ := teller.Tell(chunk); string(frames) != both {
		t.Errorf("told %q, want %q", frames, both)
	}
	if frames, name := teller.Tell(&stream.Interrupted{Reason: stream.ReasonShutdown}); frames != nil || name != "" {
		t.Errorf("at a shutdown %q", frames)
	}
}
