package sse

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func mustAppend(tb testing.TB, dst []byte, event Event) []byte {
	tb.Helper()
	dst, err := AppendEvent(dst, event)
	if err != nil {
		tb.Fatal(err)
	}
	return dst
}

// readAll reads events until the stream ends.
func readAll(tb testing.TB, r *Reader) []Event {
	tb.Helper()
	var events []Event
	for {
		event, err := r.Next()
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			tb.Fatal(err)
		}
		events = append(events, event)
	}
}

// Frames are what they have always been: clients of other makers read them.
func TestFrames(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ got, want string }{
		"event":      {string(mustAppend(t, nil, Event{ID: "1-0", Name: "chunk", Data: `{"a":1}`})), "id: 1-0\nevent: chunk\ndata: {\"a\":1}\n\n"},
		"bare":       {string(mustAppend(t, nil, Event{Data: "x"})), "data: x\n\n"},
		"empty":      {string(mustAppend(t, nil, Event{Name: "n"})), "event: n\ndata: \n\n"},
		"lines":      {string(mustAppend(t, nil, Event{Data: "a\nb\r\nc\rd\n"})), "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"},
		"space":      {string(mustAppend(t, nil, Event{Data: " a"})), "data:  a\n\n"},
		"after":      {string(mustAppend(t, []byte("x\n\n"), Event{Data: "y"})), "x\n\ndata: y\n\n"},
		"retry":      {string(AppendRetry(nil, 1500*time.Millisecond)), "retry: 1500\n\n"},
		"no retry":   {string(AppendRetry(nil, -time.Second)), "retry: 0\n\n"},
		"comment":    {string(AppendComment(nil, "still here\r\nevent: x")), ": still here  event: x\n\n"},
		"no comment": {string(AppendComment(nil, "")), ": \n\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, test.got); diff != "" {
				t.Errorf("frame (-want +got):\n%s", diff)
			}
		})
	}
	id, err := AppendID(nil, "7-0")
	if err != nil || string(id) != "id: 7-0\n\n" {
		t.Errorf("priming frame %q, %v", id, err)
	}
}

// A text can't end its line and go on as another field.
func TestFramesRefuse(t *testing.T) {
	t.Parallel()
	for _, event := range []Event{{ID: "a\nb"}, {ID: "a\rb"}, {ID: "a\x00b"}, {Name: "a\nb"}, {Name: "a\rb"}} {
		if got, err := AppendEvent([]byte("kept"), event); err == nil || string(got) != "kept" {
			t.Errorf("%q: %q, %v", event, got, err)
		}
	}
	for _, id := range []string{"a\n", "\r", "\x00"} {
		if got, err := AppendID([]byte("kept"), id); err == nil || string(got) != "kept" {
			t.Errorf("id %q: %q, %v", id, got, err)
		}
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		stream string
		want   []Event
		last   string
	}{
		"nothing":              {"", nil, ""},
		"one":                  {"id: 1\nevent: e\ndata: d\n\n", []Event{{"1", "e", "d"}}, "1"},
		"carriage returns":     {"id: 1\rdata: a\r\rdata: b\r\n\r\n", []Event{{"1", "", "a"}, {"1", "", "b"}}, "1"},
		"byte order mark":      {"\xef\xbb\xbfdata: a\n\n", []Event{{Data: "a"}}, ""},
		"id alone":             {"id: 5\n\n", nil, "5"},
		"id stays":             {"id: 5\n\ndata: a\n\n", []Event{{"5", "", "a"}}, "5"},
		"id is taken back":     {"id: 5\ndata: a\n\nid\ndata: b\n\n", []Event{{"5", "", "a"}, {"", "", "b"}}, ""},
		"id with NUL":          {"id: 5\ndata: a\n\nid: \x00\ndata: b\n\n", []Event{{"5", "", "a"}, {"5", "", "b"}}, "5"},
		"cut off":              {"data: a\n\nid: 9\ndata: b\n", []Event{{Data: "a"}}, ""},
		"cut off in a line":    {"data: a\n\ndata: b", []Event{{Data: "a"}}, ""},
		"no space":             {"data:a\n\n", []Event{{Data: "a"}}, ""},
		"two spaces":           {"data:  a\n\n", []Event{{Data: " a"}}, ""},
		"no value":             {"data\n\n" + strings.Repeat("data\n", 2) + "\n", []Event{{Data: ""}, {Data: "\n"}}, ""},
		"comments and unknown": {": hi\n\nfoo: bar\ndata: a\n:\n\n", []Event{{Data: "a"}}, ""},
		"name without data":    {"event: e\n\ndata: a\n\n", []Event{{Data: "a"}}, ""},
		"colon in value":       {"data: a: b\n\n", []Event{{Data: "a: b"}}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, stream := range []io.Reader{strings.NewReader(test.stream), iotest.OneByteReader(strings.NewReader(test.stream))} {
				r := NewReader(stream, 0)
				if diff := cmp.Diff(test.want, readAll(t, r)); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				if r.LastID() != test.last {
					t.Errorf("last id %q, want %q", r.LastID(), test.last)
				}
			}
		})
	}
}

// A line is complete with its carriage return, though a line feed may follow: the event must not wait for what comes next.
func TestReaderDoesNotWaitForALineFeed(t *testing.T) {
	t.Parallel()
	in, out := io.Pipe()
	defer func() { _ = in.Close() }()
	go func() { _, _ = out.Write([]byte("data: a\r\r")) }() // ends when in is closed
	event, err := NewReader(in, 0).Next()
	if err != nil || event.Data != "a" {
		t.Errorf("event %v, %v", event, err)
	}
}

func TestReaderRetry(t *testing.T) {
	t.Parallel()
	r := NewReader(strings.NewReader("retry: 1500\n\nretry: soon\nretry: -1\nretry: 99999999999\ndata: a\n\n"), 0)
	readAll(t, r)
	if r.Retry() != 1500*time.Millisecond {
		t.Errorf("retry is %v", r.Retry())
	}
}

// A server can't make a client hold more than the limit.
func TestReaderLimit(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{"data: " + strings.Repeat("a", 100), strings.Repeat("data:\n", 100), ": " + strings.Repeat("a", 100)} {
		if _, err := NewReader(strings.NewReader(stream), 50).Next(); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%.20q: %v, want ErrTooLarge", stream, err)
		}
	}
	r := NewReader(strings.NewReader(strings.Repeat("data: abc\n\n", 100)), 50)
	if got := len(readAll(t, r)); got != 100 {
		t.Errorf("%d small events, want 100", got)
	}
}

func TestReaderError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	if _, err := NewReader(iotest.ErrReader(broken), 0).Next(); !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
}

func TestJitter(t *testing.T) {
	t.Parallel()
	for range 100 {
		if got := Jitter(time.Second); got < 500*time.Millisecond || got >= 1500*time.Millisecond {
			t.Fatalf("jitter is %v", got)
		}
	}
	if Jitter(0) != 0 || Jitter(-1) != 0 {
		t.Error("jitter of nothing is something")
	}
}

// What is sent arrives at once, event by event, while the handler still runs.
func TestWriterSendsAtOnce(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		w, err := NewWriter(response, time.Minute)
		if err != nil {
			t.Error(err)
			return
		}
		for _, data := range []string{"a", "b"} {
			if err := w.Send(mustAppend(t, nil, Event{Data: data})); err != nil {
				t.Error(err)
			}
			<-next
		}
	}))
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	want := map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no",
	}
	for name, value := range want {
		if got := response.Header.Get(name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	r := NewReader(response.Body, 0)
	for _, data := range []string{"a", "b"} {
		event, err := r.Next()
		if err != nil || event.Data != data {
			t.Fatalf("event %v, %v; want %s", event, err, data)
		}
		next <- struct{}{}
	}
}

// A viewer that takes nothing is given up after the timeout.
func TestWriterGivesUpOnASlowViewer(t *testing.T) {
	t.Parallel()
	failed := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		w, err := NewWriter(response, 50*time.Millisecond)
		frame := mustAppend(t, nil, Event{Data: strings.Repeat("x", 1<<20)})
		for err == nil {
			err = w.Send(frame)
		}
		failed <- err
	}))
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	select {
	case err := <-failed:
		var timeout interface{ Timeout() bool }
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("gave up with %v, want a timeout", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the writer still waits")
	}
}

// A response that can't be flushed is refused when the stream begins, not when the first event is late.
func TestWriterNeedsFlush(t *testing.T) {
	t.Parallel()
	bare := struct{ http.ResponseWriter }{httptest.NewRecorder()}
	if _, err := NewWriter(bare, 0); !errors.Is(err, http.ErrNotSupported) {
		t.Errorf("error is %v, want %v", err, http.ErrNotSupported)
	}
}

// FuzzRoundTrip asks that any event is read back as it was written, with its line breaks made line feeds.
func FuzzRoundTrip(f *testing.F) {
	f.Add("1-0", "chunk", `{"a":1}`)
	f.Add("", "", "a\r\n\rb\n")
	f.Add("x", "e", " : \ufeff")
	f.Fuzz(func(t *testing.T, id, name, data string) {
		frame, err := AppendEvent(AppendComment(nil, data), Event{ID: id, Name: name, Data: data})
		if err != nil {
			return
		}
		frame = mustAppend(t, frame, Event{Data: "end"})
		want := []Event{
			{ID: id, Name: name, Data: strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data)},
			{ID: id, Data: "end"},
		}
		if diff := cmp.Diff(want, readAll(t, NewReader(strings.NewReader(string(frame)), 0))); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// FuzzReader asks that no stream makes the reader panic, or an event larger than its limit.
func FuzzReader(f *testing.F) {
	f.Add([]byte("id: 1\nevent: e\ndata: d\n\nretry: 5\r\rdata"))
	f.Add([]byte("\xef\xbb\xbf:\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := NewReader(strings.NewReader(string(stream)), 100)
		for {
			event, err := r.Next()
			if err != nil {
				return
			}
			if len(event.Data) > 100 {
				t.Fatalf("event of %d bytes", len(event.Data))
			}
		}
	})
}

// A reader that comes back keeps its position until a frame sets another one, or none.
func TestReaderGoesOn(t *testing.T) {
	t.Parallel()
	r := NewReaderAfter(strings.NewReader("data: a\n\nid: 8\n\ndata: b\n\nid\ndata: c\n\nid: 9\n"), "7", 0)
	if r.LastID() != "7" {
		t.Errorf("position %q before the first frame", r.LastID())
	}
	want := []Event{{ID: "7", Data: "a"}, {ID: "8", Data: "b"}, {Data: "c"}}
	if diff := cmp.Diff(want, readAll(t, r)); diff != "" {
		t.Error(diff)
	}
	if r.LastID() != "" {
		t.Errorf("position %q of a frame that was cut off", r.LastID())
	}
}
