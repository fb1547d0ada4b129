package faultkit

import (
	"bufio"
	"context"
	"crypto/sha1" //nolint:gosec // the name under which a server keeps a script, not a protection
	"encoding/hex"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds the wait for something that a test has caused.
const patience = 30 * time.Second

// Proxy stands between clients and one Redis, and breaks exchanges where its plan says so.
type Proxy struct {
	t        testing.TB
	listener net.Listener
	upstream *url.URL
	scripts  map[string]string
	bytes    atomic.Int64
	work     sync.WaitGroup

	mu     sync.Mutex // guards the following
	plan   Plan
	broken map[string]int
	links  map[*link]struct{}
	held   []*link
	closed bool
}

// NewProxy makes a proxy in front of the server of a redis:// URL. scripts are the names of scripts by their SHA-1, in
// hexadecimal; nil: none is known. It ends with the test.
func NewProxy(tb testing.TB, server string, scripts map[string]string) *Proxy {
	tb.Helper()
	upstream, err := url.Parse(server)
	if err != nil {
		tb.Fatalf("the server's URL: %v", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{t: tb, listener: listener, upstream: upstream, scripts: scripts, broken: map[string]int{}, links: map[*link]struct{}{}}
	p.work.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// URL is that of the server, by way of the proxy.
func (p *Proxy) URL() string {
	u := *p.upstream
	u.Host = p.listener.Addr().String()
	return u.String()
}

// Port is where the proxy listens on loopback.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// Break sets the plan for commands from now on; nil: none is broken.
func (p *Proxy) Break(plan Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = plan
}

// Broken is how many exchanges with one of the names were broken, of any name where none is given.
func (p *Proxy) Broken(names ...string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(names) == 0 {
		for _, count := range p.broken {
			n += count
		}
	}
	for _, name := range names {
		n += p.broken[name]
	}
	return n
}

// Bytes is how many have gone through, both ways.
func (p *Proxy) Bytes() int64 { return p.bytes.Load() }

// Deliver hands the commands that were held to the server, whether their client still waits or not, and returns how many
// that were once the server has answered them all. Nobody gets the answers.
func (p *Proxy) Deliver() (n int) {
	p.t.Helper()
	p.mu.Lock()
	held := p.held
	p.held = nil
	p.mu.Unlock()
	for _, l := range held {
		n += l.deliver()
	}
	return n
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(p.t.Context(), "tcp", p.upstream.Host)
		if err != nil {
			_ = client.Close() // the server is down, which a client learns so
			continue
		}
		if !p.join(client, server) {
			return
		}
	}
}

// Dial is for clients that look for their servers themselves, as those of a cluster do: it connects to any address by way of the
// proxy, whatever the server is that the proxy was made for.
func (p *Proxy) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	server, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	client, end := net.Pipe()
	if !p.join(end, server) {
		return nil, net.ErrClosed
	}
	return client, nil
}

// join carries on what comes from either side; false where the proxy has ended.
func (p *Proxy) join(client, server net.Conn) bool {
	l := &link{proxy: p, client: client, server: server}
	l.changed.L = &l.mu
	if !p.add(l) {
		l.cut()
		return false
	}
	p.work.Go(l.commands)
	p.work.Go(l.replies)
	return true
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[l] = struct{}{}
	return !p.closed
}

func (p *Proxy) close() {
	_ = p.listener.Close() // nothing is left to be lost
	p.mu.Lock()
	p.closed = true
	for l := range p.links {
		l.cut()
	}
	p.mu.Unlock()
	p.work.Wait()
}

// decide names a command and asks the plan.
func (p *Proxy) decide(args [][]byte) (string, Point) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := Command{Name: p.name(args), Args: args}
	point := Pass
	if p.plan != nil {
		point = p.plan(c)
	}
	if point != Pass {
		p.broken[c.Name]++
	}
	return c.Name, point
}

func (p *Proxy) name(args [][]byte) string {
	if len(args) == 0 {
		return ""
	}
	name := strings.ToUpper(string(args[0]))
	digest := ""
	switch {
	case len(args) < 2:
	case name == "EVALSHA":
		digest = string(args[1])
	case name == "EVAL":
		sum := sha1.Sum(args[1]) //nolint:gosec // as the server computes it
		digest = hex.EncodeToString(sum[:])
	}
	if known := p.scripts[digest]; known != "" {
		return known
	}
	return name
}

// link is one connection of a client with the one to the server that goes with it.
type link struct {
	proxy          *Proxy
	client, server net.Conn

	mu      sync.Mutex // guards the following
	changed sync.Cond
	waiting []Point // of the commands that the server has not answered
	opened  bool    // the client listens to what the server says by itself: nothing is matched any more
	held    [][]byte
	ended   bool
}

// cut ends both connections.
func (l *link) cut() {
	_ = l.client.Close() // whoever is cut off has lost what was under way
	_ = l.server.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.changed.Broadcast()
}

// commands carries what the client says.
func (l *link) commands() {
	r := bufio.NewReader(io.TeeReader(l.client, counter{l.proxy}))
	for {
		raw, args, err := readCommand(r)
		if err != nil {
			l.left()
			return
		}
		_, point := l.proxy.decide(args)
		if l.isHeld() {
			point = Hold // it comes behind one that is
		}
		switch point {
		case Before:
			l.answered(0)
			l.cut()
			return
		case Hold:
			l.hold(raw)
			continue
		case Pass, After, Within:
		}
		l.expect(point, args)
		if _, err := l.server.Write(raw); err != nil {
			l.cut()
			return
		}
	}
}

// left is called when the client has gone. What is held for it goes on.
func (l *link) left() {
	if !l.isHeld() {
		l.cut()
	}
}

func (l *link) isHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held != nil
}

func (l *link) hold(raw []byte) {
	l.mu.Lock()
	first := l.held == nil
	l.held = append(l.held, raw)
	l.mu.Unlock()
	if first {
		l.proxy.mu.Lock()
		l.proxy.held = append(l.proxy.held, l)
		l.proxy.mu.Unlock()
	}
}

// deliver sends what was held and waits for the answers.
func (l *link) deliver() int {
	l.proxy.t.Helper()
	l.mu.Lock()
	held := l.held
	for range held {
		l.waiting = append(l.waiting, Hold)
	}
	l.mu.Unlock()
	for _, raw := range held {
		if _, err := l.server.Write(raw); err != nil {
			l.proxy.t.Fatalf("deliver what was held: %v", err)
		}
	}
	timer := time.AfterFunc(patience, l.cut)
	defer timer.Stop()
	if !l.answered(0) {
		l.proxy.t.Fatal("the server did not answer what was held")
	}
	l.cut()
	return len(held)
}

// expect notes that an answer will come.
func (l *link) expect(point Point, args [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened = l.opened || strings.Contains(strings.ToUpper(string(args[0])), "SUBSCRIBE")
	if !l.opened {
		l.waiting = append(l.waiting, point)
	}
}

// answered waits until no more than that many answers are outstanding; false: the connection ended first.
func (l *link) answered(most int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) > most && !l.ended {
		l.changed.Wait()
	}
	return len(l.waiting) <= most
}

// replies carries what the server says.
func (l *link) replies() {
	defer l.forget()
	defer l.cut()
	r := bufio.NewReader(io.TeeReader(l.server, counter{l.proxy}))
	for {
		raw, err := readReply(r)
		if err != nil {
			return
		}
		point := l.next()
		switch point {
		case Hold:
			l.done()
			continue
		case After:
			return
		case Within:
			raw = raw[:len(raw)/2]
		case Pass, Before:
		}
		if _, err := l.client.Write(raw); err != nil || point == Within {
			return
		}
		l.done()
	}
}

// next is the point of the command that was answered.
func (l *link) next() Point {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return Pass // said by the server itself
	}
	return l.waiting[0]
}

// done says that an answer was dealt with.
func (l *link) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) > 0 {
		l.waiting = l.waiting[1:]
	}
	l.changed.Broadcast()
}

func (l *link) forget() {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	delete(l.proxy.links, l)
}

// counter counts bytes.
type counter struct{ proxy *Proxy }

func (c counter) Write(data []byte) (int, error) {
	c.proxy.bytes.Add(int64(len(data)))
	return len(data), nil
}
