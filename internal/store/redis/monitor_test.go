package redis_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/redistest"
)

// monitor watches all commands of a server of the test's own.
type monitor struct {
	t      testing.TB
	client *goredis.Client
	lines  *bufio.Reader
	marks  int
}

func newMonitor(tb testing.TB, server *redistest.Server) *monitor {
	tb.Helper()
	conn, err := net.Dial("tcp", server.Client().Options().Addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		tb.Fatal(err)
	}
	if _, err := fmt.Fprint(conn, "MONITOR\r\n"); err != nil {
		tb.Fatal(err)
	}
	m := &monitor{t: tb, client: server.Client(), lines: bufio.NewReader(conn)}
	m.line()
	return m
}

func (m *monitor) line() string {
	m.t.Helper()
	line, err := m.lines.ReadString('\n')
	if err != nil {
		m.t.Fatal(err)
	}
	return line
}

// during returns the commands that clients sent while f ran, and those that their scripts ran, by name.
func (m *monitor) during(f func()) (client, script []string) {
	m.t.Helper()
	m.mark()
	f()
	end := m.send()
	for {
		line := m.line()
		if strings.Contains(line, end) {
			return client, script
		}
		origin, rest, _ := strings.Cut(line, "] \"")
		name, _, _ := strings.Cut(rest, "\"")
		if strings.HasSuffix(origin, " lua") {
			script = append(script, strings.ToUpper(name))
		} else {
			client = append(client, strings.ToUpper(name))
		}
	}
}

// mark reads away what was sent before.
func (m *monitor) mark() {
	m.t.Helper()
	for end := m.send(); !strings.Contains(m.line(), end); {
	}
}

// send leaves a mark in the stream of commands.
func (m *monitor) send() string {
	m.t.Helper()
	m.marks++
	mark := fmt.Sprintf("mark-%d-of-%s", m.marks, m.t.Name())
	if err := m.client.Echo(m.t.Context(), mark).Err(); err != nil {
		m.t.Fatal(err)
	}
	return mark
}
