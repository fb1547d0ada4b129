package telemetry

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// touchAll calls every method once, so that each metric has a value.
func touchAll(m *Metrics) {
	m.Submitted("echo", "accepted")
	m.Transitioned("echo", "complete", "completed")
	m.Claimed(3)
	m.Claimed(0)
	m.LeaseLost("echo")
	m.Recovered("queued")
	m.PickedUp("echo", 3*time.Millisecond)
	m.QueueAge("echo", 2*time.Second)
	m.RedisExchange("pipeline", OutcomeOK, time.Millisecond)
	m.RedisCommand("claim", OutcomeOK)
	m.RedisCommand("append", "timeout")
	m.StoreCondition("restarted", true)
	m.StoreCondition("no_room", true)
	m.StoreCondition("no_room", false)
	m.ViewerOpened("echo")
	m.ViewerOpened("echo")
	m.ViewerClosed("echo")
	m.ViewerCut()
	m.StreamEvent("chunk")
	m.ChunksFlushed(OutcomeOK, 7)
	m.ChunksFlushed("timeout", 100)
	m.HTTPRequest("/v1/executions/{id}", "GET", 200, time.Millisecond)
	m.HTTPRequest("", "BREW", 404, time.Millisecond)
	m.SetSlots(2)
	m.ExecutionStarted()
	m.ExecutionStarted()
	m.ExecutionEnded()
	m.SetDraining(true)
	m.SetStoreErrorStreak(4)
	m.LoopRestarted("maintenance")
	m.SetBacklog(func() []Backlog {
		return []Backlog{{"echo", "r1", "queued", 5, false}, {"echo", "r0", "runnable", 2, true}, {"echo", "r0", "started", 3, true}}
	})
}

// samples returns the lines of an exposition that are ours, without histogram
// buckets and sums, whose values the clock decides.
func samples(t *testing.T, m *Metrics) map[string]string {
	t.Helper()
	recorder := httptest.NewRecorder()
	m.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if recorder.Code != http.StatusOK {
		t.Fatalf("status %d: %s", recorder.Code, recorder.Body)
	}
	found := map[string]string{}
	for line := range strings.Lines(recorder.Body.String()) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		base, _, _ := strings.Cut(name, "{")
		if !ok || !strings.HasPrefix(name, "windrow_") || strings.HasSuffix(base, "_bucket") || strings.HasSuffix(base, "_sum") || base == "windrow_build_info" {
			continue
		}
		found[name] = value
	}
	return found
}

func TestMetricsHaveTheirValues(t *testing.T) {
	t.Parallel()
	m := New()
	touchAll(m)
	want := map[string]string{
		`windrow_submissions_total{deployment="echo",outcome="accepted"}`:                    "1",
		`windrow_transitions_total{command="complete",deployment="echo",status="completed"}`: "1",
		`windrow_claims_total`:                                                                             "3",
		`windrow_empty_claims_total`:                                                                       "1",
		`windrow_lease_losses_total{deployment="echo"}`:                                                    "1",
		`windrow_recoveries_total{outcome="queued"}`:                                                       "1",
		`windrow_pickup_duration_seconds_count{deployment="echo"}`:                                         "1",
		`windrow_queue_age_seconds_count{deployment="echo"}`:                                               "1",
		`windrow_store_condition{code="no_room"}`:                                                          "0",
		`windrow_store_condition{code="restarted"}`:                                                        "1",
		`windrow_store_conditions_total{code="no_room"}`:                                                   "1",
		`windrow_store_conditions_total{code="restarted"}`:                                                 "1",
		`windrow_redis_exchanges_total{name="pipeline",outcome="ok"}`:                                      "1",
		`windrow_redis_exchange_duration_seconds_count{name="pipeline",outcome="ok"}`:                      "1",
		`windrow_redis_commands_total{name="claim",outcome="ok"}`:                                          "1",
		`windrow_redis_commands_total{name="append",outcome="timeout"}`:                                    "1",
		`windrow_stream_viewers{deployment="echo"}`:                                                        "1",
		`windrow_stream_viewers_cut_total`:                                                                 "1",
		`windrow_stream_events_total{kind="chunk"}`:                                                        "1",
		`windrow_chunk_flushes_total{outcome="ok"}`:                                                        "1",
		`windrow_chunk_flushes_total{outcome="timeout"}`:                                                   "1",
		`windrow_chunks_flushed_total`:                                                                     "7",
		`windrow_http_requests_total{code="200",method="GET",route="/v1/executions/{id}"}`:                 "1",
		`windrow_http_requests_total{code="404",method="other",route="none"}`:                              "1",
		`windrow_http_request_duration_seconds_count{code="200",method="GET",route="/v1/executions/{id}"}`: "1",
		`windrow_http_request_duration_seconds_count{code="404",method="other",route="none"}`:              "1",
		`windrow_slots`:                                   "2",
		`windrow_active_executions`:                       "1",
		`windrow_draining`:                                "1",
		`windrow_store_error_streak`:                      "4",
		`windrow_loop_restarts_total{loop="maintenance"}`: "1",
		`windrow_backlog_executions{deployment="echo",revision="r1",state="queued"}`:   "5",
		`windrow_backlog_executions{deployment="echo",revision="r0",state="runnable"}`: "2",
		`windrow_backlog_executions{deployment="echo",revision="r0",state="started"}`:  "3",
		`windrow_unserved_executions{deployment="echo",revision="r0"}`:                 "5",
	}
	if diff := cmp.Diff(want, samples(t, m)); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

// Names and help texts follow Prometheus's conventions, those that promtool checks.
func TestMetricsPassLint(t *testing.T) {
	t.Parallel()
	m := New()
	touchAll(m)
	problems, err := testutil.GatherAndLint(m.registry)
	if err != nil {
		t.Fatalf("gather: %v", err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

func TestMetricsOfGoProcessAndBuild(t *testing.T) {
	t.Parallel()
	m := New()
	for _, name := range []string{"go_goroutines", "process_start_time_seconds", "windrow_build_info"} {
		if n, err := testutil.GatherAndCount(m.registry, name); err != nil || n != 1 {
			t.Errorf("%s: %d series, %v; want 1", name, n, err)
		}
	}
}

// A gone revision leaves no series behind, and draining goes back to 0.
func TestMetricsFollowTheirSource(t *testing.T) {
	t.Parallel()
	m := New()
	touchAll(m)
	m.SetBacklog(nil)
	m.SetDraining(false)
	got := samples(t, m)
	if value, ok := got[`windrow_backlog_executions{deployment="echo",revision="r1",state="queued"}`]; ok {
		t.Errorf("backlog is still %s", value)
	}
	if got["windrow_draining"] != "0" {
		t.Errorf("draining is %s, want 0", got["windrow_draining"])
	}
}

// Parts run without metrics.
func TestNilMetricsDoNothing(t *testing.T) {
	t.Parallel()
	var m *Metrics
	touchAll(m)
	recorder := httptest.NewRecorder()
	m.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if recorder.Code != http.StatusNotFound {
		t.Errorf("status %d, want 404", recorder.Code)
	}
}

// Two registries in one process don't share a thing.
func TestMetricsAreApart(t *testing.T) {
	t.Parallel()
	one, other := New(), New()
	one.Claimed(1)
	if got := samples(t, other)["windrow_claims_total"]; got != "0" {
		t.Errorf("the other registry counts %s claims, want 0", got)
	}
}
