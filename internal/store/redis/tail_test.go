package redis_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// prompt is what a blocked call may take to return: far less than it would wait.
const prompt = 5 * time.Second

type readResult struct {
	entries []store.Entries
	err     error
}

// blocked starts a read, and returns when the server holds it.
func blocked(ctx context.Context, k *kit, tail store.Tail, logs ...store.Position) <-chan readResult {
	k.Helper()
	k.awaitBlocked(0)
	done := make(chan readResult, 1)
	go func() {
		entries, err := tail.Read(ctx, logs, time.Hour)
		done <- readResult{entries, err}
	}()
	k.awaitBlocked(1)
	return done
}

// awaitBlocked returns when the servers hold so many clients.
func (k *kit) awaitBlocked(n int) {
	k.Helper()
	for deadline := time.Now().Add(prompt); k.blockedClients() != n; {
		if time.Now().After(deadline) {
			k.Fatalf("the server never held %d clients", n)
		}
	}
}

func (k *kit) blockedClients() int {
	k.Helper()
	var n atomic.Int64
	k.eachMaster(func(ctx context.Context, node *goredis.Client) error {
		info, err := node.InfoMap(ctx, "clients").Result()
		if err != nil {
			return err
		}
		some, err := strconv.ParseInt(info["Clients"]["blocked_clients"], 10, 64)
		n.Add(some)
		return err
	})
	return int(n.Load())
}

func (k *kit) returns(what string, done <-chan readResult) readResult {
	k.Helper()
	select {
	case r := <-done:
		return r
	case <-time.After(prompt):
		k.Fatalf("%s did not end the read", what)
		return readResult{}
	}
}

func tailKit(t *testing.T) (*kit, store.Tail) {
	t.Helper()
	k := ownKit(t, redis.Config{Prefix: "tail"})
	tail, err := k.store.Tail(t.Context(), 0)
	k.ok(err)
	return k, tail
}

// A read ends at once with entries, when it is woken, when its context ends, and when the tail or the store is closed; and
// the tail reads on afterwards.
func TestTailEndsReads(t *testing.T) {
	t.Parallel()
	k, tail := tailKit(t)
	c := k.start()
	from := store.Position{ID: c.ID}

	for range 3 {
		done := blocked(t.Context(), k, tail, from)
		tail.Wake()
		if r := k.returns("a wake", done); r.err != nil || r.entries != nil {
			t.Fatalf("woken read returned %+v", r)
		}
	}
	tail.Wake()
	if entries, err := tail.Read(t.Context(), nil, time.Hour); err != nil || entries != nil {
		t.Fatalf("read after a wake returned %v, %v", entries, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := blocked(ctx, k, tail, from)
	cancel()
	if r := k.returns("the context", done); r.err != nil || r.entries != nil {
		t.Fatalf("canceled read returned %+v", r)
	}
	done = blocked(t.Context(), k, tail, from)
	k.stream(c, chunks(1, 0, "a", "b"))
	r := k.returns("an entry", done)
	k.ok(r.err)
	want := execution.Entry{ID: r.entries[0].Entries[0].ID, Kind: execution.EntryChunks, Data: chunks(1, 0, "a", "b").Encode()}
	if diff := cmp.Diff([]store.Entries{{ID: c.ID, Entries: []execution.Entry{want}}}, r.entries); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	from.After = want.ID
	if entries, err := tail.Read(t.Context(), []store.Position{from}, 10*time.Millisecond); err != nil || entries != nil {
		t.Fatalf("read past the end returned %v, %v", entries, err)
	}
	done = blocked(t.Context(), k, tail, from)
	k.ok(tail.Close())
	k.refused(k.returns("closing the tail", done).err, execution.CodeUnavailable)
	_, err := tail.Read(t.Context(), nil, time.Hour)
	k.refused(err, execution.CodeUnavailable)
}

// A context that ends just as its read returns does not end the next one.
func TestLateCancelEndsNoOtherRead(t *testing.T) {
	t.Parallel()
	k, tail := tailKit(t)
	for range 2000 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		_, err := tail.Read(ctx, nil, 0)
		k.ok(err)
		_, err = tail.Read(t.Context(), nil, 0)
		k.ok(err)
	}
}

// Closing the store ends what is blocked in it.
func TestCloseEndsBlockedCalls(t *testing.T) {
	t.Parallel()
	k, tail := tailKit(t)
	listening, bell := make(chan error, 1), make(chan struct{}, 1)
	go func() {
		listening <- k.store.Listen(context.WithoutCancel(t.Context()), func(store.Revision) { bell <- struct{}{} })
	}()
	<-bell
	done := blocked(t.Context(), k, tail)
	k.ok(k.store.Close())
	k.refused(k.returns("closing the store", done).err, execution.CodeUnavailable)
	select {
	case err := <-listening:
		k.refused(err, execution.CodeUnavailable)
	case <-time.After(prompt):
		t.Fatal("closing the store did not end Listen")
	}
	_, err := k.store.Tail(t.Context(), 0)
	k.refused(err, execution.CodeUnavailable)
	k.refused(k.store.Listen(t.Context(), nil), execution.CodeUnavailable)
	k.refused(k.store.Check(t.Context()), execution.CodeUnavailable)
	tail.Wake()
}

// At maxmemory, where no wake entry can be written, a wake cuts the connection instead.
func TestWakeAtMaxmemory(t *testing.T) {
	t.Parallel()
	k, tail := tailKit(t)
	k.full()
	done := blocked(t.Context(), k, tail)
	tail.Wake()
	if r := k.returns("a wake", done); r.err != nil {
		t.Error(r.err)
	}
}

// One log that can't be read fails the read, so that the caller can find it.
func TestTailOfWreckedLog(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	tail, err := k.store.Tail(t.Context(), 0)
	k.ok(err)
	c := k.start()
	k.wreck("l:" + c.ID)
	_, err = tail.Read(t.Context(), []store.Position{{ID: c.ID}}, time.Hour)
	k.refused(err, execution.CodeCorrupt)
	if _, err := tail.Read(t.Context(), nil, time.Millisecond); err != nil {
		t.Errorf("the tail does not read on: %v", err)
	}
}

// A listener hears of work, and again that it may have missed some when the connection was lost.
func TestListen(t *testing.T) {
	t.Parallel()
	k, _ := tailKit(t)
	rings := make(chan store.Revision, 16)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	var rounds atomic.Int64
	go func() {
		defer close(ended)
		for err := error(nil); ctx.Err() == nil || err != nil; {
			rounds.Add(1)
			err = k.store.Listen(ctx, func(r store.Revision) { rings <- r })
		}
	}()
	ring := func(want store.Revision) {
		t.Helper()
		select {
		case got := <-rings:
			if got != want {
				t.Fatalf("rang for %v, want %v", got, want)
			}
		case <-time.After(prompt):
			t.Fatalf("did not ring for %v", want)
		}
	}
	ring(store.Revision{})
	k.submit()
	ring(k.rev)
	k.ok(k.own.Client().Publish(t.Context(), k.key("bell"), "who knows").Err())
	ring(store.Revision{}) // it may have been any
	k.own.EachMaster(func(ctx context.Context, node *goredis.Client) error {
		return node.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub").Err()
	})
	ring(store.Revision{})
	k.poll(1)
	k.submit()
	ring(k.rev)
	cancel()
	select {
	case <-ended:
	case <-time.After(prompt):
		t.Fatal("Listen did not end with its context")
	}
	if n := rounds.Load(); n != 2 {
		t.Errorf("listened %d times, want 2", n)
	}
}
