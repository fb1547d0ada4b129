package redistest

import (
	"sync"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Options say how a private server runs. The zero value keeps nothing on disk.
type Options struct {
	// AppendFsync turns the append-only file on: "always" or "everysec". Empty: off.
	AppendFsync string
	// Args are further server arguments, such as "--maxmemory", "10mb". They
	// come last and so win over those of the harness.
	Args []string
	// Env is added to the server's environment, as "NAME=value".
	Env []string
}

// args are the server arguments for the options.
func (o Options) args() []string {
	args := []string{"--save", "", "--appendonly", "no"}
	if o.AppendFsync != "" {
		args = []string{"--save", "", "--appendonly", "yes", "--appendfsync", o.AppendFsync}
	}
	return append(args, o.Args...)
}

// Server is a server of one test alone, which may kill, restart and freeze it.
// Its methods may be called from several goroutines, but those that can fail
// the test only from the test's own.
type Server struct {
	t      testing.TB
	binary string
	dir    string
	port   int
	args   []string
	env    []string
	client *redis.Client

	mu      sync.Mutex // guards the following
	process *process   // nil while the server is down
}

// Private starts a server for this test alone. It ends with the test. The test
// fails, with the remedies, when no server binary is on the PATH.
func Private(t testing.TB, options Options) *Server {
	t.Helper()
	return shared.around.private(t, options)
}

func (s surroundings) private(t testing.TB, options Options) *Server {
	t.Helper()
	binary, err := s.binary()
	if err != nil {
		t.Fatalf("a private server needs a binary: %v\nInstall one: apt-get install redis-server  (or: brew install redis)", err)
	}
	server := &Server{t: t, binary: binary, dir: t.TempDir(), args: options.args(), env: options.Env}
	server.process, server.port, err = launchAnywhere(binary, server.dir, server.args, server.env...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(server.Kill)
	server.client = newClient(t, server.URL())
	return server
}

// URL returns the server's URL; it stays the same over restarts.
func (s *Server) URL() string { return loopbackURL(s.port) }

// Client returns a client of the server, closed when the test ends.
func (s *Server) Client() *redis.Client { return s.client }

// Kill ends the server with SIGKILL, frozen or not, and returns when it is
// gone. Killing a server that is down does nothing.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killLocked()
}

// Restart starts the server again on the same port and data, and returns when
// it has loaded them and answers. A server that still runs is killed first.
func (s *Server) Restart() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killLocked()
	p, err := launch(s.binary, s.dir, s.port, s.args, s.env...)
	if err != nil {
		s.t.Fatalf("restart: %v", err)
	}
	s.process = p
}

// Pause freezes the server with SIGSTOP: connections stay open, nothing answers.
func (s *Server) Pause() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
}

// Resume lets a paused server go on.
func (s *Server) Resume() {
	s.t.Helper()
	s.signal(syscall.SIGCONT)
}

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		s.t.Fatalf("send %v: the server is down", sig)
	}
	if err := s.process.signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) killLocked() {
	if s.process != nil {
		s.process.kill()
		s.process = nil
	}
}
