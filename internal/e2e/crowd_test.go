//go:build !race

package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/faultkit"
)

// What viewers cost and how soon they are told. The race detector multiplies both, so they are held without it.

// Ten thousand viewers of a thousand executions cost few connections and little memory, and see what is streamed soon. When they have
// left nothing of them is left.
func TestBudgetManyViewers(t *testing.T) {
	executions, each, watched := faultkit.Count(t, 100, 1000), 10, time.Duration(faultkit.Count(t, 5, 30))*time.Second
	h := newTheater(t)
	ids := h.play(executions, func(i int) string { // ten ticks a second in all
		return fmt.Sprintf(`{"Offset":%d,"Every":%d,"Count":100000}`, i*100, executions*100)
	})
	h.audience.tell(order{Do: "join", Addr: h.addr, IDs: ids[:100], Each: 1}) // so that pools are as large as they become
	h.audience.tell(order{Do: "leave"})
	empty := h.usage()
	joined := h.audience.tell(order{Do: "join", Addr: h.addr, IDs: ids, Each: each})
	viewers := executions * each
	if joined.Viewers != viewers || joined.Refusals+joined.Lost != 0 {
		t.Fatalf("%+v, want %d viewers", joined, viewers)
	}
	timer := time.NewTimer(watched)
	defer timer.Stop()
	<-timer.C
	seen := h.audience.tell(order{Do: "report"})
	full := h.usage()
	t.Logf("figures: %d viewers of %d executions: %d connections to Redis (%d before), %d bytes a viewer, delay of a chunk: median %s, p99 %s, %d chunks seen",
		viewers, executions, full.connections, empty.connections, (full.rss-empty.rss)/int64(viewers), seen.Median, seen.P99, seen.Chunks)
	if full.connections > 64 {
		t.Errorf("%d connections to Redis, at most 64", full.connections)
	}
	if growth := (full.rss - empty.rss) / int64(viewers); growth > 36_000 {
		t.Errorf("%d bytes a viewer, at most 36,000", growth)
	}
	if seen.Chunks < viewers/10 || seen.P99 > 500*time.Millisecond || seen.Lost+seen.Gaps+seen.Breaks != 0 {
		t.Errorf("%+v", seen)
	}
	h.audience.tell(order{Do: "leave"})
	eventually(t, h.ctx, "nothing is left of the viewers", func() bool {
		u := h.usage()
		return u.goroutines <= empty.goroutines+10 && u.files <= empty.files+10 && u.connections <= empty.connections+4
	})
	h.down(0).kill()
}

// A viewer that stops reading is cut, and delays nobody: it would by the 10 s that the server gives a write.
func TestBudgetStalledViewer(t *testing.T) {
	h := newTheater(t)
	ids := h.play(1, func(int) string { return `{"Offset":2000,"Every":40,"Count":1000,"Bytes":60000}` })
	conn, err := net.Dial("tcp", h.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /v1/executions/%s/stream HTTP/1.1\r\nHost: stalled\r\n\r\n", ids[0])
	h.audience.tell(order{Do: "join", Addr: h.addr, IDs: ids, Each: 5})
	begin := time.Now()
	eventually(t, h.ctx, "it is cut", func() bool {
		return strings.Contains(string(must(t, h.ctx, 200, "GET", h.url()+"/metrics", "").Body), "windrow_stream_viewers_cut_total 1")
	})
	took := time.Since(begin)
	seen := h.audience.tell(order{Do: "report"})
	t.Logf("figures: cut after %s; the others saw %d chunks of 60,000 bytes, p99 %s", took, seen.Chunks, seen.P99)
	if took > 30*time.Second || seen.P99 > time.Second || seen.Viewers != 5 || seen.Gaps+seen.Breaks+seen.Lost != 0 {
		t.Errorf("%s, %+v", took, seen)
	}
	h.down(0).kill()
}
