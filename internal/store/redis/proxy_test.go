package redis_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/faultkit"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// proxy stands between a store and its servers, and can keep the reply to a script from arriving.
type proxy struct {
	lose  atomic.Bool  // the next reply is lost, and its connection with it
	skip  atomic.Int64 // but for so many that come before it
	lost  atomic.Int64
	sent  atomic.Int64 // scripts
	bytes atomic.Int64 // that went through, both ways
}

// between is the configuration of a store behind the proxy.
func (p *proxy) between(c redis.Config) redis.Config {
	return redis.Through(c, func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &watched{Conn: conn, proxy: p}, nil
	})
}

// watched is a connection through the proxy.
type watched struct {
	net.Conn
	proxy *proxy
	asked atomic.Bool // a script was sent, and nothing came since
}

func (w *watched) Write(data []byte) (int, error) {
	w.proxy.bytes.Add(int64(len(data)))
	if n := bytes.Count(data, []byte("\r\nEVAL")); n > 0 {
		w.proxy.sent.Add(int64(n))
		w.asked.Store(true)
	}
	return w.Conn.Write(data)
}

func (w *watched) Read(data []byte) (int, error) {
	n, err := w.Conn.Read(data)
	if err != nil {
		return n, err
	}
	w.proxy.bytes.Add(int64(n))
	if w.asked.Swap(false) && w.proxy.loses() {
		_ = w.Close() // nobody reads on
		return 0, io.EOF
	}
	return n, nil
}

// loses reports whether the reply that has come is to be lost.
func (p *proxy) loses() bool {
	if !p.lose.Load() || p.skip.Add(-1) >= 0 || !p.lose.Swap(false) {
		return false
	}
	p.skip.Store(0)
	p.lost.Add(1)
	return true
}

// newProxy stands between a store and the shared server.
func newProxy(tb testing.TB) *faultkit.Proxy {
	tb.Helper()
	return faultkit.NewProxy(tb, redistest.URL(tb), redis.ScriptNames(redis.Config{}))
}

// lossy opens a store behind a proxy. Its twice runs an operation whose first reply is lost, and again.
func lossy(t *testing.T) (k *kit, twice func(f func() error)) {
	t.Helper()
	p := &proxy{}
	k = openKit(t, p.between(redis.Config{URL: redistest.URL(t), Prefix: redistest.Prefix(t)}))
	k.ok(k.store.TellScripts(t.Context()))
	return k, func(f func() error) {
		t.Helper()
		before := p.lost.Load()
		p.lose.Store(true)
		k.refused(f(), execution.CodeUnavailable)
		if p.lost.Load() != before+1 {
			t.Fatal("no reply was lost")
		}
		k.ok(f())
	}
}

// A submission that is repeated finds itself, with a key and without one.
func TestLostReplyOfSubmit(t *testing.T) {
	t.Parallel()
	k, twice := lossy(t)
	for _, key := range []store.Key{{}, {Deployment: "story", Value: "k"}} {
		sub := k.submission()
		sub.Key = key
		sub.ID = k.store.NewID(key)
		var out store.Submitted
		twice(func() (err error) {
			out, err = k.store.Submit(t.Context(), sub)
			return err
		})
		if !out.Replayed || out.Record.Control.ID != sub.ID {
			t.Errorf("repeat is %+v", out)
		}
	}
	if n := k.nonterminal(); n != 2 {
		t.Errorf("%d unfinished executions, want 2", n)
	}
}

func (k *kit) nonterminal() (n int64) {
	k.Helper()
	counts, err := k.store.Counts(k.Context())
	k.ok(err)
	for _, r := range counts.Revisions {
		n += r.Nonterminal
	}
	return n
}

// A poll that is repeated hands out the same claims, as the first attempt.
func TestLostReplyOfPoll(t *testing.T) {
	t.Parallel()
	k, twice := lossy(t)
	for range 3 {
		k.submit()
	}
	request := k.request(2)
	var out store.Polled
	twice(func() (err error) {
		out, err = k.store.Poll(t.Context(), request)
		return err
	})
	if len(out.Claimed) != 2 {
		t.Fatalf("%d were claimed, want 2", len(out.Claimed))
	}
	for _, c := range out.Claimed {
		if c.Control.Attempt != 1 || c.Control.Claims != 1 || string(c.Input) != `{"n":1}` {
			t.Errorf("claimed %+v", c)
		}
	}
	if counts, err := k.store.Counts(t.Context()); err != nil || counts.Leases != 2 {
		t.Errorf("%d leases, %v", counts.Leases, err)
	}
}

// A transition that is repeated is carried out once, and answered as the first time also when the execution moved on.
func TestLostReplyOfTransition(t *testing.T) {
	t.Parallel()
	k, twice := lossy(t)
	c := k.start()
	again := func(cmd execution.Command, between func()) (out execution.Control) {
		t.Helper()
		first := true
		twice(func() (err error) {
			if !first {
				between()
			}
			first = false
			got, err := k.store.Transition(t.Context(), c, cmd)
			out = got.Control
			return err
		})
		return out
	}
	c = again(execution.Report{Owned: k.owned(c, k.event("once"))}, func() {})
	if n := len(k.read(c.ID).Progress); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	c = again(execution.Release{Owned: k.owned(c)}, func() {
		if len(k.poll(1).Claimed) != 1 {
			t.Error("the released execution was not handed out")
		}
	})
	if c.Status != execution.Queued {
		t.Errorf("repeat of the release says %s", c.Status)
	}
}

// Chunks that are sent again stand in the log once.
func TestLostReplyOfBeat(t *testing.T) {
	t.Parallel()
	k, twice := lossy(t)
	c := k.start()
	k.stream(c, chunks(1, 0, "a"))
	beat := store.Beat{ID: c.ID, Ownership: owner(c), Lease: lease, Chunks: chunks(1, 1, "b", "c")}
	twice(func() error {
		out, err := k.store.Beat(t.Context(), []store.Beat{beat})
		beat.Repeat = true
		if err == nil {
			err = out[0].Err
		}
		return err
	})
	k.stream(c, chunks(1, 3, "d"))
	if n := len(k.read(c.ID).Log); n != 3 {
		t.Errorf("%d entries, want 3", n)
	}
}

// An answer with a key is applied once.
func TestLostReplyOfResume(t *testing.T) {
	t.Parallel()
	k, twice := lossy(t)
	c := k.suspend(k.start())
	var out store.Resumed
	twice(func() (err error) {
		out, err = k.store.Resume(t.Context(), store.ResumeRequest{ID: c.ID, Scope: store.Scope{All: true}, Answer: []byte(`true`),
			Checked: c.WaitSequence, Key: "k", Digest: [32]byte{1}})
		return err
	})
	if !out.Replayed || out.Record.Control.Version != c.Version+1 {
		t.Errorf("repeat is %+v", out)
	}
}

// The client sends nothing again by itself, and says so: neither one script nor several in a pipeline, and also not on a
// cluster, whose client has retries of its own.
func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func() string{
		"here":         func() string { return redistest.URL(t) },
		"on a cluster": func() string { return redistest.Cluster(t, redistest.Options{}).URL() },
	} {
		const partitions = 6
		p := &proxy{}
		k := openKit(t, p.between(redis.Config{URL: url(), Prefix: redistest.Prefix(t), Partitions: partitions}))
		k.ok(k.store.TellScripts(t.Context()))
		k.submit()
		sends := func(want int64, f func() error) {
			t.Helper()
			sent, lost := p.sent.Load(), p.lost.Load()
			p.lose.Store(true)
			k.refused(f(), execution.CodeUnavailable)
			if n := p.sent.Load() - sent; n != want || p.lost.Load() != lost+1 {
				t.Errorf("%s: %d scripts were sent and %d replies lost, want %d and 1", name, n, p.lost.Load()-lost, want)
			}
		}
		sends(1, func() error {
			_, err := k.store.Submit(t.Context(), k.submission())
			return err
		})
		sends(partitions, func() error { return k.store.Check(t.Context()) })
		if n := k.nonterminal(); n != 2 {
			t.Errorf("%s: %d executions, want 2", name, n)
		}
	}
}
