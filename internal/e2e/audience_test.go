package e2e

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// serveAudience is the variable that makes this test binary an audience: very many viewers in a process of their own, told
// what to do on its standard input, and telling on its standard output.
const serveAudience = "WINDROW_E2E_SERVE_AUDIENCE"

// order is what an audience is told to do: join, with so many viewers of each execution; report; or leave.
type order struct {
	Do     string
	Addr   string
	IDs    []string
	Each   int
	Return bool // who is cut off comes back, after the time that the server named
}

// impression is what an audience has seen since the last report.
type impression struct {
	Viewers        int // now connected
	Chunks, Ends   int
	Gaps, Breaks   int // shown, and not shown though a chunk is missing
	Median, P99    time.Duration
	Error          string
	Lost, Refusals int // connections that ended before the end was seen, and answers other than 200

	Returns []time.Time     // when viewers that came back were let in
	Waits   []time.Duration // that the server had named to each of them
	Digests []string        // of the chunks that a viewer has seen, by its end: the execution's id and the SHA-256 of what line has of them
}

// audience is the other process.
type audience struct {
	t     testing.TB
	in    *json.Encoder
	out   *json.Decoder
	stdin io.Closer
	cmd   *exec.Cmd
}

func newAudience(t testing.TB) *audience {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveAudience+"=1")
	cmd.Stderr = os.Stderr
	stdin, errIn := cmd.StdinPipe()
	stdout, errOut := cmd.StdoutPipe()
	if errIn != nil || errOut != nil {
		t.Fatal(errIn, errOut)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a := &audience{t, json.NewEncoder(stdin), json.NewDecoder(stdout), stdin, cmd}
	t.Cleanup(func() {
		_ = a.stdin.Close() // it ends with its input
		_ = a.cmd.Wait()    // the status of a process that was told to end
	})
	return a
}

func (a *audience) tell(o order) impression {
	a.t.Helper()
	var seen impression
	if err := a.in.Encode(o); err != nil {
		a.t.Fatal(err)
	}
	if err := a.out.Decode(&seen); err != nil {
		a.t.Fatal(err)
	}
	if seen.Error != "" {
		a.t.Fatalf("the audience: %s", seen.Error)
	}
	return seen
}

// hall is the audience's side.
type hall struct {
	mu       sync.Mutex // guards the following
	seen     impression
	delays   []time.Duration
	viewers  sync.WaitGroup
	conns    map[net.Conn]struct{}
	admitted chan struct{} // bounds the connections that are being made at once
}

// beAudience is the main function of the audience's process.
func beAudience() int {
	h := &hall{conns: map[net.Conn]struct{}{}, admitted: make(chan struct{}, 64)}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		if in.Decode(&o) != nil {
			return 0
		}
		if err := out.Encode(h.obey(o)); err != nil {
			return 1
		}
	}
}

func (h *hall) obey(o order) impression {
	switch o.Do {
	case "join":
		h.join(o)
	case "leave":
		h.mu.Lock()
		for conn := range h.conns {
			_ = conn.Close()
		}
		h.mu.Unlock()
		h.viewers.Wait()
	}
	return h.report()
}

func (h *hall) report() impression {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.seen
	out.Viewers = len(h.conns)
	if n := len(h.delays); n > 0 {
		slices.Sort(h.delays)
		out.Median, out.P99 = h.delays[n/2], h.delays[n*99/100]
	}
	h.seen, h.delays = impression{}, h.delays[:0]
	return out
}

// join returns when every viewer has its first bytes.
func (h *hall) join(o order) {
	var seated sync.WaitGroup
	for _, id := range o.IDs {
		for range o.Each {
			h.admitted <- struct{}{}
			seated.Add(1)
			h.viewers.Go(func() {
				first := sync.OnceFunc(func() { <-h.admitted; seated.Done() })
				defer first()
				h.watch(o, id, first)
			})
		}
	}
	seated.Wait()
}

func (h *hall) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen.Error = err.Error()
}

// seat is one viewer.
type seat struct {
	id      string
	cursor  string // its Last-Event-ID
	attempt int64
	last    int64 // number of the chunk that it saw last; -1: it may be any
	retry   time.Duration
	chunks  hash.Hash
}

// watch is the life of one viewer.
func (h *hall) watch(o order, id string, first func()) {
	v := &seat{id: id, last: -1, chunks: sha256.New()}
	for !h.visit(o.Addr, v, first) && o.Return {
		pause := time.NewTimer(v.retry)
		<-pause.C
	}
}

// visit is one connection of a viewer; it reports whether nothing is left to be seen.
func (h *hall) visit(addr string, v *seat, first func()) bool {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		if v.cursor == "" {
			h.fail(err)
		}
		return false // a server that is not there yet
	}
	defer conn.Close()
	h.mu.Lock()
	h.conns[conn] = struct{}{}
	h.mu.Unlock()
	ended := h.read(conn, v, first)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, conn)
	if !ended {
		h.seen.Lost++
	}
	return ended
}

// read follows over a connection; it reports whether the end was seen.
func (h *hall) read(conn net.Conn, v *seat, first func()) bool {
	fmt.Fprintf(conn, "GET /v1/executions/%s/stream HTTP/1.1\r\nHost: audience\r\nLast-Event-ID: %s\r\n\r\n", v.id, v.cursor)
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 1024), nil)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if !h.letIn(v, resp.StatusCode) {
		return false
	}
	lines := bufio.NewReaderSize(resp.Body, 1024)
	var e event
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			return false
		}
		first()
		field, value, _ := strings.Cut(strings.TrimSuffix(text, "\n"), ": ")
		switch field {
		case "retry":
			ms, _ := strconv.Atoi(value) // what is no number would be seen in the figures
			v.retry = time.Duration(ms) * time.Millisecond
		case "id":
			e.ID = value
		case "event":
			e.Name = value
		case "data":
			e.Data = value
		case "":
			if e.ID != "" {
				v.cursor = e.ID
			}
			if h.event(e, v) {
				return true
			}
			e = event{}
		}
	}
}

func (h *hall) letIn(v *seat, status int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case status != http.StatusOK:
		h.seen.Refusals++
		return false
	case v.cursor != "":
		h.seen.Returns, h.seen.Waits = append(h.seen.Returns, time.Now()), append(h.seen.Waits, v.retry)
	}
	return true
}

func (h *hall) event(e event, v *seat) (end bool) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch e.Name {
	case "chunk":
		var c struct {
			Attempt int64
			Payload tick
		}
		if err := json.Unmarshal([]byte(e.Data), &c); err != nil {
			h.seen.Error = err.Error()
			return true
		}
		h.seen.Chunks++
		h.delays = append(h.delays, now.Sub(time.Unix(0, c.Payload.At)))
		if v.attempt == c.Attempt && v.last >= 0 && c.Payload.Index != v.last+1 {
			h.seen.Breaks++
		}
		v.attempt, v.last = c.Attempt, c.Payload.Index
		v.chunks.Write(line(nil, e.ID, e.Data))
	case "gap":
		h.seen.Gaps++
		v.last = -1
	case "completed", "failed", "canceled":
		h.seen.Ends++
		h.seen.Digests = append(h.seen.Digests, fmt.Sprintf("%s %x", v.id, v.chunks.Sum(nil)))
		return true
	}
	return false
}
