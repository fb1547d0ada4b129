package e2e

import (
	"bytes"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/windrow-run/windrow/internal/redistest"
)

// After work of every kind the metrics pass the rules of promtool: its library here, and the program itself where it is
// installed, as in CI.
func TestMetrics(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	s := start(t, "dev", "--redis", redistest.URL(t), "--key-prefix", redistest.Prefix(t), "--addr", "127.0.0.1:0")
	for _, input := range []string{`{"retries":1}`, `{"retries":0}`} {
		outcome(t, ctx, s.URL, submit(t, ctx, s.URL, "flaky", input))
	}
	body := must(t, ctx, http.StatusOK, "GET", s.URL+"/metrics", "").Body
	problems, err := promlint.New(bytes.NewReader(body)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", err, problems)
	}
	if promtool, err := exec.LookPath("promtool"); err == nil {
		check := exec.Command(promtool, "check", "metrics")
		check.Stdin = bytes.NewReader(body)
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool check metrics: %v\n%s", err, out)
		}
	}
	for _, name := range []string{"windrow_transitions_total", "windrow_claims_total", "windrow_redis_exchanges_total", "windrow_backlog"} {
		if !strings.Contains(string(body), "\n"+name) {
			t.Errorf("/metrics shows no %s", name)
		}
	}
}

// With Redis stopped /status is 200 and says degraded and why, /readyz is 503, /livez is 200, and a submission is
// refused as unavailable. All recover by themselves.
func TestRedisOutage(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	redis := redistest.Private(t, redistest.Options{AppendFsync: "always"})
	s := start(t, "dev", "--redis", redis.URL(), "--addr", "127.0.0.1:0", "--lease", "3s")
	before := submit(t, ctx, s.URL, "echo", `1`)
	outcome(t, ctx, s.URL, before)
	must(t, ctx, http.StatusOK, "GET", s.URL+"/readyz", "")

	redis.Kill()
	eventually(t, ctx, "/status says degraded and why", func() bool {
		h := status(t, ctx, s.URL)
		return h.Status == "degraded" && h.Store.State == "degraded" && h.Store.Error == "store_unavailable"
	})
	must(t, ctx, http.StatusServiceUnavailable, "GET", s.URL+"/readyz", "")
	must(t, ctx, http.StatusOK, "GET", s.URL+"/livez", "")
	r := must(t, ctx, http.StatusServiceUnavailable, "POST", s.URL+"/v1/deployments/echo/executions", `{"input":1}`)
	if r.Header.Get("Retry-After") == "" {
		t.Error("a 503 without Retry-After")
	}

	redis.Restart()
	eventually(t, ctx, "/readyz is 200 again", func() bool {
		r, err := call(ctx, "GET", s.URL+"/readyz", "")
		return err == nil && r.Status == http.StatusOK
	})
	eventually(t, ctx, "/status is ok again", func() bool { return status(t, ctx, s.URL).Status == "ok" })
	if p := must(t, ctx, http.StatusOK, "GET", s.URL+"/v1/executions/"+before, "").projection(t); p.Status != "completed" {
		t.Errorf("after the restart %s is %s", before, p.Status)
	}
	last, _ := outcome(t, ctx, s.URL, submit(t, ctx, s.URL, "echo", `2`))
	if last.Name != "completed" {
		t.Errorf("new work ends as %s", last.Name)
	}
}
