package httpapi

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// meter counts what a server writes to its connections.
type meter struct {
	net.Listener
	writes, bytes atomic.Int64
}

func (m *meter) around(l net.Listener) net.Listener {
	m.Listener = l
	return m
}

func (m *meter) Accept() (net.Conn, error) {
	c, err := m.Listener.Accept()
	return &metered{c, m}, err
}

type metered struct {
	net.Conn
	of *meter
}

func (c *metered) Write(p []byte) (int, error) {
	c.of.writes.Add(1)
	c.of.bytes.Add(int64(len(p)))
	return c.Conn.Write(p)
}

// What is kept of a stream is replayed in few writes, however many events it is: each write costs the server and every proxy.
func TestBudgetReplay(t *testing.T) {
	t.Parallel()
	const chunks = 1000
	m := &meter{}
	r := start(t, func(s *setup) {
		s.limits = store.Limits{HistoryChunks: 2 * chunks, HistoryBytes: 10_000_000}
		s.runtime.HistoryChunks, s.runtime.HistoryBytes = s.limits.HistoryChunks, s.limits.HistoryBytes
		s.listen = m.around
	})
	path := r.submit("tokens", strconv.Itoa(chunks))
	r.await(path, execution.Completed)
	writes, bytes := m.writes.Load(), m.bytes.Load()
	a := r.call("GET", path+"/stream", "")
	writes, bytes = m.writes.Load()-writes, m.bytes.Load()-bytes
	if n := strings.Count(a.body, "event: chunk\n"); n != chunks {
		t.Fatalf("%d chunks", n)
	}
	t.Logf("%d chunks: %d writes, %d bytes for a body of %d", chunks, writes, bytes, len(a.body))
	// Each burst is written as it is with a few bytes around it, and each page of the log begins a burst.
	if most := int64(4*len(a.body)/burstBytes + 40); writes > most {
		t.Errorf("%d writes, at most %d", writes, most)
	}
}

// Viewers choose what they are told; what ends a stream always comes, and a cursor leads on from wherever it stands.
func TestChosenEvents(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.submit("tell", `"a"`)
	r.follow(path, "progress")
	r.release <- struct{}{}
	r.await(path, execution.Completed)
	answered := r.waiting("true")
	r.call("POST", answered+"/resume", `{"input":1}`)
	r.await(answered, execution.Completed)
	r.choose(path, "chunk", "progress")
	r.choose(answered, "status")
	for _, events := range []string{"chunks", "status,", "status,,chunk", "message", "Status", strings.Repeat("gap,", 8) + "gap"} {
		a := r.call("GET", path+"/stream?events="+events, "")
		if p := r.problem(a); a.status != 400 || p.Code != "invalid_request" {
			t.Errorf("%q: %d %s", events, a.status, a.body)
		}
	}
	if a := r.call("GET", path+"/stream?events=status&events=chunk", ""); a.status != 400 {
		t.Errorf("two lists: %d %s", a.status, a.body)
	}
}

// choose follows an execution, of which those events are kept, by all kinds of choices.
func (r *rig) choose(path string, kept ...string) {
	r.Helper()
	_, every := r.follow(path, "")
	whole := outline(every)
	for _, name := range kept {
		if !slices.ContainsFunc(whole, func(line string) bool { return strings.HasPrefix(line, name) }) {
			r.Fatalf("no %s in %v", name, whole)
		}
	}
	for events, told := range map[string][]string{
		"status,progress,chunk": {"status", "progress", "chunk"}, "status": {"status"}, "progress,chunk": {"progress", "chunk"},
		"progress,progress": {"progress"}, "completed": nil, "gap,error": nil, "": nil,
	} {
		response := r.open("GET", path+"/stream?events="+events, "")
		all := r.read(response, "")
		response.Body.Close()
		got := outline(all)
		want := slices.DeleteFunc(slices.Clone(whole), func(line string) bool {
			name, _, _ := strings.Cut(line, " ")
			return name != "completed" && !slices.Contains(told, name)
		})
		if diff := cmp.Diff(want, got); diff != "" {
			r.Errorf("%q (-want +got):\n%s", events, diff)
		}
		for i, event := range all[:len(all)-1] {
			response := r.open("GET", path+"/stream?events="+events, "", "Last-Event-ID: "+event.ID)
			rest := outline(r.read(response, ""))
			response.Body.Close()
			if diff := cmp.Diff(got[i+1:], rest); diff != "" {
				r.Errorf("%q after %d (-want +got):\n%s", events, i, diff)
			}
		}
	}
}
