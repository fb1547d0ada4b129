package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/faultkit"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/storetest"
)

// lossWindow is how long before a failover what was acknowledged without waiting for a replica may be lost: see docs/operations.md.
const lossWindow = time.Second

// ledger keeps what was acknowledged to clients over failovers, which may lose some of it. What was observed counts within an
// epoch, from one failover to the next: a request that one came into tells nothing, and neither does what was observed during one.
type ledger struct {
	*fleet
	set *redistest.ReplicatedServers

	failing atomic.Bool // two servers may take themselves for the primary

	mu       sync.Mutex // guards the following
	epoch    int
	checkers []*storetest.Checker
	windows  [][2]time.Time // in which acknowledged state may be lost
	entries  []*entry
}

// entry is one piece of work.
type entry struct {
	id       string
	key      store.Key
	accepted time.Time
	end      *projection // as it was first told
	told     time.Time
	lost     bool
}

// record is what a client sees of the work, which is not told its fence and budgets.
func (e *entry) record(p projection) store.Record {
	return store.Record{Control: execution.Control{ID: e.id, Status: execution.Status(p.Status), Version: p.Sequence, Attempt: p.Attempt, Fence: p.Attempt,
		Budgets: execution.Budgets{LostLeases: math.MaxInt32, Retries: math.MaxInt32, Claims: math.MaxInt32}}}
}

func newLedger(t *testing.T, args ...string) *ledger {
	t.Helper()
	t.Parallel()
	set := redistest.Replicated(t, redistest.Options{})
	f := newFleetAt(t, 2, set.URL(), start, enduring(args...)...)
	return &ledger{fleet: f, set: set, checkers: []*storetest.Checker{storetest.NewChecker()}}
}

// during calls do, and then tell with the checker of the epoch, unless another one has begun meanwhile.
func (l *ledger) during(do func(), tell func(c *storetest.Checker)) {
	l.mu.Lock()
	before := l.epoch
	l.mu.Unlock()
	do()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epoch == before {
		tell(l.checkers[before])
	}
}

// next begins another epoch.
func (l *ledger) next() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checkers[l.epoch].Interrupted()
	l.checkers = append(l.checkers, storetest.NewChecker())
	l.epoch++
}

// work does one piece after the other until done is closed.
func (l *ledger) work(lane int, done <-chan struct{}) {
	for n := lane; ; n++ {
		select {
		case <-done:
			return
		case <-l.ctx.Done():
			return
		default:
			l.piece(n)
		}
	}
}

// piece submits one piece of work and sees it to its end, or to its loss.
func (l *ledger) piece(n int) {
	kind := []string{"echo", "story", "flaky", "approval"}[n%4]
	input := []string{`1`, `{"chunks":10,"seconds":0.3}`, `{"retries":1}`, `{"question":"?"}`}[n%4]
	e := &entry{key: store.Key{Deployment: kind, Value: fmt.Sprint(rand.Uint64())}}
	l.during(func() {
		e.id = l.ask(http.StatusAccepted, "POST", "/v1/deployments/"+kind+"/executions", `{"input":`+input+`}`, "Idempotency-Key: "+e.key.Value).projection(l.t).ID
	}, func(c *storetest.Checker) { c.Submitted(e.key, e.id) })
	e.accepted = time.Now()
	l.mu.Lock()
	l.entries = append(l.entries, e)
	l.mu.Unlock()
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for !l.look(e) {
		select {
		case <-tick.C:
		case <-l.ctx.Done():
			return
		}
	}
}

// look reads the execution, answers its wait, and reports whether it has ended or is lost.
func (l *ledger) look(e *entry) bool {
	failing := l.failing.Load()
	r, p := l.read(e)
	switch {
	case r.Status == http.StatusNotFound:
		e.lost = !failing && !l.failing.Load() // an old primary does not know what the new one has
		return e.lost
	case r.Status != http.StatusOK:
		return false
	case p.Status == "waiting":
		l.resume(e)
		return false
	case p.Status == "completed" || p.Status == "failed" || p.Status == "canceled":
		e.end, e.told = &p, time.Now()
	default:
		return false
	}
	return true
}

func (l *ledger) read(e *entry) (r reply, p projection) {
	l.during(func() {
		ctx, cancel := context.WithTimeout(l.ctx, 10*time.Second)
		defer cancel()
		r, _ = call(ctx, "GET", l.url()+"/v1/executions/"+e.id, "") // a failed one has no status
	}, func(c *storetest.Checker) {
		if r.Status == http.StatusOK && json.Unmarshal(r.Body, &p) == nil {
			c.Observed(e.record(p))
		}
	})
	return r, p
}

func (l *ledger) resume(e *entry) {
	ctx, cancel := context.WithTimeout(l.ctx, 10*time.Second)
	defer cancel()
	_, _ = call(ctx, "POST", l.url()+"/v1/executions/"+e.id+"/resume", `{"input":{"approved":true,"note":"fine"}}`, "Idempotency-Key: answer") // looked at again
}

// failover has the replica take over while work goes on, in one of three ways.
func (l *ledger) failover(round int) {
	begin := time.Now()
	l.failing.Store(true)
	defer l.failing.Store(false)
	l.next()
	switch round % 3 {
	case 0:
		l.set.Rejoin(l.set.KillPrimary())
	case 1:
		l.set.Failover()
	default:
		old := l.set.Primary()
		old.Pause()
		l.set.AwaitFailover(old)
		old.Resume()
	}
	l.set.AwaitAgreement() // until then the old one may take itself for the primary
	l.mu.Lock()
	l.windows = append(l.windows, [2]time.Time{begin.Add(-lossWindow), time.Now()})
	l.mu.Unlock()
	l.next()
}

// inWindow reports whether something that was acknowledged then may be lost.
func (l *ledger) inWindow(t time.Time) bool {
	for _, w := range l.windows {
		if t.After(w[0]) && t.Before(w[1]) {
			return true
		}
	}
	return false
}

// settle holds what was acknowledged against what is there when all is at rest. It returns how many executions were lost, and
// how many ends.
func (l *ledger) settle() (executions, redone int) {
	l.t.Helper()
	ends := make([]reply, len(l.entries))
	for i, e := range l.entries {
		ends[i] = l.final(e)
	}
	l.atRest()
	for i, e := range l.entries {
		r := ends[i]
		var p projection
		switch {
		case r.Status == http.StatusNotFound:
			executions++
			if !l.inWindow(e.accepted) && !(e.end != nil && l.inWindow(e.told)) {
				l.t.Errorf("%s was accepted at %s, long before a failover, and is lost", e.id, e.accepted)
			}
			continue
		case e.lost:
			l.t.Errorf("%s was lost, and is there again", e.id)
		}
		r.decode(l.t, &p)
		if e.end != nil && (p.Status != e.end.Status || p.Sequence != e.end.Sequence || p.Attempt != e.end.Attempt) {
			redone++
			if !l.inWindow(e.told) {
				l.t.Errorf("%s ended with sequence %d at %s, long before a failover, and with %d", e.id, e.end.Sequence, e.told, p.Sequence)
			}
		}
		last := l.checkers[l.epoch]
		last.Submitted(e.key, e.id)
		last.Ended("projection", e.id, execution.Status(p.Status))
		last.Observed(e.record(p))
		if p.Status != "completed" {
			l.t.Errorf("%s is %s: %+v", e.id, p.Status, p.Error)
		}
	}
	for i, c := range l.checkers {
		if i%2 == 0 {
			c.Assert(l.t)
			continue
		}
		for _, v := range c.Verify() { // of a failover: two servers may answer as the primary
			l.t.Logf("figures: while a failover is under way: %v", v)
		}
	}
	return executions, redone
}

// final reads until the execution has ended, perhaps once more after its end was lost, or is lost itself.
func (l *ledger) final(e *entry) reply {
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for {
		r, p := l.read(e)
		if r.Status == http.StatusNotFound || r.Status == http.StatusOK && execution.Status(p.Status).Terminal() || l.ctx.Err() != nil {
			return r
		}
		if p.Status == "waiting" {
			l.resume(e)
		}
		select {
		case <-tick.C:
		case <-l.ctx.Done():
		}
	}
}

// storm fails over so often while work goes on, and returns how many executions were lost.
func (l *ledger) storm(failovers int) int {
	l.t.Helper()
	begin, done := time.Now(), make(chan struct{})
	var lanes sync.WaitGroup
	for lane := range 16 {
		lanes.Go(func() { l.work(lane, done) })
	}
	for round := range failovers {
		l.failover(round)
		l.piece(1) // so that work gets on, and what was lost is noticed, before the next one
	}
	close(done)
	lanes.Wait()
	executions, ends := l.settle()
	l.t.Logf("figures: %d failovers in %s; %d executions accepted, %d of them lost, %d ends lost and made again; no contradiction",
		failovers, time.Since(begin).Round(time.Second), len(l.entries), executions, ends)
	return executions
}

// Failovers lose no more than what was acknowledged shortly before, or by a primary that was one no more.
func TestManyFailovers(t *testing.T) {
	newLedger(t).storm(faultkit.Count(t, 3, 50))
}

// Where changes wait for the replica that is promoted, nothing is lost that was acknowledged. What was only seen may be.
func TestManyConfirmedFailovers(t *testing.T) {
	if lost := newLedger(t, "--ack", "replicas=1").storm(faultkit.Count(t, 3, 50)); lost != 0 {
		t.Errorf("%d executions are lost, though a replica had them", lost)
	}
}
