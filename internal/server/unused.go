package server

import (
	"net"
	"net/http"
	"sync"
)

// unused are connections on which no request has begun, as browsers and clients open some in advance. A shutdown of net/http
// waits for them as it does for requests, and for nothing.
type unused struct {
	mu     sync.Mutex // guards the following
	conns  map[net.Conn]struct{}
	closed bool // the server shuts down: those that still come are closed at once
}

func newUnused() *unused { return &unused{conns: map[net.Conn]struct{}{}} }

// track follows the states of the server's connections. It is its ConnState.
func (u *unused) track(conn net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(u.conns, conn)
	case u.closed:
		_ = conn.Close() // its client finds out
	default:
		u.conns[conn] = struct{}{}
	}
}

// close closes all that there are and will be.
func (u *unused) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for conn := range u.conns {
		_ = conn.Close() // its client finds out
	}
}
