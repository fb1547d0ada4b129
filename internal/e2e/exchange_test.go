package e2e

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/redistest"
)

// commands hears what clients send to Redis, and not what scripts run inside.
type commands struct {
	lines chan string
	ctx   context.Context
}

// monitor hears a server that this test has for itself.
func monitor(t *testing.T, ctx context.Context, redis *redistest.Server) commands {
	t.Helper()
	at, err := url.Parse(redis.URL())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	c := commands{lines: make(chan string), ctx: ctx}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for scan := bufio.NewScanner(conn); scan.Scan(); {
			select {
			case c.lines <- scan.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		t.Fatal(err)
	}
	if line := <-c.lines; line != "+OK" {
		t.Fatalf("MONITOR: %s", line)
	}
	return c
}

// next is the name of the next command that is not of the set-up of a connection.
func (c commands) next(t *testing.T) string {
	t.Helper()
	for {
		select {
		case line := <-c.lines:
			_, command, ok := strings.Cut(line, "] ")
			if !ok || strings.Contains(line, " lua] ") {
				continue
			}
			name, _, _ := strings.Cut(strings.TrimPrefix(command, `"`), `"`)
			if name = strings.ToLower(name); name != "hello" && name != "client" {
				return name
			}
		case <-c.ctx.Done():
			t.Fatal("no further command came")
		}
	}
}

// One submission, claim, flush of chunks, checkpoint and completion are one client command each, once the scripts are
// known to the server.
func TestOneCommandEach(t *testing.T) {
	ctx := within(t, 30*time.Second)
	redis := redistest.Private(t, redistest.Options{})
	// Polls and pings, which come by the clock, must not come in between.
	s := start(t, "dev", "--redis", redis.URL(), "--addr", "127.0.0.1:0", "--poll", "5m", "--maintenance", "5m", "--lease", "10m")
	const story = `{"chunks":1,"seconds":0}`
	warm := submit(t, ctx, s.URL, "story", story)
	eventually(t, ctx, "the first story ends", func() bool {
		r := must(t, ctx, http.StatusOK, "GET", s.URL+"/v1/executions/"+warm, "")
		return r.projection(t).Status == "completed"
	})

	heard := monitor(t, ctx, redis)
	id := submit(t, ctx, s.URL, "story", story)
	for _, step := range []string{"submit", "claim", "chunks", "checkpoint", "complete"} {
		if name := heard.next(t); name != "evalsha" {
			t.Fatalf("%s: the client sent %s", step, name)
		}
	}
	p := must(t, ctx, http.StatusOK, "GET", s.URL+"/v1/executions/"+id, "").projection(t)
	if name := heard.next(t); name != "evalsha" {
		t.Fatalf("the read: the client sent %s", name)
	}
	if p.Status != "completed" {
		t.Errorf("after five commands it is %s", p.Status)
	}
}
