package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"sync"
)

// Traffic is what went between clients and Redis.
type Traffic struct {
	Commands  int64            // that clients sent
	Exchanges int64            // writes of a client that began a command, however many followed in the same write
	Bytes     int64            // of the protocol, both ways
	ByName    map[string]int64 // commands, by the name of their script or their own
}

// since is the traffic after an earlier look.
func (t Traffic) since(before Traffic) Traffic {
	out := Traffic{Commands: t.Commands - before.Commands, Exchanges: t.Exchanges - before.Exchanges, Bytes: t.Bytes - before.Bytes,
		ByName: map[string]int64{}}
	for name, n := range t.ByName {
		if n -= before.ByName[name]; n > 0 {
			out.ByName[name] = n
		}
	}
	return out
}

// Proxy stands between clients and one Redis, and counts. It knows nothing of TLS: the connection to Redis may have it, those
// of clients do not.
type Proxy struct {
	listener net.Listener
	dial     func(ctx context.Context) (net.Conn, error)
	scripts  map[string]string // names by digest

	mu      sync.Mutex // guards the following
	traffic Traffic
	conns   map[net.Conn]struct{}
	err     error // why what is counted can't be relied on
	closed  bool

	all sync.WaitGroup
}

// newProxy listens on loopback. scripts has the names of scripts by their digest. Close ends it.
func newProxy(ctx context.Context, dial func(ctx context.Context) (net.Conn, error), scripts map[string]string) (*Proxy, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{listener: l, dial: dial, scripts: scripts, traffic: Traffic{ByName: map[string]int64{}}, conns: map[net.Conn]struct{}{}}
	p.all.Go(func() { p.accept(ctx) })
	return p, nil
}

// Addr is where clients find Redis.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Traffic is what went through so far. An error says that not all of it was understood.
func (p *Proxy) Traffic() (Traffic, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.traffic
	out.ByName = maps.Clone(out.ByName)
	return out, p.err
}

// Close cuts all connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	_ = p.listener.Close()
	p.all.Wait()
}

func (p *Proxy) accept(ctx context.Context) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.all.Go(func() { p.join(ctx, client) })
	}
}

// join is the life of one connection.
func (p *Proxy) join(ctx context.Context, client net.Conn) {
	defer client.Close()
	server, err := p.dial(ctx)
	if err != nil {
		return // the client sees its connection end
	}
	defer server.Close()
	if !p.keep(client, server) {
		return
	}
	defer p.forget(client, server)
	var back sync.WaitGroup
	back.Go(func() {
		p.replies(client, server)
		_ = client.Close()
	})
	p.requests(client, server)
	_ = server.Close()
	back.Wait()
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return !p.closed
}

func (p *Proxy) forget(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}

const proxyBuffer = 64 << 10

// requests passes on what the client sends.
func (p *Proxy) requests(client io.Reader, server io.Writer) {
	var names []string
	scan := commandScanner{found: func(name, first string) { names = append(names, p.nameOf(name, first)) }}
	buffer := make([]byte, proxyBuffer)
	for {
		n, err := client.Read(buffer)
		if n > 0 {
			names = names[:0]
			begins := scan.between()
			p.count(int64(n), begins, scan.feed(buffer[:n]), names)
			if _, err := server.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// replies passes on what Redis says.
func (p *Proxy) replies(client io.Writer, server io.Reader) {
	buffer := make([]byte, proxyBuffer)
	for {
		n, err := server.Read(buffer)
		if n > 0 {
			p.count(int64(n), false, nil, nil)
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *Proxy) count(bytes int64, begins bool, err error, names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traffic.Bytes += bytes
	p.traffic.Commands += int64(len(names))
	if begins {
		p.traffic.Exchanges++
	}
	for _, name := range names {
		p.traffic.ByName[name]++
	}
	if err != nil && p.err == nil {
		p.err = errors.Join(errors.New("the proxy did not understand a client"), err)
	}
}

// nameOf is how a command is counted: a script by its name.
func (p *Proxy) nameOf(name, first string) string {
	if !strings.HasPrefix(name, "eval") {
		return name
	}
	if script, ok := p.scripts[first]; ok {
		return script
	}
	return name
}
