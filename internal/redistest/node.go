package redistest

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// node is one server process that may be killed, restarted and frozen, on the same port and data. Its methods may be called
// from several goroutines.
type node struct {
	binary string
	dir    string
	port   int
	args   []string
	env    []string
	client *redis.Client // opens no connection before it is used

	mu      sync.Mutex // guards the following
	process *process   // nil while the server is down
}

// startNode starts binary in dir on a port that pick finds.
func startNode(binary, dir string, pick func() (int, error), args []string, env ...string) (*node, error) {
	p, port, err := launchAnywhere(binary, dir, pick, args, env...)
	if err != nil {
		return nil, err
	}
	n := &node{binary: binary, dir: dir, port: port, args: args, env: env, process: p}
	n.client = redis.NewClient(&redis.Options{Addr: n.addr(), Protocol: 2, DisableIdentity: true, ContextTimeoutEnabled: true})
	return n, nil
}

func (n *node) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port)) }

// URL returns the server's URL; it stays the same over restarts.
func (n *node) URL() string { return loopbackURL(n.port) }

// Client returns a client of the server, closed when the server is given up.
func (n *node) Client() *redis.Client { return n.client }

// Kill ends the server with SIGKILL, frozen or not, and returns when it is
// gone. Killing a server that is down does nothing.
func (n *node) Kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.killLocked()
}

func (n *node) killLocked() {
	if n.process != nil {
		n.process.kill()
		n.process = nil
	}
}

// restart starts the server again, with further arguments, and returns when it answers with its data loaded.
func (n *node) restart(more ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.killLocked()
	p, err := launch(n.binary, n.dir, n.port, append(slices.Clip(n.args), more...), n.env...)
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	n.process = p
	return nil
}

func (n *node) signal(sig syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return fmt.Errorf("send %v: the server is down", sig)
	}
	return n.process.signal(sig)
}

// giveUp ends the server for good.
func (n *node) giveUp() {
	n.Kill()
	_ = n.client.Close() // a test may have closed it before
}
