package redis

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

const (
	// wakeTTL is how long the stream that ends a read stays.
	wakeTTL = time.Minute
	// tailName is the number of random characters that keep the streams of tails apart. Two of a name would only wake each other.
	tailName = 8
)

// tail reads logs of one partition over a connection of its own. A blocked read ends in one of two ways: by an entry in a
// stream that only this tail reads, which costs nothing but that entry, or by cutting the connection.
type tail struct {
	store     *Store
	partition int
	wakeKey   string
	client    *goredis.Client

	mu      sync.Mutex // guards the following
	conn    net.Conn   // the latest one
	reading bool
	woken   bool  // Wake was called since the last Read returned
	wakes   int64 // entries sent to the wake stream; the number is the id, so that no clock matters
	cutting bool  // the present Read is to end: no connection may be made for it
	changed bool  // the connection broke, and another was made: the server may have lost entries that were read
	closed  bool
}

// Tail implements [store.Store].
func (s *Store) Tail(ctx context.Context, partition int) (store.Tail, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	t := &tail{store: s, partition: partition, wakeKey: s.keys.wake(partition, randomText(tailName))}
	o, err := s.nodeOptions(ctx, t.wakeKey)
	if err != nil {
		return nil, err
	}
	o.PoolSize, o.MinIdleConns = 1, 0
	o.Dialer = t.dialer(o.Dialer)
	t.client = goredis.NewClient(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, errors.Join(unavailable(goredis.ErrClosed), t.client.Close())
	}
	s.tails[t] = struct{}{}
	return t, nil
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialer keeps hold of the connection, so that it can be cut. One that comes too late is handed over dead: an error here would
// keep the client from dialing for the next Read, until a try of its own succeeded.
func (t *tail) dialer(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.cutting || t.closed {
			_ = conn.Close() // the client finds out
			return conn, nil
		}
		t.changed = t.changed || t.conn != nil
		t.conn = conn
		return conn, nil
	}
}

// cut ends the present Read.
func (t *tail) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cutLocked()
}

func (t *tail) cutLocked() {
	t.cutting = true
	if t.conn != nil {
		_ = t.conn.Close() // the client finds out, and makes another one
		t.conn = nil
	}
}

// begin opens a Read. It returns the wake entry to read from; quiet where there is nothing to wait for.
func (t *tail) begin() (after int64, quiet bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return 0, false, unavailable(goredis.ErrClosed)
	case t.woken:
		t.woken = false
		return 0, true, nil
	}
	t.reading, t.cutting = true, false
	return t.wakes, false, nil
}

// errChanged is why a Read fails that went well, over a connection that had taken the place of a broken one: positions that
// were read before have to be proved again.
var errChanged = errors.New("the connection was replaced")

// end closes a Read and tells whether it was woken, and whether its connection took the place of one that had broken.
func (t *tail) end(err error) (woken, changed, closed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if said := goredis.Error(nil); err != nil && !errors.As(err, &said) {
		t.conn = nil // it broke, which the error tells: the next one takes nobody's place
	}
	woken, changed = t.woken, t.changed
	t.reading, t.woken, t.changed = false, false, false
	return woken, changed, t.closed
}

// Read implements [store.Tail].
func (t *tail) Read(ctx context.Context, logs []store.Position, wait time.Duration) ([]store.Entries, error) {
	if !t.store.enter() {
		return nil, unavailable(goredis.ErrClosed)
	}
	defer t.store.calls.Done()
	if ctx.Err() != nil {
		return nil, nil
	}
	after, quiet, err := t.begin()
	if err != nil || quiet {
		return nil, err
	}
	streams, err := t.await(ctx, t.request(logs, after, wait), wait)
	woken, changed, closed := t.end(err)
	if changed || err != nil && !errors.Is(err, goredis.Nil) && !closed && !woken && ctx.Err() == nil {
		t.store.standing.doubt()
	}
	switch {
	case changed && !closed && ctx.Err() == nil:
		return nil, unavailable(errChanged)
	case err == nil:
		return t.decode(streams)
	case errors.Is(err, goredis.Nil):
		return nil, nil
	case closed:
		return nil, unavailable(goredis.ErrClosed)
	case woken || ctx.Err() != nil:
		return nil, nil
	}
	return nil, t.store.failed(err)
}

// await sends the request and waits for its reply until ctx ends. A cut is over when it returns: it must not hit the next Read.
// A cut that came as the reply did leaves a dead connection behind, which the next Read finds, and tries once more.
// A server that says nothing for longer than it was to wait is given up as any other.
func (t *tail) await(ctx context.Context, request *goredis.XReadArgs, wait time.Duration) ([]goredis.XStream, error) {
	patient, done := context.WithTimeout(context.WithoutCancel(ctx), wait+t.store.config.Timeout)
	defer done()
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		t.cut()
	})
	streams, err := t.client.XRead(patient, request).Result()
	if errors.Is(err, net.ErrClosed) && !t.ending() {
		streams, err = t.client.XRead(patient, request).Result()
	}
	if !stop() {
		<-cut
	}
	return streams, err
}

// ending reports whether the present Read is to end.
func (t *tail) ending() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cutting || t.closed
}

// request is one XREAD of the logs and of the wake stream.
func (t *tail) request(logs []store.Position, after int64, wait time.Duration) *goredis.XReadArgs {
	keys, ids := make([]string, 0, 2*len(logs)+2), make([]string, 0, len(logs)+1)
	for _, p := range logs {
		keys = append(keys, t.store.keys.log(t.partition, p.ID))
		ids = append(ids, p.After.String())
	}
	keys = append(keys, t.wakeKey)
	ids = append(ids, strconv.FormatInt(after, 10))
	a := &goredis.XReadArgs{Streams: append(keys, ids...), Block: -1} // no count: a log is bounded
	if wait > 0 {
		a.Block = max(wait.Round(time.Millisecond), time.Millisecond)
	}
	return a
}

func (t *tail) decode(streams []goredis.XStream) ([]store.Entries, error) {
	var out []store.Entries
	for _, stream := range streams {
		if stream.Stream == t.wakeKey {
			continue
		}
		found := store.Entries{ID: strings.TrimPrefix(stream.Stream, t.store.keys.log(t.partition, ""))}
		for _, m := range stream.Messages {
			id, err := execution.ParseLogID(m.ID)
			if err != nil {
				return nil, corrupt(err)
			}
			for kind, v := range m.Values { // one
				text, _ := v.(string)
				found.Entries = append(found.Entries, expandEntry(execution.Entry{ID: id, Kind: execution.EntryKind(kind), Data: []byte(text)}))
			}
		}
		out = append(out, found)
	}
	return out, nil
}

// Wake implements [store.Tail].
func (t *tail) Wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.woken || t.closed || !t.store.enter() {
		return
	}
	t.woken = true
	if !t.reading {
		t.store.calls.Done()
		return
	}
	t.wakes++
	id := strconv.FormatInt(t.wakes, 10) + "-0"
	go func() {
		defer t.store.calls.Done()
		t.sendWake(id)
	}()
}

// sendWake puts an entry where the blocked read sees it. Where Redis does not take it, the connection is cut.
func (t *tail) sendWake(id string) {
	ctx, cancel := context.WithTimeout(t.store.ctx, t.store.config.Timeout)
	defer cancel()
	pipe := t.store.client.Pipeline()
	pipe.XAdd(ctx, &goredis.XAddArgs{Stream: t.wakeKey, MaxLen: 1, ID: id, Values: []string{"w", "1"}})
	pipe.PExpire(ctx, t.wakeKey, wakeTTL)
	if _, err := pipe.Exec(ctx); err != nil {
		t.cutWoken()
	}
}

// cutWoken ends the read that is to wake, where it is not over.
func (t *tail) cutWoken() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reading && t.woken {
		t.cutLocked()
	}
}

// Close implements [store.Tail].
func (t *tail) Close() error {
	t.mu.Lock()
	first := !t.closed
	t.closed = true
	t.cutLocked()
	t.mu.Unlock()
	if !first {
		return nil
	}
	t.store.mu.Lock()
	delete(t.store.tails, t)
	t.store.mu.Unlock()
	_ = t.client.Close() // its one connection is closed already, and so is all that can fail
	return nil
}
