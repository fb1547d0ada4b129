package httpapi

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/contracttest"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/sse"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/faultstore"
	"github.com/windrow-run/windrow/internal/stream"
)

// outline is what a stream said, without what differs from run to run.
func outline(events []sse.Event) (lines []string) {
	for _, e := range events {
		var data struct {
			Status  string          `json:"status"`
			Payload json.RawMessage `json:"payload"`
			Kind    string          `json:"kind"`
			Code    string          `json:"code"`
		}
		_ = json.Unmarshal([]byte(e.Data), &data) // the contract is held by the client
		switch e.Name {
		case "status":
			lines = append(lines, "status "+data.Status)
		case "error":
			lines = append(lines, "error "+data.Code)
		default:
			lines = append(lines, strings.TrimSpace(e.Name+" "+string(data.Payload)+data.Kind))
		}
	}
	return lines
}

// A stream begins with the time and the place to come back to, and has the headers that keep it flowing.
func TestStreamBegins(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.submit("tell", `"a"`)
	r.release <- struct{}{}
	a := r.call("GET", path+"/stream", "")
	begins := regexp.MustCompile(`^retry: (\d+)\n\nid: \d+-\d+-\d+-\d+\n\n`).FindStringSubmatch(a.body)
	if begins == nil {
		t.Fatalf("begins with %.100q", a.body)
	}
	if ms, err := strconv.Atoi(begins[1]); err != nil || ms < 500 || ms >= 1500 {
		t.Errorf("retry is %s, want about a second", begins[1])
	}
	want := map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform",
		"X-Accel-Buffering": "no", "Content-Encoding": "", "X-Content-Type-Options": "nosniff"}
	for name, value := range want {
		if got := a.header.Get(name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	events := r.metrics.eventsSent()
	if events["completed"] != 1 || events["chunk"] != 1 || events[""]+events["opened"]+events["keepalive"] != 0 {
		t.Errorf("counted %v", events)
	}
}

// A viewer goes on after each event by its id, wherever the id comes from; the header counts before the query.
func TestCursors(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.submit("tell", `"a"`)
	r.follow(path, "progress")
	r.release <- struct{}{}
	r.await(path, execution.Completed)
	_, all := r.follow(path, "")
	for i, event := range all[:len(all)-1] {
		want := outline(all[i+1:])
		for name, test := range map[string]struct {
			query   string
			headers []string
		}{
			"header":               {"", []string{"Last-Event-ID: " + event.ID}},
			"query":                {"?cursor=" + event.ID, nil},
			"header before query":  {"?cursor=" + all[len(all)-1].ID, []string{"Last-Event-ID: " + event.ID}},
			"header before no one": {"?cursor=nonsense", []string{"Last-Event-ID: " + event.ID}},
			"empty header":         {"?cursor=" + event.ID, []string{"Last-Event-ID: "}},
		} {
			response := r.open("GET", path+"/stream"+test.query, "", test.headers...)
			got := outline(r.read(response, ""))
			response.Body.Close()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("after %s, by %s (-want +got):\n%s", event.ID, name, diff)
			}
		}
	}
}

// Only the id of the terminal event of this very execution, once it has ended, leaves nothing to say.
func TestNothingMore(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.submit("tell", `"a"`)
	r.release <- struct{}{}
	r.await(path, execution.Completed)
	other := r.running()
	end, _ := r.follow(path, "")
	if !strings.HasSuffix(end, "-end") {
		t.Fatalf("the terminal event has the id %q", end)
	}
	if a := r.call("GET", path+"/stream?cursor="+end, ""); a.status != 204 || a.body != "" {
		t.Errorf("after the end: %d %s", a.status, a.body)
	}
	for _, cursor := range []string{"", "5-end", "0-end", "5-5-0-0"} {
		if _, events := r.follow(path, "", "Last-Event-ID: "+cursor); events[len(events)-1].Name != "completed" {
			t.Errorf("after %q: %v", cursor, outline(events))
		}
	}
	if _, events := r.follow(other, "running", "Last-Event-ID: "+end); events[0].Name != "gap" {
		t.Errorf("of another execution that runs: %v", outline(events))
	}
}

// A cursor of another execution is a gap, and brings nothing of it.
func TestCursorOfAnother(t *testing.T) {
	t.Parallel()
	r := start(t)
	theirs, mine := r.submit("tell", `"theirs"`), r.submit("tell", `"mine"`)
	r.release <- struct{}{}
	r.release <- struct{}{}
	r.await(theirs, execution.Completed)
	r.await(mine, execution.Completed)
	_, all := r.follow(theirs, "")
	for _, event := range append(all, sse.Event{ID: "1-1-0-0"}) {
		a := r.call("GET", mine+"/stream", "", "Last-Event-ID: "+event.ID)
		if a.status == http.StatusOK && (strings.Contains(a.body, "theirs") || !strings.Contains(a.body, "event: completed\n")) {
			t.Errorf("after %s: %d %s", event.ID, a.status, a.body)
		}
	}
	if _, events := r.follow(mine, "", "Last-Event-ID: 1-1-0-0"); events[0].Name != "gap" {
		t.Errorf("no gap: %v", outline(events))
	}
}

func TestMalformedCursors(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.submit("echo", "1")
	for _, cursor := range []string{"x", "1", "1-2", "1-2-3", "1-2-3-4-5", "-1-2-3-4", "01-2-3-4", "1-2-3--4", "1-2-3-99999", "1-end-", "end",
		"1-2-3-18446744073709551616", "%00", "1-2-3-4%0A", strings.Repeat("1", 101), "1%2C2-3-4-5"} {
		a := r.call("GET", path+"/stream?cursor="+cursor, "")
		if p := r.problem(a); a.status != 400 || p.Code != "invalid_cursor" || p.Detail == "" {
			t.Errorf("%s: %d %s", cursor, a.status, a.body)
		}
	}
	for _, twice := range []reply{r.call("GET", path+"/stream?cursor=1-end&cursor=2-end", ""),
		r.call("GET", path+"/stream", "", "Last-Event-ID: 1-end", "Last-Event-ID: 2-end")} {
		if p := r.problem(twice); twice.status != 400 || p.Code != "invalid_request" {
			t.Errorf("two cursors: %d %s", twice.status, twice.body)
		}
	}
	if r.metrics.opened != 0 {
		t.Errorf("%d viewers", r.metrics.opened)
	}
}

// A server that goes away tells its viewers so, and they come back to where they were.
func TestStreamEndsWithServer(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.running()
	response := r.open("GET", path+"/stream", "")
	defer response.Body.Close()
	r.metrics.until(t, func(m *tally) bool { return m.open["hold"] == 1 })
	r.hub.Close()
	events := r.read(response, "")
	last := events[len(events)-1]
	var p contract.Problem
	r.must(json.Unmarshal([]byte(last.Data), &p))
	if last.Name != "error" || p.Code != "draining" || p.Status != 503 || p.Detail != "The server is shutting down; reconnect to go on." {
		t.Errorf("ended with %+v", last)
	}
	r.metrics.until(t, func(m *tally) bool { return m.open["hold"] == 0 && m.events["error"] == 1 && m.cut == 0 })
}

// Every reason for which a stream breaks off is told as a problem of its own, without an id.
func TestInterruptions(t *testing.T) {
	t.Parallel()
	for reason, want := range map[stream.Reason]string{
		stream.ReasonShutdown:   `"code":"draining","detail":"The server is shutting down; reconnect to go on.","status":503`,
		stream.ReasonSlow:       `"code":"stream_interrupted","detail":"The stream was not read fast enough; reconnect to go on.","status":503`,
		stream.ReasonUnreadable: `"code":"stored_state_invalid","detail":"The stored events can't be read.","status":500`,
		stream.ReasonErased:     `"code":"not_found","detail":"The execution does not exist any more.","status":404`,
		"made up":               `"code":"internal","detail":"The stream broke off.","status":500`,
	} {
		frame := string(render(&stream.Interrupted{Reason: reason}))
		if !strings.HasPrefix(frame, "event: error\ndata: {"+want) || !strings.HasSuffix(frame, "}\n\n") {
			t.Errorf("%s: %s", reason, frame)
		}
	}
}

// What is no event of a client's is a comment, and what has no place of its own leaves the id as it was.
func TestFrames(t *testing.T) {
	t.Parallel()
	for want, event := range map[string]stream.Event{
		": keepalive\n\n": &stream.Keepalive{},
		"event: gap\ndata: {\"detail\":\"Something is lost.\"}\n\n": &stream.Gap{Detail: "something is lost"},
		"event: status\ndata: {\"status\":\"queued\",\"attempt\":1,\"sequence\":4,\"available_at\":\"1970-01-01T00:00:01.000Z\"}\n\n": &stream.Status{
			StatusEntry: execution.StatusEntry{Status: execution.Queued, Attempt: 1, Version: 4, AvailableAt: 1000}},
		"event: status\ndata: {\"status\":\"waiting\",\"attempt\":1,\"sequence\":4}\n\n": &stream.Status{
			StatusEntry: execution.StatusEntry{Status: execution.Waiting, Attempt: 1, Version: 4, Wait: []byte("{")}},
	} {
		if got := string(render(event)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A client that goes away takes its viewer with it.
func TestClientGoesAway(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.running()
	var open []*http.Response
	for range 20 {
		open = append(open, r.open("GET", path+"/stream", ""))
	}
	r.metrics.until(t, func(m *tally) bool { return m.open["hold"] == 20 })
	for _, response := range open {
		response.Body.Close()
	}
	r.metrics.until(t, func(m *tally) bool { return m.open["hold"] == 0 && m.opened == 20 && m.cut == 0 })
}

// A viewer that stops reading is cut, so that it holds nothing, and is counted.
func TestViewerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	const chunks = 400
	r := start(t, func(s *setup) {
		s.api.SendTimeout = 100 * time.Millisecond
		s.limits = store.Limits{HistoryChunks: chunks, HistoryBytes: 100_000_000}
		s.runtime.HistoryChunks, s.runtime.HistoryBytes = chunks, 100_000_000
		s.hub.BufferEvents, s.hub.BufferBytes = 10*chunks, 100_000_000 // it is the connection that is too slow, not the hub
		s.accept = func(c net.Conn) {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetWriteBuffer(10_000)
			}
		}
	})
	path := r.submit("flood", strconv.Itoa(chunks))
	r.await(path, execution.Completed)
	r.dial("GET " + path + "/stream HTTP/1.1\r\nHost: x\r\n\r\n")
	r.metrics.until(t, func(m *tally) bool { return m.cut == 1 && m.open["flood"] == 0 })
}

// A client of HTTP/1.0 knows no chunks: its stream ends with the connection.
func TestStreamOverHTTP10(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.submit("tell", `"a"`)
	reader := bufio.NewReader(r.dial("GET " + path + "/stream HTTP/1.0\r\n\r\n"))
	response, err := http.ReadResponse(reader, nil)
	r.must(err)
	defer response.Body.Close()
	r.release <- struct{}{}
	body, err := io.ReadAll(response.Body)
	r.must(err)
	if len(response.TransferEncoding) != 0 || !strings.Contains(string(body), "event: completed\n") {
		t.Errorf("%v %s", response.TransferEncoding, body)
	}
	r.must(r.keeper.Check(contracttest.Response{Method: "GET", Path: path + "/stream", Status: response.StatusCode,
		Header: response.Header, Body: body}))
}

// Silence is broken by comments, and a request that has a body where none is asked for is followed as long as any other.
func TestStreamWithBodyIsNotHurried(t *testing.T) {
	t.Parallel()
	const timeout = 50 * time.Millisecond
	r := start(t, func(s *setup) {
		s.api.BodyTimeout = timeout
		s.hub.Keepalive = 3 * timeout
	})
	path := r.running()
	reader := bufio.NewReader(r.dial("GET " + path + "/stream HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"))
	until := func(word string) {
		for {
			line, err := reader.ReadString('\n')
			if err != nil {
				t.Fatalf("no %s: %v", word, err)
			}
			if strings.HasPrefix(line, word) {
				return
			}
		}
	}
	until(": keepalive")
	r.release <- struct{}{}
	until("event: completed")
}

// What a panic leaves of a stream breaks off, so that nobody takes it for whole, and the viewer is gone.
func TestPanicInStream(t *testing.T) {
	t.Parallel()
	r := start(t, func(s *setup) { s.api.Metrics = panicking{s.api.Metrics} })
	path := r.running()
	response := r.open("GET", path+"/stream", "")
	_, err := io.ReadAll(response.Body)
	response.Body.Close()
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("ended with %v", err)
	}
	r.metrics.until(t, func(m *tally) bool { return m.opened == 1 && m.open["hold"] == 0 })
}

type panicking struct{ Metrics }

func (panicking) StreamEvent(string) { panic("secret") }

// A wait that a stream or a read has shown is answered in one exchange; one that nobody was shown takes another.
func TestShownWaitIsRemembered(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		show func(r *rig, path string)
		want int
	}{
		"stream": {func(r *rig, path string) { r.follow(path, "waiting") }, 1},
		"read":   {func(r *rig, path string) { r.call("GET", path, "") }, 1},
		"nobody": {func(*rig, string) {}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			path := r.submit("ask", `{"type":"integer"}`)
			viewer, err := r.hub.Subscribe(t.Context(), stream.Request{ID: path[len(executionsPath):], Scope: store.Scope{All: true}})
			r.must(err)
			defer viewer.Close()
			for waits := false; !waits; {
				event, err := viewer.Next(t.Context())
				r.must(err)
				status, ok := event.(*stream.Status)
				waits = ok && status.Status == execution.Waiting
			}
			test.show(r, path)
			if a := r.call("POST", path+"/resume", `{"input":7}`); a.status != 202 {
				t.Fatalf("answered %d %s", a.status, a.body)
			}
			if got := r.store.Calls(faultstore.Resume); got != test.want {
				t.Errorf("%d exchanges, want %d", got, test.want)
			}
		})
	}
}

// The log has no id of an execution, no cursor and nothing that a client sent or got.
func TestLogHasNoSecrets(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.submit("tell", `"s3cret"`)
	r.release <- struct{}{}
	r.await(path, execution.Completed)
	end, _ := r.follow(path, "")
	r.call("GET", path+"/stream?cursor="+end, "")
	r.call("POST", path+"/resume", `{"input":"s3cret"}`, "Idempotency-Key: s3cret")
	r.call("POST", path+"/cancel", `{"s3cret":1}`)
	r.call("GET", "/v1/executions/s3cret%2F", "")
	r.call("GET", "/s3cret", "")
	r.server.Close() // every request is logged by then
	lines := r.journal.lines(t)
	for _, line := range lines {
		for _, value := range line {
			text, _ := value.(string)
			if strings.Contains(text, "s3cret") || strings.Contains(text, path[len(executionsPath):]) || strings.Contains(text, end) {
				t.Errorf("logged %v", line)
			}
		}
	}
	if len(lines) != 8 {
		t.Errorf("%d lines", len(lines))
	}
}
