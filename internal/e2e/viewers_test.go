package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/windrow-run/windrow/internal/faultkit"
	"github.com/windrow-run/windrow/internal/redistest"
)

// theater is one server on a Redis of its own, with its audience in another process.
type theater struct {
	*fleet
	audience *audience
	addr     string

	collections int // that the server was asked for
}

func newTheater(t *testing.T, args ...string) *theater {
	t.Helper()
	f := newFleet(t, 1, redistest.Options{}, startHard, append([]string{"--max-nonterminal", "0", "--poll", "1s"}, args...)...)
	return &theater{fleet: f, audience: newAudience(t), addr: strings.TrimPrefix(f.url(), "http://")}
}

// play begins so many executions that tick, and returns when all of them run.
func (h *theater) play(n int, input func(i int) string) []string {
	ids := make([]string, n)
	var all sync.WaitGroup
	for lane := range 8 {
		all.Go(func() {
			for i := lane; i < n; i += 8 {
				ids[i] = h.submit("ticker", input(i))
			}
		})
	}
	all.Wait()
	eventually(h.t, h.ctx, "all run", func() bool { return h.redis.Client().ZCard(h.ctx, h.key("leases")).Val() >= int64(n) })
	return ids
}

// usage is what a server's process holds, after a collection.
type usage struct {
	rss               int64 // bytes
	files, goroutines int
	connections       int // to Redis
}

func (h *theater) usage() usage {
	h.t.Helper()
	s := h.servers[0]
	h.collections++
	done := fmt.Sprintf("collected %d.", h.collections)
	if err := s.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		h.t.Fatal(err)
	}
	eventually(h.t, h.ctx, "the server has collected", func() bool { return strings.Contains(s.logs.String(), done) })
	proc := fmt.Sprintf("/proc/%d", s.cmd.Process.Pid)
	files, err := os.ReadDir(proc + "/fd")
	if err != nil {
		h.t.Fatal(err)
	}
	text, err := os.ReadFile(proc + "/status")
	if err != nil {
		h.t.Fatal(err)
	}
	rss, err := strconv.ParseInt(strings.Fields(after(string(text), "VmRSS:"))[0], 10, 64)
	if err != nil {
		h.t.Fatal(err)
	}
	goroutines, err := strconv.ParseFloat(strings.Fields(after(string(must(h.t, h.ctx, 200, "GET", s.URL+"/metrics", "").Body), "\ngo_goroutines "))[0], 64)
	if err != nil {
		h.t.Fatal(err)
	}
	clients := strings.Count(h.redis.Client().ClientList(h.ctx).Val(), "\n") - 1 // one asks
	return usage{rss << 10, len(files), int(goroutines), clients}
}

// after is what follows the first place of a word.
func after(text, word string) string {
	_, rest, _ := strings.Cut(text, word)
	return rest
}

// tick is what a ticker streams.
type tick struct {
	Index int64  `json:"index"`
	At    int64  `json:"at"` // nanoseconds since the epoch
	Text  string `json:"text,omitempty"`
}

// A thousand viewers of one execution get all of it, and in time.
func TestCrowdedExecution(t *testing.T) {
	viewers, ticks := faultkit.Count(t, 200, 1000), faultkit.Count(t, 100, 500)
	h := newTheater(t)
	ids := h.play(1, func(int) string { return fmt.Sprintf(`{"Offset":3000,"Every":40,"Count":%d}`, ticks) })
	h.audience.tell(order{Do: "join", Addr: h.addr, IDs: ids, Each: viewers})
	h.atRest()
	var seen impression
	eventually(t, h.ctx, "all have seen the end", func() bool {
		now := h.audience.tell(order{Do: "report"})
		seen.Chunks, seen.Ends, seen.Gaps, seen.Breaks, seen.Lost = seen.Chunks+now.Chunks, seen.Ends+now.Ends, seen.Gaps+now.Gaps, seen.Breaks+now.Breaks, seen.Lost+now.Lost
		seen.P99 = max(seen.P99, now.P99)
		return now.Viewers == 0
	})
	t.Logf("figures: %d viewers of one execution, 25 chunks a second: %d chunks seen, p99 at most %s", viewers, seen.Chunks, seen.P99)
	if seen.Chunks != viewers*ticks || seen.Ends != viewers || seen.Gaps+seen.Breaks+seen.Lost != 0 {
		t.Errorf("%+v, want %d chunks and %d ends", seen, viewers*ticks, viewers)
	}
}
