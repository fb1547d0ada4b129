package e2e

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

const maintenanceInterval = 5 * time.Second // of a server by default

// abandon claims n executions of a deployment, as a worker would that is never heard of again, and returns when the last
// lease ends.
func (w *ward) abandon(deployment string, n int, lease time.Duration) (end time.Time) {
	w.t.Helper()
	for done := 0; done < n; {
		p, err := w.store.Poll(w.ctx, store.PollRequest{Worker: "gone", Token: rand.Text(),
			Revisions: []store.Want{{Revision: store.Revision{Deployment: deployment, Revision: "1"}, Count: min(n-done, 100), Lease: lease}}})
		if err != nil || len(p.Claimed) == 0 {
			w.t.Fatalf("%d of %d claimed: %v", done, n, err)
		}
		done += len(p.Claimed)
		end = time.UnixMilli(p.Claimed[0].Control.LeaseUntil)
	}
	return end
}

// taken waits for the end of one nap that was abandoned and returns how long after its lease it was over.
func (w *ward) taken(id string, end time.Time) time.Duration {
	w.t.Helper()
	c := w.ends([]string{id})[0].Control
	if c.Status != execution.Completed || c.Attempt != 2 || c.LostLeases != 1 {
		w.t.Errorf("%s at attempt %d after %d lost leases", c.Status, c.Attempt, c.LostLeases)
	}
	return time.UnixMilli(c.UpdatedAt).Sub(end)
}

// Five thousand leases that ran out earlier, and whose revision nobody serves, delay the recovery of one that is served by no
// more than two maintenance intervals.
func TestTakeoverBehindTheUnserved(t *testing.T) {
	t.Parallel()
	w, server := newWard(t, time.Minute, 1)
	w.submit("unserved", "1", 5000)
	w.abandon("unserved", 5000, time.Millisecond)
	id := w.submit("nap", "1", 1)[0]
	w.abandon("nap", 1, time.Millisecond)
	began := time.Now()
	startHard(t, "dev", "--redis", server.URL(), "--addr", "127.0.0.1:0")
	late := w.taken(id, began)
	t.Logf("taken over %s after the server was started", late)
	if late > 2*maintenanceInterval {
		t.Errorf("taken over %s after the server was started, want at most two maintenance intervals", late)
	}
	eventually(t, w.ctx, "no lease is left", func() bool {
		c, err := w.store.Counts(w.ctx)
		return err == nil && c.Leases == 0
	})
}

// What a worker held that is gone is taken over as soon as its lease has run out, in whatever part of the poll interval.
func TestTakeover(t *testing.T) {
	t.Parallel()
	w, server := newWard(t, time.Minute, 1)
	ends := map[string]time.Time{}
	for _, lease := range []time.Duration{6 * time.Second, 7 * time.Second, 8500 * time.Millisecond, 9 * time.Second} {
		ends[w.submit("nap", "1", 1)[0]] = w.abandon("nap", 1, lease)
	}
	for range 2 {
		startHard(t, "dev", "--redis", server.URL(), "--addr", "127.0.0.1:0")
	}
	for id, end := range ends {
		late := w.taken(id, end)
		t.Logf("taken over %s after its lease", late)
		if late > time.Second {
			t.Errorf("taken over %s after its lease", late)
		}
	}
}
