package redistest

import (
	"syscall"
	"testing"
)

// Options say how private servers run. The zero value keeps nothing on disk.
type Options struct {
	// AppendFsync turns the append-only file on: "always" or "everysec". Empty: off.
	AppendFsync string
	// Args are further server arguments, such as "--maxmemory", "10mb". They
	// come last and so win over those of the harness.
	Args []string
	// Masters of a cluster; 0: 3.
	Masters int
	// Replicas of each master of a cluster.
	Replicas int
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
	*node
	t testing.TB
}

// Private starts a server for this test alone. It ends with the test. The test
// fails, with the remedies, when no server binary is on the PATH.
func Private(t testing.TB, options Options) *Server {
	t.Helper()
	return shared.around.private(t, options)
}

func (s surroundings) private(t testing.TB, options Options) *Server {
	t.Helper()
	n, err := startNode(s.needBinary(t), t.TempDir(), freePort, options.args(), options.Env...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(n.giveUp)
	return &Server{node: n, t: t}
}

// needBinary fails the test, with the remedy, when there is no server binary.
func (s surroundings) needBinary(t testing.TB) string {
	t.Helper()
	binary, err := s.binary()
	if err != nil {
		t.Fatalf("a private server needs a binary: %v\nInstall one: apt-get install redis-server  (or: brew install redis)", err)
	}
	return binary
}

// Restart starts the server again on the same port and data, and returns when
// it has loaded them and answers. A server that still runs is killed first.
func (s *Server) Restart() {
	s.t.Helper()
	if err := s.restart(); err != nil {
		s.t.Fatal(err)
	}
}

// Pause freezes the server with SIGSTOP: connections stay open, nothing answers.
func (s *Server) Pause() {
	s.t.Helper()
	s.send(syscall.SIGSTOP)
}

// Resume lets a paused server go on.
func (s *Server) Resume() {
	s.t.Helper()
	s.send(syscall.SIGCONT)
}

func (s *Server) send(sig syscall.Signal) {
	s.t.Helper()
	if err := s.signal(sig); err != nil {
		s.t.Fatal(err)
	}
}
