package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/redistest"
)

// Five answers at once: with one key all are told the same, without a key one is applied and four are refused. A wrong
// answer is refused with a pointer to what is wrong.
func TestApproval(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"memory", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			args := []string{"dev", "--addr", "127.0.0.1:0"}
			if store == "redis" {
				args = append(args, "--redis", redistest.URL(t), "--key-prefix", redistest.Prefix(t))
			}
			s := start(t, args...)
			approveFiveTimes(t, s.URL, []int{202, 202, 202, 202, 202}, "Idempotency-Key: once")
			approveFiveTimes(t, s.URL, []int{202, 409, 409, 409, 409})
		})
	}
}

func approveFiveTimes(t *testing.T, server string, want []int, headers ...string) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	id := submit(t, ctx, server, "approval", `{"question":"Ship it?"}`)
	awaitStatus(t, ctx, server, id, "waiting")
	resume := server + "/v1/executions/" + id + "/resume"

	var problem struct {
		Code   string
		Errors []struct{ Pointer string }
	}
	must(t, ctx, http.StatusUnprocessableEntity, "POST", resume, `{"input":{"approved":"yes","note":""}}`).decode(t, &problem)
	if len(problem.Errors) == 0 || problem.Errors[0].Pointer != "/input/approved" {
		t.Errorf("a wrong answer is refused with %+v, want the pointer /input/approved", problem)
	}

	var wg sync.WaitGroup
	statuses := make([]int, 5)
	for i := range statuses {
		wg.Go(func() {
			r, err := call(ctx, "POST", resume, `{"input":{"approved":true,"note":"fine"}}`, headers...)
			if err != nil {
				t.Error(err)
			}
			statuses[i] = r.Status
		})
	}
	wg.Wait()
	slices.Sort(statuses)
	if !slices.Equal(statuses, want) {
		t.Errorf("five answers: %v, want %v", statuses, want)
	}
	last, p := outcome(t, ctx, server, id)
	if last.Name != "completed" || p.Attempt != 2 || !strings.Contains(string(p.Result), `"approved":true`) {
		t.Errorf("%s at attempt %d with %s", last.Name, p.Attempt, p.Result)
	}
}

// awaitStatus follows the execution until it shows the status.
func awaitStatus(t *testing.T, ctx context.Context, server, id, status string) {
	t.Helper()
	seen := false
	_, err := follow(ctx, server, id, "", func(e event) bool {
		var s struct{ Status string }
		if e.Name == "status" && json.Unmarshal([]byte(e.Data), &s) == nil && s.Status == status {
			seen = true
		}
		return !seen && !e.terminal()
	})
	if !seen {
		t.Fatalf("%s never became %s: %v", id, status, err)
	}
}

type storeHealth struct {
	State, Error string
	Conditions   []struct{ Code, Message string }
}

// message is what the condition with that code says; empty: it does not hold.
func (s storeHealth) message(code string) string {
	for _, c := range s.Conditions {
		if c.Code == code {
			return c.Message
		}
	}
	return ""
}

// health is what the tests look at of /status.
type health struct {
	Status      string
	Deployments []struct {
		Name, Revision string
		Counts         struct {
			Nonterminal         int64 `json:"nonterminal"`
			RevisionNonterminal int64 `json:"revision_nonterminal"`
			RevisionRunnable    int64 `json:"revision_runnable"`
		}
	}
	Unserved []struct {
		Deployment, Revision string
		Nonterminal          int64
		Served               bool
	} `json:"other_revisions"`
	Store storeHealth
}

func status(t testing.TB, ctx context.Context, server string) health {
	t.Helper()
	var h health
	must(t, ctx, http.StatusOK, "GET", server+"/status", "").decode(t, &h)
	return h
}

// eventually asks until cond holds. /status is at most a second old, so there is no event to wait for.
func eventually(t testing.TB, ctx context.Context, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: never", what)
		}
	}
}

// Two revisions on two servers: each runs its own work only, the old one drains to zero, and work of a revision that
// nobody serves any more is shown as such.
func TestTwoRevisions(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	args := []string{"dev", "--redis", redistest.URL(t), "--key-prefix", redistest.Prefix(t), "--addr", "127.0.0.1:0", "--poll", "500ms"}
	old := start(t, append(args, "--revision", "r1")...)
	young := start(t, append(args, "--revision", "r2")...)

	var ids []string
	for range 20 {
		ids = append(ids, submit(t, ctx, old.URL, "echo", `"old"`), submit(t, ctx, young.URL, "echo", `"new"`))
	}
	waits := submit(t, ctx, old.URL, "approval", `{"question":"?"}`)
	for i, id := range ids {
		_, p := outcome(t, ctx, young.URL, id)
		want := []string{"r1", "r2"}[i%2]
		if p.Revision != want || p.Status != "completed" {
			t.Errorf("%s: revision %s, status %s; want %s, completed", id, p.Revision, p.Status, want)
		}
	}
	awaitStatus(t, ctx, old.URL, waits, "waiting")
	old.stop(t, 20*time.Second)
	eventually(t, ctx, "the waiting execution of r1 is shown as served by nobody", func() bool {
		for _, u := range status(t, ctx, young.URL).Unserved {
			if u.Deployment == "approval" && u.Revision == "r1" {
				return u.Nonterminal == 1 && !u.Served
			}
		}
		return false
	})
	// Answering it through the other revision's server queues it; it stays queued until r1 is served again.
	must(t, ctx, http.StatusAccepted, "POST", young.URL+"/v1/executions/"+waits+"/resume", `{"input":{"approved":false,"note":""}}`)
	again := start(t, append(args, "--revision", "r1")...)
	if last, p := outcome(t, ctx, young.URL, waits); last.Name != "completed" || p.Revision != "r1" {
		t.Errorf("%s of %s", last.Name, p.Revision)
	}
	eventually(t, ctx, "r1 is drained", func() bool {
		for _, d := range status(t, ctx, again.URL).Deployments {
			if d.Counts.RevisionNonterminal != 0 {
				return false
			}
		}
		return true
	})
}

// Work submitted to one server is picked up by the other within 25 ms at p99.
func TestPickup(t *testing.T) {
	ctx := within(t, time.Minute)
	args := []string{"dev", "--redis", redistest.URL(t), "--key-prefix", redistest.Prefix(t), "--addr", "127.0.0.1:0", "--slots", "1"}
	front := start(t, args...)
	long := submit(t, ctx, front.URL, "story", `{"chunks":600,"seconds":60}`) // takes the front's only slot for stories
	awaitStatus(t, ctx, front.URL, long, "running")
	back := start(t, args...)
	eventually(t, ctx, "the other server is ready", func() bool {
		r, err := call(ctx, "GET", back.URL+"/readyz", "")
		return err == nil && r.Status == http.StatusOK
	})

	const n = 300
	for range n {
		id := submit(t, ctx, front.URL, "story", `{"chunks":1,"seconds":0}`)
		if last, p := outcome(t, ctx, front.URL, id); last.Name != "completed" {
			t.Fatalf("%s: %+v", last.Name, p)
		}
	}
	total, fast := histogram(t, ctx, back.URL, "windrow_pickup_duration_seconds", `deployment="story"`, "0.025")
	if total != n {
		t.Fatalf("the other server picked up %d of %d", total, n)
	}
	if fast < n*99/100 {
		t.Errorf("%d of %d were picked up within 25 ms, want 99 %%", fast, n)
	}
}

// histogram reads the count of a histogram and of one of its buckets from /metrics.
func histogram(t testing.TB, ctx context.Context, server, name, label, bucket string) (total, below int64) {
	t.Helper()
	text := string(must(t, ctx, http.StatusOK, "GET", server+"/metrics", "").Body)
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, name) || !strings.Contains(line, label) {
			continue
		}
		var v float64
		if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		switch {
		case strings.HasPrefix(line, name+"_count"):
			total += int64(v)
		case strings.Contains(line, `le="`+bucket+`"`):
			below += int64(v)
		}
	}
	return total, below
}
