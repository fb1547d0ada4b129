package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// watchOrder is to be viewers.
type watchOrder struct {
	Addr string // of the server
	IDs  []string
	Each int // viewers of each
}

// audited is what viewers have seen since the last look.
type audited struct {
	Viewers     int // now there
	Chunks      int
	Gaps, Lost  int // told that something is missing, and connections that ended
	Breaks      int // chunks missing that nobody told of
	Median, P99 time.Duration
	Error       string
}

// audience is very many viewers of one process. A viewer takes as little memory and time as it can.
type audience struct {
	admitted chan struct{} // bounds the connections that are being made at once
	viewers  sync.WaitGroup

	mu     sync.Mutex // guards the following
	seen   audited
	delays []time.Duration
	conns  map[net.Conn]struct{}
}

const joiningAtOnce = 64

func newAudience() *audience {
	return &audience{admitted: make(chan struct{}, joiningAtOnce), conns: map[net.Conn]struct{}{}}
}

// join returns once every viewer has its first bytes.
func (a *audience) join(ctx context.Context, o watchOrder) audited {
	var seated sync.WaitGroup
	for _, id := range o.IDs {
		for range o.Each {
			a.admitted <- struct{}{}
			seated.Add(1)
			a.viewers.Go(func() {
				first := sync.OnceFunc(func() { <-a.admitted; seated.Done() })
				defer first()
				if err := a.watch(ctx, o.Addr, id, first); err != nil {
					a.lost(err)
				}
			})
		}
	}
	seated.Wait()
	return a.report()
}

func (a *audience) lost(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen.Lost++
	a.seen.Error = err.Error()
}

// leave returns once no viewer is left.
func (a *audience) leave() {
	a.mu.Lock()
	for conn := range a.conns {
		_ = conn.Close()
	}
	a.mu.Unlock()
	a.viewers.Wait()
	a.report() // that the connections ended is no news
}

func (a *audience) report() audited {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.seen
	out.Viewers = len(a.conns)
	slices.Sort(a.delays)
	if n := len(a.delays); n > 0 {
		out.Median, out.P99 = a.delays[n/2], a.delays[n*99/100]
	}
	a.seen, a.delays = audited{}, nil
	return out
}

// watch follows an execution over one connection until that ends.
func (a *audience) watch(ctx context.Context, addr, id string, first func()) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	a.mu.Lock()
	a.conns[conn] = struct{}{}
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.conns, conn)
		a.mu.Unlock()
	}()
	if _, err := fmt.Fprintf(conn, "GET /v1/executions/%s/stream HTTP/1.1\r\nHost: bench\r\n\r\n", id); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 1024), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("a stream was answered with %d", resp.StatusCode)
	}
	return a.read(bufio.NewReaderSize(resp.Body, 1024), first)
}

func (a *audience) read(lines *bufio.Reader, first func()) error {
	name, last := "", int64(-1)
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		first()
		field, value, _ := strings.Cut(strings.TrimSuffix(text, "\n"), ": ")
		switch field {
		case "event":
			name = value
		case "data":
			last = a.event(name, value, last)
		}
	}
}

// event notes one; it returns the number of the last chunk, -1 where it may be any.
func (a *audience) event(name, data string, last int64) int64 {
	now := time.Now()
	switch name {
	case "gap":
		a.mu.Lock()
		defer a.mu.Unlock()
		a.seen.Gaps++
		return -1
	case "chunk":
		var c struct{ Payload tick }
		err := json.Unmarshal([]byte(data), &c)
		a.mu.Lock()
		defer a.mu.Unlock()
		if err != nil {
			a.seen.Error = err.Error()
			return last
		}
		a.seen.Chunks++
		a.delays = append(a.delays, now.Sub(time.Unix(0, c.Payload.At)))
		if last >= 0 && c.Payload.Index != last+1 {
			a.seen.Breaks++
		}
		return c.Payload.Index
	}
	return last
}
