package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/redistest"
)

// A server that stands still for longer than a lease, and then goes on, has lost its work to the other one, and changes
// nothing of it any more: what viewers see is one attempt after the other.
func TestStoppedServer(t *testing.T) {
	f := newFleet(t, 2, redistest.Options{}, start, "--lease", "1s", "--maintenance", "500ms", "--slots", "20", "--lost-leases", "10")
	for range 10 {
		f.follow("story", `{"chunks":200,"seconds":8}`)
	}
	f.await(f.work[0], 10)
	for i := range f.servers {
		s := f.down(i)
		if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for _, w := range f.work { // each is past where it was, so another attempt has it
			f.await(w, min(w.viewers[0].last().Payload.Index+5, 199))
		}
		if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		f.mu.Lock()
		f.servers[i] = s
		f.mu.Unlock()
	}
	attempts := f.completed()
	if attempts[1] == 10 {
		t.Error("no work has changed hands")
	}
}

// Redis with every write on disk is killed and started again: nothing is lost, no viewer has a gap, no lease runs out, and
// every server recovers by itself.
func TestRestartedRedis(t *testing.T) {
	f := newFleet(t, 2, redistest.Options{AppendFsync: "always"}, start, "--lease", "15s", "--slots", "20")
	for range 10 {
		f.follow("story", `{"chunks":100,"seconds":5}`)
	}
	for _, chunk := range []int64{10, 40, 70} {
		f.await(f.work[0], chunk)
		f.redis.Kill()
		for _, s := range f.servers {
			eventually(t, f.ctx, "/status says degraded", func() bool { return status(t, f.ctx, s.URL).Status == "degraded" })
			must(t, f.ctx, http.StatusServiceUnavailable, "GET", s.URL+"/readyz", "")
		}
		f.redis.Restart()
	}
	if attempts := f.completed(); attempts[1] != 10 {
		t.Errorf("attempts: %v, want 10 times 1", attempts)
	}
	if n := f.gaps(); n != 0 {
		t.Errorf("%d gaps", n)
	}
}

// Redis that stands still for longer than a lease costs each running attempt its lease, and nothing else.
func TestFrozenRedis(t *testing.T) {
	f := newFleet(t, 2, redistest.Options{}, start, "--lease", "1s", "--maintenance", "500ms", "--slots", "20")
	for range 10 {
		f.follow("story", `{"chunks":100,"seconds":4}`)
	}
	f.await(f.work[0], 30)
	f.redis.Pause()
	frozen := time.Now()
	eventually(t, f.ctx, "/status says degraded for two leases", func() bool {
		h := status(t, f.ctx, f.url())
		return h.Store.State == "degraded" && time.Since(frozen) > 2*time.Second
	})
	must(t, f.ctx, http.StatusServiceUnavailable, "GET", f.url()+"/readyz", "")
	f.redis.Resume()
	if attempts := f.completed(); attempts[1] != 0 {
		t.Errorf("attempts: %v, but no lease can have held", attempts)
	}
	if n := f.gaps(); n != 0 {
		t.Errorf("%d gaps", n)
	}
}

// Connections that are cut all the time, and a server that forgets its scripts, cost nobody anything.
func TestCutConnections(t *testing.T) {
	f := newFleet(t, 2, redistest.Options{}, start, "--lease", "5s", "--slots", "20", "--partitions", "2")
	stop := f.meanwhile(20*time.Millisecond, func(round int) {
		kind := []string{"normal", "pubsub"}[round%2]
		f.redis.Client().Do(f.ctx, "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
		f.redis.Client().ScriptFlush(f.ctx)
	})
	for range 10 {
		f.follow("story", `{"chunks":100,"seconds":4}`)
	}
	f.await(f.work[9], 80)
	stop()
	if attempts := f.completed(); attempts[1] != 10 {
		t.Errorf("attempts: %v, want 10 times 1", attempts)
	}
	if n := f.gaps(); n != 0 {
		t.Errorf("%d gaps", n)
	}
}

// While Redis has no room submissions are refused as such and leave nothing, and what runs goes on.
func TestFullRedis(t *testing.T) {
	f := newFleet(t, 2, redistest.Options{}, start, "--lease", "2s", "--slots", "20")
	for range 5 {
		f.follow("story", `{"chunks":60,"seconds":3}`)
	}
	f.await(f.work[0], 5)
	limit := func(bytes string) {
		if err := f.redis.Client().ConfigSet(f.ctx, "maxmemory", bytes).Err(); err != nil {
			t.Error(err)
		}
	}
	for round := range 5 {
		limit("1")
		r := f.ask(http.StatusServiceUnavailable, "POST", "/v1/deployments/echo/executions", `{"input":1}`)
		var problem struct{ Code string }
		if r.decode(t, &problem); problem.Code != "store_unavailable" {
			t.Errorf("refused with %s", problem.Code)
		}
		if round == 0 {
			eventually(t, f.ctx, "/status says that there is no room", func() bool {
				h := status(t, f.ctx, f.url())
				return h.Status == "degraded" && h.Store.State == "degraded" && h.Store.message("no_room") != ""
			})
			must(t, f.ctx, http.StatusOK, "GET", f.url()+"/readyz", "")
		}
		at := f.work[0].viewers[0].last().Payload.Index
		f.await(f.work[0], at+3) // also without room
		limit("0")
		f.follow("echo", `1`)
	}
	if attempts := f.completed(); attempts[1] != 10 {
		t.Errorf("attempts: %v, want 10 times 1", attempts)
	}
	if n := len(f.redis.Client().Keys(f.ctx, f.key("c:*")).Val()); n != 10 {
		t.Errorf("%d controls are stored, want 10", n)
	}
}

// What somebody deletes by hand is noticed, and hurts nobody else.
func TestDeletedKeys(t *testing.T) {
	f := newFleet(t, 1, redistest.Options{}, start, "--lease", "1s", "--slots", "20", "--maintenance", "1s")
	remove := func(key string) {
		if n, err := f.redis.Client().Del(f.ctx, f.key(key)).Result(); n != 1 || err != nil {
			t.Errorf("DEL %s: %d, %v", key, n, err)
		}
	}
	const story = `{"chunks":100,"seconds":6}`
	log, input, lease := f.follow("story", story), f.follow("story", story), f.follow("story", story)
	control := f.submit("story", story)
	for _, chunk := range []int64{5, 10, 15} {
		f.await(log, chunk)
		remove("l:" + log.id)
	}
	told, attached := make(chan event, 1), make(chan struct{})
	go func() {
		var last event
		_, _ = follow(f.ctx, f.url(), control, "", func(e event) bool {
			if last == (event{}) {
				close(attached)
			}
			last = e
			return true
		})
		told <- last
	}()
	<-attached
	remove("c:" + control)
	if e := <-told; e.Name != "error" || !strings.Contains(e.Data, `"code":"not_found"`) {
		t.Errorf("the viewer of an execution that is gone is told %+v", e)
	}
	must(t, f.ctx, http.StatusNotFound, "GET", f.url()+"/v1/executions/"+control, "")
	for _, counter := range []string{"story", "story@1"} { // as a repair would
		if err := f.redis.Client().HIncrBy(f.ctx, f.key("capacity"), counter, -1).Err(); err != nil {
			t.Error(err)
		}
	}
	f.down(0).kill()
	remove("i:" + input.id)
	if n, err := f.redis.Client().ZRem(f.ctx, f.key("leases"), lease.id).Result(); n != 1 || err != nil {
		t.Errorf("ZREM: %d, %v", n, err)
	}
	f.replace(0)
	f.erased(control)
	ends := f.gone()
	if p := ends[log.id]; p.Status != "completed" || p.Attempt != 2 {
		t.Errorf("without its log: %s at attempt %d", p.Status, p.Attempt)
	}
	if p := ends[lease.id]; p.Status != "completed" || p.Attempt != 2 {
		t.Errorf("without its lease: %s at attempt %d", p.Status, p.Attempt)
	}
	if p := ends[input.id]; p.Status != "failed" || p.Error.Code != "stored_execution_invalid" {
		t.Errorf("without its input: %s, %+v", p.Status, p.Error)
	}
}

// A server with 200 viewers and running work is told to stop. It ends in time; each viewer is told to come back and goes on
// elsewhere; the work changes hands and spends no budget.
func TestShutdownWithViewers(t *testing.T) {
	f := newFleet(t, 1, redistest.Options{}, start, "--lease", "30s", "--slots", "10")
	for range 10 {
		f.follow("story", `{"chunks":100,"seconds":4}`)
	}
	var ready, done sync.WaitGroup
	told := make([]event, 200)
	for i := range told {
		ready.Add(1)
		first := sync.OnceFunc(ready.Done)
		done.Go(func() {
			defer first()
			_, _ = follow(f.ctx, f.url(), f.work[i%10].id, "", func(e event) bool {
				first()
				told[i] = e
				return true
			})
		})
	}
	ready.Wait()
	f.await(f.work[9], 20)
	old := f.down(0)
	f.replace(0)
	stopped := time.Now()
	old.stop(t, 12*time.Second) // a grace and a drain
	done.Wait()
	for i, e := range told {
		if e.Name != "error" || !strings.Contains(e.Data, `"code":"draining"`) {
			t.Fatalf("viewer %d was told last: %+v", i, e)
		}
	}
	if attempts := f.completed(); attempts[2] != 10 {
		t.Errorf("attempts: %v, want 10 times 2", attempts)
	}
	if took := time.Since(stopped); took > 20*time.Second {
		t.Errorf("the handover took %s: leases ran out", took)
	}
	if n := f.gaps(); n != 0 {
		t.Errorf("%d gaps", n)
	}
	for _, w := range f.work {
		if n := f.lostLeases(w.id); n != "" {
			t.Errorf("%s has lost %s leases", w.id, n)
		}
	}
}

// Two servers are replaced in turn, ten times each, while work comes in: all of it completes, and none of it loses a lease.
func TestRollingRestarts(t *testing.T) {
	f := newFleet(t, 2, redistest.Options{AppendFsync: "everysec"}, start, "--lease", "20s", "--slots", "10")
	stop := f.meanwhile(25*time.Millisecond, func(round int) {
		switch round % 4 {
		case 0:
			f.follow("story", `{"chunks":30,"seconds":1}`)
		case 1:
			f.follow("flaky", `{"retries":1}`)
		default:
			f.follow("echo", `{"a":1}`)
		}
	})
	for round := range 20 {
		i := round % 2
		f.down(i).stop(t, 12*time.Second)
		f.replace(i)
	}
	stop()
	f.completed()
	for _, w := range f.work {
		if n := f.lostLeases(w.id); n != "" {
			t.Errorf("%s has lost %s leases", w.id, n)
		}
	}
}

// A cancel that was acknowledged wins, wherever the work stands, and one that comes too late says so.
func TestCancelAnywhere(t *testing.T) {
	f := newFleet(t, 2, redistest.Options{}, start, "--slots", "4", "--retry-delay", "5s")
	var all sync.WaitGroup
	for i := range 60 {
		w := f.follow([]string{"story", "flaky", "approval"}[i%3], []string{`{"chunks":10,"seconds":0.3}`, `{}`, `{"question":"?"}`}[i%3])
		all.Go(func() {
			timer := time.NewTimer(time.Duration(i) * 20 * time.Millisecond) // so that each finds its work elsewhere
			defer timer.Stop()
			<-timer.C
			was := f.cancel(w)
			<-w.viewers[0].ended
			if end := w.viewers[0].end.Status; was == "completed" && end != "completed" || was != "completed" && end != "canceled" {
				t.Errorf("%s was %s when the cancel was acknowledged, and ended as %s", w.id, was, end)
			}
		})
	}
	all.Wait()
	f.gone()
}

// Work that takes its process down each time fails after its third lost lease, and can be canceled in between.
func TestPoison(t *testing.T) {
	f := newFleet(t, 1, redistest.Options{}, startHard, "--lease", "500ms", "--maintenance", "500ms")
	first, second := f.follow("poison", `500`), f.follow("poison", `500`)
	for round := range 3 {
		select {
		case <-f.down(0).done:
		case <-f.ctx.Done():
			t.Fatal("the server lives")
		}
		f.replace(0)
		if round == 0 {
			f.cancel(second)
		}
	}
	good := f.follow("nap", `1`)
	ends := f.gone()
	if p := ends[first.id]; p.Status != "failed" || p.Error.Code != "lease_lost" || p.Attempt != 3 {
		t.Errorf("poison: %+v", p)
	}
	if p := ends[second.id]; p.Status != "canceled" || p.Attempt > 2 {
		t.Errorf("canceled poison: %s at attempt %d", p.Status, p.Attempt)
	}
	if p := ends[good.id]; p.Status != "completed" || p.Attempt != 1 {
		t.Errorf("good work: %+v", p)
	}
}

// Handlers that stream far more than a store can take lose chunks, and viewers are told; but nobody loses a lease, also not
// quiet work beside them. A result over the limit fails its work, and nothing else.
func TestFlood(t *testing.T) {
	f := newFleet(t, 1, redistest.Options{}, startHard, "--lease", "6s", "--slots", "12")
	quiet := f.follow("story", `{"chunks":40,"seconds":3}`)
	loud := f.follow("flood", `500`) // of 50,000 bytes
	f.await(loud, 1)
	f.redis.Pause() // so that it is more than the store can take, however slow the handler
	eventually(t, f.ctx, "chunks are lost", func() bool {
		return strings.Contains(string(must(t, f.ctx, 200, "GET", f.url()+"/metrics", "").Body), `windrow_chunk_flushes_total{outcome="dropped"}`)
	})
	f.redis.Resume()
	for range 4 {
		f.submit("flood", `500`)
	}
	large, fits := f.follow("bulky", `1000000`), f.follow("bulky", `999998`)
	ends := f.gone()
	if p := ends[quiet.id]; p.Status != "completed" || p.Attempt != 1 || quiet.viewers[0].gaps != 0 {
		t.Errorf("quiet work: %s at attempt %d with %d gaps", p.Status, p.Attempt, quiet.viewers[0].gaps)
	}
	if p := ends[loud.id]; p.Status != "completed" || p.Attempt != 1 || loud.viewers[0].gaps == 0 {
		t.Errorf("loud work: %s at attempt %d with %d gaps", p.Status, p.Attempt, loud.viewers[0].gaps)
	}
	if p := ends[large.id]; p.Status != "failed" || p.Error.Code != "payload_too_large" {
		t.Errorf("a large result: %s, %+v", p.Status, p.Error)
	}
	if p := ends[fits.id]; p.Status != "completed" || len(p.Result) != 1_000_000 {
		t.Errorf("the largest result: %s with %d bytes", p.Status, len(p.Result))
	}
}

// A handler that does not listen is canceled when it returns. At a shutdown with --release-on-close its work is handed over,
// and what it does afterwards counts for nothing.
func TestDeafHandler(t *testing.T) {
	f := newFleet(t, 1, redistest.Options{}, startHard, "--lease", "2s", "--slots", "2", "--shutdown-grace", "500ms", "--release-on-close")
	canceled, released := f.follow("deaf", `3000`), f.follow("deaf", `3000`)
	for _, w := range f.work {
		awaitStatus(t, f.ctx, f.url(), w.id, "running")
	}
	f.ask(http.StatusAccepted, "POST", "/v1/executions/"+canceled.id+"/cancel", "")
	old := f.down(0)
	f.replace(0)
	told := time.Now()
	old.stop(t, 10*time.Second)
	if took := time.Since(told); took > 2500*time.Millisecond {
		t.Errorf("it took %s to end", took)
	}
	ends := f.gone()
	if p := ends[canceled.id]; p.Status != "canceled" || p.Attempt != 1 {
		t.Errorf("canceled: %s at attempt %d", p.Status, p.Attempt)
	}
	if p := ends[released.id]; p.Status != "completed" || p.Attempt != 2 || f.lostLeases(released.id) != "" {
		t.Errorf("released: %s at attempt %d", p.Status, p.Attempt)
	}
}

// A thousand retries that fall due at one instant are run soon after it.
func TestRetriesAtOnce(t *testing.T) {
	f := newFleet(t, 2, redistest.Options{}, startHard, "--slots", "4")
	at := time.Now().Add(10 * time.Second) // by when even a busy machine has handed all in
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for range 100 {
				f.submit("again", fmt.Sprint(at.UnixMilli()))
			}
		})
	}
	all.Wait()
	if late := time.Since(at); late > 0 {
		t.Fatalf("the last one is handed in %s late", late)
	}
	f.atRest()
	if late := time.Since(at); late > 5*time.Second {
		t.Errorf("all are done %s after the instant", late)
	}
	if attempts := f.completed(); attempts[2] != 1000 {
		t.Errorf("attempts: %v, want 1,000 times 2", attempts)
	}
}
