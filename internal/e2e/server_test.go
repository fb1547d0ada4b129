package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windrow-run/windrow/internal/redistest"
)

// binary is the windrow under test, built once for the package.
var binary string

func TestMain(m *testing.M) {
	if os.Getenv(serveHard) != "" {
		os.Exit(serve())
	}
	if os.Getenv(serveAudience) != "" {
		os.Exit(beAudience())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "windrow-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	binary = filepath.Join(dir, "windrow")
	build := exec.Command("go", "build", "-o", binary, "github.com/windrow-run/windrow/cmd/windrow")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build windrow: %v\n%s", err, out)
		return 1
	}
	// The client's pool looks once a second whether a server is back, and only then whether it was closed itself.
	return redistest.Main(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// server is one running windrow process.
type server struct {
	URL  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // how it ended; read after done
	logs *logs
}

// start runs the binary with args and waits until it listens. It is killed with the test.
func start(t testing.TB, args ...string) *server {
	t.Helper()
	return launch(t, exec.Command(binary, args...))
}

// launch starts a server's command as start does.
func launch(t testing.TB, cmd *exec.Cmd) *server {
	t.Helper()
	s := &server{cmd: cmd, done: make(chan struct{}), logs: &logs{}}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Env = append(s.cmd.Environ(), "WINDROW_LOG_FORMAT=json")
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	listening := make(chan string, 1)
	go func() {
		s.logs.read(stderr, listening)
		s.err = s.cmd.Wait()
		close(s.done)
	}()
	t.Cleanup(func() { s.end(syscall.SIGKILL) })
	select {
	case url := <-listening:
		s.URL = url
	case <-s.done:
		t.Fatalf("%s ended: %v\n%s", cmd, s.err, s.logs)
	case <-time.After(30 * time.Second):
		t.Fatalf("%s does not listen after 30 s\n%s", cmd, s.logs)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %s:\n%s", s.URL, s.logs)
		}
	})
	return s
}

// end sends the signal and waits for the process to end.
func (s *server) end(sig os.Signal) {
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		panic(err)
	}
	<-s.done
}

// kill is kill -9.
func (s *server) kill() { s.end(syscall.SIGKILL) }

// stop is SIGTERM; it fails the test unless the process ends by itself, in order, within the limit.
func (s *server) stop(t testing.TB, limit time.Duration) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.done:
		if s.err != nil {
			t.Fatalf("windrow ended with %v after SIGTERM\n%s", s.err, s.logs)
		}
	case <-time.After(limit):
		t.Fatalf("windrow runs on %s after SIGTERM\n%s", limit, s.logs)
	}
}

// logs keeps the last lines that a server wrote.
type logs struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (l *logs) read(r io.Reader, listening chan<- string) {
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		l.mu.Lock()
		l.lines = append(l.lines, scan.Text())
		if len(l.lines) > 200 {
			l.lines = l.lines[1:]
		}
		l.mu.Unlock()
		var line struct{ Msg, URL string }
		if json.Unmarshal(scan.Bytes(), &line) == nil && line.Msg == "listening" {
			select {
			case listening <- line.URL:
			default:
			}
		}
	}
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// within is a context that ends after d.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
