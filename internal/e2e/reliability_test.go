package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/redistest"
)

// long reports whether the long forms are wanted: the same tests with the numbers that docs/reliability.md reports.
func long() bool { return os.Getenv("WINDROW_RELIABILITY") == "long" }

// count is how often a test does its harm.
func count(short, many int) int {
	if long() {
		return many
	}
	return short
}

// patience bounds a test with a fleet.
func patience() time.Duration {
	if long() {
		return 40 * time.Minute
	}
	return 2 * time.Minute
}

// enduring are the arguments of servers that are harmed far more often than any budget foresees.
func enduring(more ...string) []string {
	return append([]string{"--lease", "2s", "--maintenance", "500ms", "--poll", "1s", "--slots", "8", "--lost-leases", "10000", "--claims", "10000",
		"--retries", "10000", "--retry-delay", "100ms"}, more...)
}

// load keeps so many pieces of work of all kinds under way, each with two viewers, until it is stopped.
func (f *fleet) load(most int) (stop func()) {
	var all sync.WaitGroup
	done := make(chan struct{})
	for lane := range most {
		all.Go(func() {
			for n := lane; ; n++ {
				select {
				case <-done:
					return
				case <-f.ctx.Done():
					return
				default:
					f.piece(n)
				}
			}
		})
	}
	return func() {
		close(done)
		all.Wait()
	}
}

// piece submits one piece of work and sees it to its end.
func (f *fleet) piece(n int) {
	var w *followed
	switch n % 4 {
	case 0:
		w = f.follow("echo", `{"a":1}`)
	case 1:
		w = f.follow("story", `{"chunks":20,"seconds":0.5}`)
	case 2:
		w = f.follow("flaky", `{"retries":1}`)
	default:
		w = f.follow("approval", `{"question":"?"}`)
		f.answer(w)
	}
	<-w.viewers[0].ended
}

// answer answers the wait of an approval, as soon as there is one, however often that has to be sent.
func (f *fleet) answer(w *followed) {
	key := fmt.Sprint("Idempotency-Key: ", rand.Uint64())
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := call(f.ctx, "POST", f.url()+"/v1/executions/"+w.id+"/resume", `{"input":{"approved":true,"note":"fine"}}`, key)
		if err == nil && r.Status == http.StatusAccepted {
			return
		}
		select {
		case <-tick.C:
		case <-w.viewers[0].ended:
			return
		case <-f.ctx.Done():
			return
		}
	}
}

// survived waits for the end of all work, all of which must have completed, and reports the figures.
func (f *fleet) survived(harm string, times int, begin time.Time) {
	f.t.Helper()
	attempts := f.completed()
	total, most := 0, int64(0)
	for attempt, n := range attempts {
		total, most = total+n, max(most, attempt)
	}
	f.t.Logf("figures: %d %s in %s; %d executions, all completed, %d at their first attempt, at most %d attempts; %d gaps shown to viewers, no violation",
		times, harm, time.Since(begin).Round(time.Second), total, attempts[1], most, f.gaps())
	if total < times/2 {
		f.t.Errorf("only %d executions for %d %s: %v", total, times, harm, slices.Sorted(maps.Keys(attempts)))
	}
}

// Servers are killed, one after the other, while work goes on.
func TestManyKills(t *testing.T) {
	f := newFleet(t, 3, redistest.Options{}, start, enduring()...)
	begin, kills := time.Now(), count(10, 1000)
	stop := f.load(24)
	for round := range kills {
		i := round % len(f.servers)
		s := f.down(i)
		s.kill()
		f.replace(i)
		f.piece(round) // so that work got on before the next one
	}
	stop()
	f.survived("kills of a server", kills, begin)
}

// Servers stand still for one and a half leases, two at a time, and then go on with work that is not theirs any more.
func TestManyPauses(t *testing.T) {
	f := newFleet(t, 4, redistest.Options{}, start, enduring()...)
	begin, pauses := time.Now(), count(4, 200)
	stop := f.load(24)
	var pairs sync.WaitGroup
	for pair := range 2 {
		pairs.Go(func() {
			for round := range pauses / 2 {
				f.pause(2*pair+round%2, 3*time.Second)
			}
		})
	}
	pairs.Wait()
	stop()
	f.survived("pauses of a server for 1.5 leases", pauses, begin)
}

// pause stops a server for so long. Meanwhile no client is sent to it.
func (f *fleet) pause(i int, d time.Duration) {
	s := f.down(i)
	signal := func(sig syscall.Signal) {
		if err := s.cmd.Process.Signal(sig); err != nil {
			f.t.Error(err)
		}
	}
	over := time.NewTimer(d)
	defer over.Stop()
	signal(syscall.SIGSTOP)
	select {
	case <-over.C:
	case <-f.ctx.Done():
	}
	signal(syscall.SIGCONT)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers[i] = s
}

// Redis with every write on disk is killed again and again: nothing is lost.
func TestManyRestarts(t *testing.T) {
	f := newFleet(t, 2, redistest.Options{AppendFsync: "always"}, start, enduring()...)
	begin, restarts := time.Now(), count(5, 200)
	stop := f.load(16)
	for round := range restarts {
		f.redis.Kill()
		f.redis.Restart()
		f.piece(round)
	}
	stop()
	f.survived("kills of Redis with appendfsync always", restarts, begin)
	if n := f.gaps(); n != 0 {
		t.Errorf("%d gaps, though nothing was lost", n)
	}
}
