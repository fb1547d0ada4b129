package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/api/client"
)

const done = `{"execution_id":"e1","status":"completed","attempt":1,"sequence":4,"result":[]}`

// script answers each connection to a stream with the next of its bodies, and records the cursors that came with them.
type script struct {
	bodies  []string // "404" and the like: a refusal; "silence": nothing until the client gives up
	cursors []string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := s.bodies[len(s.cursors)]
	s.cursors = append(s.cursors, r.Header.Get("Last-Event-ID"))
	switch {
	case body == "silence":
		w.WriteHeader(http.StatusOK)
		if err := http.NewResponseController(w).Flush(); err != nil {
			panic(err)
		}
		<-r.Context().Done()
	case len(body) == 3:
		var status int
		if _, err := fmt.Sscan(body, &status); err != nil {
			panic(err)
		}
		w.WriteHeader(status)
	default:
		write(w, body)
	}
}

// follow collects the events of a stream as "kind id data" and returns why it ended.
func follow(ctx context.Context, c *client.Client, opts *client.StreamOptions) (events []string, err error) {
	for e, err := range c.Stream(ctx, "e1", opts) {
		if err != nil {
			return events, err
		}
		events = append(events, fmt.Sprintf("%s %s %s", e.Kind, e.ID, e.Data))
	}
	return events, nil
}

func streamFrom(t *testing.T, s *script) *client.Client {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return dial(t, server.URL, &client.Options{
		Idle: 50 * time.Millisecond, Backoff: client.Backoff{First: time.Millisecond, Max: time.Millisecond}})
}

// A viewer sees every event once, in order and to the end, whatever happens to its connections.
func TestStreamReconnects(t *testing.T) {
	t.Parallel()
	s := &script{bodies: []string{
		"retry: 1\nid: 1-0\n\nid: 1-1\nevent: status\ndata: {\"status\":\"running\"}\n\n: comment\n\nid: 1-2\nevent: chunk\ndata: {\"a",
		"503",
		"silence",
		"id: 1-3\r\nevent: chunk\r\ndata: {\"attempt\":1,\r\ndata: \"payload\":2}\r\n\r\n",
		"event: error\ndata: {\"code\":\"draining\"}\n\n",
		"id: 1-end\nevent: completed\ndata: " + done + "\n\nid: no\nevent: chunk\ndata: {}\n\n",
	}}
	lost := 0
	events, err := follow(t.Context(), streamFrom(t, s), &client.StreamOptions{
		Cursor: "1", OnReconnect: func(error, time.Duration) { lost++ }})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"status 1-1 {\"status\":\"running\"}", "chunk 1-3 {\"attempt\":1,\n\"payload\":2}", "completed 1-end " + done}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Error(diff)
	}
	// The cursor of an event that was cut off does not count.
	if diff := cmp.Diff([]string{"1", "1-1", "1-1", "1-1", "1-3", "1-3"}, s.cursors); diff != "" {
		t.Error(diff)
	}
	if lost != 5 {
		t.Errorf("told of %d lost connections", lost)
	}
}

// A refusal ends a stream; nothing is left to say after the terminal event.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	for body, status := range map[string]int{"404": 404, "400": 400, "204": 0} {
		events, err := follow(t.Context(), streamFrom(t, &script{bodies: []string{body}}), nil)
		var p *client.Problem
		if errors.As(err, &p) != (status != 0) || status != 0 && p.Status != status || len(events) > 0 {
			t.Errorf("%s: %v, %v", body, events, err)
		}
	}
}

// A stream ends with its context or with its consumer.
func TestStreamStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	s := &script{bodies: []string{"id: 1\nevent: chunk\ndata: 1\n\n", "silence"}}
	c := streamFrom(t, s)
	opts := &client.StreamOptions{OnReconnect: func(error, time.Duration) { cancel(enough) }}
	if _, err := follow(ctx, c, opts); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	s.cursors = nil
	for e, err := range c.Stream(t.Context(), "e1", nil) {
		if err != nil || e.ID != "1" {
			t.Errorf("%v, %v", e, err)
		}
		break
	}
	if !slices.Equal(s.cursors, []string{""}) {
		t.Errorf("cursors %q", s.cursors)
	}
}

// Wait returns the execution as it ended.
func TestWait(t *testing.T) {
	t.Parallel()
	c := streamFrom(t, &script{bodies: []string{"id: 1\nevent: chunk\ndata: 1\n\nid: 1-end\nevent: completed\ndata: " + done + "\n\n"}})
	e, err := c.Wait(t.Context(), "e1")
	if err != nil || !e.Ended() || string(e.Result) != "[]" {
		t.Errorf("%+v, %v", e, err)
	}
}

// A long line, every kind of line end and every field is read as the standard says.
func TestStreamFormat(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	for body, want := range map[string][]string{
		"data: " + long + "\n\n":                      {"message  " + long},
		"id: 1\rdata: a\r\rid: 2\r\ndata:b\n\r\n":     {"message 1 a", "message 2 b"},
		"id: 1\ndata\n\nid\ndata:  c\n\n":             {"message 1 ", "message   c"},
		"id: a\x00b\nretry: x\nother: y\ndata: d\n\n": {"message  d"},
		"event: x\nid: 3\n\ndata: e\n\n":              {"message 3 e"},
		":\n:\n\n\n\ndata: f\n\n":                     {"message  f"},
	} {
		var reconnects atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		opts := &client.StreamOptions{OnReconnect: func(error, time.Duration) { reconnects.Add(1); cancel() }}
		got, err := follow(ctx, streamFrom(t, &script{bodies: []string{body}}), opts)
		if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, context.Canceled) {
			t.Errorf("%.60q: %v\n%s", body, err, diff)
		}
		cancel()
	}
}
