package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/faultkit"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/sse"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// keepAll are the arguments of servers that keep all that these tests stream.
func keepAll(more ...string) []string {
	return append([]string{"--history-chunks", "10000", "--history-bytes", "100MB", "--max-nonterminal", "0"}, more...)
}

// chronicle is what a viewer of all chunks of an execution must have seen of them, by what stands in Redis: ids and data.
func (f *fleet) chronicle(s *redis.Store, id string) []byte {
	f.t.Helper()
	var out []byte
	var from execution.LogID
	for {
		r, err := s.Read(f.ctx, store.ReadRequest{ID: id, Scope: store.Scope{All: true}, Log: true, LogFrom: from, LogLimit: 1000})
		if err != nil {
			f.t.Fatal(err)
		}
		for _, e := range r.Log {
			if e.Kind != execution.EntryChunks || e.ID == from {
				continue
			}
			b, err := execution.DecodeChunkBatch(e.Data)
			if err != nil {
				f.t.Fatal(err)
			}
			for n, chunk := range b.Chunks {
				at := execution.Cursor{Epoch: r.Control.LogEpoch, Entry: e.ID, Chunk: int64(n)}
				out = line(out, at.String(), fmt.Sprintf(`{"attempt":%d,"payload":%s}`, b.Attempt, chunk))
			}
		}
		if len(r.Log) < 1000 {
			return out
		}
		from = r.Log[len(r.Log)-1].ID
	}
}

// line appends what is compared of an event.
func line(dst []byte, id, data string) []byte {
	return append(append(append(append(dst, id...), ' '), data...), '\n')
}

// logs opens the fleet's store, past its servers.
func (f *fleet) logs() *redis.Store {
	f.t.Helper()
	s, err := redis.New(redis.Config{URL: f.redis.URL(), Prefix: "windrow"})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = s.Close() }) // nothing is left to be lost
	if err := s.Open(f.ctx); err != nil {
		f.t.Fatal(err)
	}
	return s
}

// shortConn is cut once so many bytes were read from it.
type shortConn struct {
	net.Conn
	left int
	cut  *atomic.Bool
}

func (c *shortConn) Read(p []byte) (int, error) {
	if c.left == 0 {
		c.cut.Store(true)
		_ = c.Close() // so that the server learns of it too
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// restless is a viewer whose connections are cut, each after a random number of bytes, as long as it has cuts left.
type restless struct {
	fleet *fleet
	id    string
	cuts  int
	most  int         // bytes of a connection that is cut
	cut   atomic.Bool // the connection that was made last

	cursor string
	seen   []byte // the chunks, as line has them
	gaps   int
	ends   int
}

// watch goes on, from server to server, until it has seen the end.
func (v *restless) watch() error {
	for v.ends == 0 {
		err := v.connect()
		if err := v.fleet.ctx.Err(); err != nil {
			return fmt.Errorf("%d cuts are left: %w", v.cuts, err)
		}
		switch {
		case v.cut.Swap(false): // whatever the HTTP client makes of it
			v.cuts--
		case err != nil:
			return err
		}
	}
	if code, err := v.again(); err != nil || code != http.StatusNoContent {
		return fmt.Errorf("after the end: %d, %w", code, err)
	}
	return nil
}

// connect follows over one connection, until it ends.
func (v *restless) connect() error {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: v.dial}
	defer transport.CloseIdleConnections()
	resp, err := v.get(transport)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	in := sse.NewReaderAfter(resp.Body, v.cursor, 0)
	for v.ends == 0 {
		e, err := in.Next()
		v.cursor = in.LastID()
		switch {
		case errors.Is(err, io.EOF):
			return errors.New("the server ended the stream")
		case err != nil:
			return err
		}
		switch e.Name {
		case "chunk":
			v.seen = line(v.seen, e.ID, e.Data)
		case "gap":
			v.gaps++
		case "completed":
			v.ends++
		}
	}
	return nil
}

func (v *restless) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil || v.cuts == 0 {
		return conn, err
	}
	return &shortConn{conn, 1 + rand.IntN(v.most), &v.cut}, nil
}

func (v *restless) get(transport http.RoundTripper) (*http.Response, error) {
	req, err := http.NewRequestWithContext(v.fleet.ctx, http.MethodGet, v.fleet.url()+"/v1/executions/"+v.id+"/stream", nil)
	if err != nil {
		return nil, err
	}
	if v.cursor != "" {
		req.Header.Set("Last-Event-ID", v.cursor)
	}
	return transport.RoundTrip(req)
}

// again is what a viewer is answered that comes back after the end.
func (v *restless) again() (int, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := v.get(transport)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// Viewers come at random moments, are cut at random bytes, and go on with another server, while a thousand chunks a second are
// written. What each of them has seen, joined, is the log.
func TestCutViewers(t *testing.T) {
	const executions, rate = 10, 100 // chunks a second of each
	viewers, cuts, seconds := faultkit.Count(t, 40, 200), faultkit.Count(t, 10, 50), faultkit.Count(t, 5, 60)
	f := newFleet(t, 2, redistest.Options{}, startHard, keepAll("--slots", "20")...)
	ids := make([]string, executions)
	begin := time.Now()
	for i := range ids {
		ids[i] = f.submit("ticker", fmt.Sprintf(`{"Offset":0,"Every":%d,"Count":%d,"Bytes":40}`, 1000/rate, seconds*rate))
	}
	all := make([]*restless, viewers)
	var joined sync.WaitGroup
	var early atomic.Int64 // cuts that were spent before the end of the work
	for i := range all {
		v := &restless{fleet: f, id: ids[i%executions], cuts: cuts, most: 2 * seconds * rate * 100 / cuts}
		all[i] = v
		joined.Go(func() {
			moment := time.NewTimer(rand.N(time.Duration(seconds) * time.Second / 2))
			defer moment.Stop()
			<-moment.C
			if err := v.watch(); err != nil {
				t.Error(err)
			}
			early.Add(int64(cuts - v.cuts))
		})
	}
	joined.Wait()
	took := time.Since(begin)
	s := f.logs()
	chunks := 0
	for i, id := range ids {
		want := f.chronicle(s, id)
		chunks += bytes.Count(want, []byte{'\n'})
		if n := bytes.Count(want, []byte{'\n'}); n != seconds*rate {
			t.Errorf("%d chunks stand in the log, want %d", n, seconds*rate)
		}
		for n := i; n < viewers; n += executions {
			if v := all[n]; !bytes.Equal(v.seen, want) || v.gaps != 0 {
				t.Errorf("viewer %d has seen %d bytes of %d, with %d gaps; they differ from byte %d on", n, len(v.seen), len(want), v.gaps, common(v.seen, want))
			}
		}
	}
	t.Logf("figures: %d viewers were cut %d times while %d chunks were written in %s", viewers, early.Load(), chunks, took.Round(time.Second))
	if n := early.Load(); n < int64(viewers*cuts*9/10) {
		t.Errorf("only %d cuts", n)
	}
}

// common is how many bytes two texts have in common.
func common(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// busiest is the most that happened within one second.
func busiest(moments []time.Time) int {
	slices.SortFunc(moments, time.Time.Compare)
	most, from := 0, 0
	for to, m := range moments {
		for m.Sub(moments[from]) >= time.Second {
			from++
		}
		most = max(most, to-from+1)
	}
	return most
}

// A server is restarted under its viewers. They come back over the window that it named, not together, and each ends with all that
// stands in the log.
func TestRestartUnderViewers(t *testing.T) {
	executions, each, ticks := faultkit.Count(t, 20, 100), faultkit.Count(t, 10, 50), faultkit.Count(t, 40, 45)
	every := faultkit.Count(t, 200, 1000)
	const middle = 2 * time.Second // of the window
	h := newTheater(t, keepAll("--addr", freeAddr(t), "--reconnect", middle.String(), "--shutdown-grace", "200ms")...)
	ids := h.play(executions, func(i int) string {
		return fmt.Sprintf(`{"Offset":%d,"Every":%d,"Count":%d}`, i*every/executions, every, ticks)
	})
	h.audience.tell(order{Do: "join", Addr: h.addr, IDs: ids, Each: each, Return: true})
	var seen impression
	look := func() (viewers int) {
		now := h.audience.tell(order{Do: "report"})
		seen.Chunks, seen.Gaps, seen.Ends, seen.Breaks = seen.Chunks+now.Chunks, seen.Gaps+now.Gaps, seen.Ends+now.Ends, seen.Breaks+now.Breaks
		seen.Lost, seen.Refusals = seen.Lost+now.Lost, seen.Refusals+now.Refusals
		seen.Returns, seen.Waits = append(seen.Returns, now.Returns...), append(seen.Waits, now.Waits...)
		seen.Digests = append(seen.Digests, now.Digests...)
		return now.Viewers
	}
	viewers := executions * each
	eventually(t, h.ctx, "all have seen something", func() bool { look(); return seen.Chunks > 2*viewers })
	begin := time.Now()
	h.down(0).stop(t, 10*time.Second)
	away := time.Since(begin)
	h.replace(0)
	eventually(t, h.ctx, "all have seen the end", func() bool { look(); return seen.Ends == viewers })
	if len(seen.Returns) != viewers || seen.Lost < viewers || seen.Gaps+seen.Breaks != 0 {
		t.Fatalf("%d came back; %+v", len(seen.Returns), seen)
	}
	most, spread := busiest(seen.Returns), seen.Returns[len(seen.Returns)-1].Sub(seen.Returns[0])
	t.Logf("figures: %d viewers, away for %s, were let in again within %s, at most %d of them in a second", viewers, away.Round(time.Millisecond),
		spread.Round(time.Millisecond), most)
	named := make([]time.Time, viewers) // when each would come back to a server that is there at once
	for i, wait := range seen.Waits {
		named[i] = begin.Add(wait)
	}
	most = busiest(named)
	if shortest, longest := slices.Min(seen.Waits), slices.Max(seen.Waits); shortest < middle/2 || longest >= 3*middle/2 || most > viewers*3/4 {
		t.Errorf("viewers are told to come back after %s to %s, %d of %d within one second", shortest, longest, most, viewers)
	}
	s := h.logs()
	for _, id := range ids {
		want := fmt.Sprintf("%s %x", id, sha256.Sum256(h.chronicle(s, id)))
		n := 0
		for _, digest := range seen.Digests {
			if digest == want {
				n++
			}
		}
		if n != each {
			t.Errorf("%d of %d viewers of %s have seen what its log holds", n, each, id)
		}
	}
}
