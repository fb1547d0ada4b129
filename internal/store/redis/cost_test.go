package redis_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// TestCost holds each operation against what it may cost: one command of the client once scripts are known, and within it
// exactly these commands of the server.
func TestCost(t *testing.T) {
	t.Parallel()
	server := redistest.Private(t, redistest.Options{})
	k := openKit(t, redis.Config{URL: server.URL(), Prefix: "cost"})
	m := newMonitor(t, server)
	script := func(commands ...string) []string { return append([]string{"TIME"}, commands...) }

	var c execution.Control
	round := func(want func(name string, script []string, f func())) {
		want("submit", script("EXISTS", "HMGET", "HSET", "SET", "ZCARD", "ZRANGE", "PUBLISH", "ZADD", "ZADD", "ZADD", "HSET"), func() { k.submit() })
		want("claim", script("EXISTS", "ZRANGE", "MGET", "ZRANGE", "HGETALL", "MGET", "HSET", "ZREM", "ZADD", "ZADD", "SET", "ZADD", "ZADD", "ZCOUNT", "ZCOUNT", "ZRANGE", "EXISTS"),
			func() { c = k.poll(2).Claimed[0].Control })
		want("first chunks", script("HMGET", "XADD", "HSET"), func() { k.stream(c, chunks(1, 0, "a", "b")) })
		want("chunks", script("HMGET", "XADD"), func() { k.stream(c, chunks(1, 2, "c")) })
		want("heartbeat", script("HMGET", "HSET", "ZADD"), func() {
			_, err := k.store.Beat(t.Context(), []store.Beat{{ID: c.ID, Ownership: owner(c), Lease: lease}})
			k.ok(err)
		})
		want("checkpoint", script("HGETALL", "HSET", "HDEL", "SET", "ZADD"), func() { c = k.checkpoint(c) })
		want("progress", script("HGETALL", "TYPE", "HSET", "RPUSH", "XADD"), func() {
			c = k.do(c, execution.Report{Owned: k.owned(c, k.event("x"))})
		})
		want("suspend", script("HGETALL", "HSET", "HDEL", "SET", "SET", "DEL", "XADD", "ZADD", "ZADD", "ZREM", "ZREM"), func() { c = k.suspend(c) })
		want("resume", script("HGETALL", "HGET", "HSET", "HDEL", "SET", "DEL", "XADD", "ZREM", "ZREM", "ZCARD", "ZRANGE", "PUBLISH", "ZADD", "HSET", "LRANGE", "MGET"), func() {
			_, err := k.store.Resume(t.Context(), store.ResumeRequest{ID: c.ID, Scope: store.Scope{All: true}, Checked: c.WaitSequence,
				Key: "k", Answer: []byte("1")})
			k.ok(err)
		})
		want("claim again", script("EXISTS", "ZRANGE", "MGET", "ZRANGE", "HGETALL", "MGET", "HSET", "XADD", "TYPE", "ZREM", "ZADD", "ZADD", "SET", "ZADD", "ZADD",
			"ZCOUNT", "ZCOUNT", "ZRANGE", "EXISTS"), func() { c = k.poll(2).Claimed[0].Control })
		want("read", script("HGETALL", "LRANGE", "MGET", "XRANGE"), func() { k.read(c.ID) })
		want("complete", script("HGETALL", "HMGET", "HSET", "HDEL", "SET", "DEL", "XADD",
			"PEXPIRE", "PEXPIRE", "PEXPIRE", "PEXPIRE", "PEXPIRE", "PEXPIRE", "ZREM", "ZREM", "ZADD", "HDEL"), func() { k.complete(c) })
		want("cancel", script("HGETALL", "LRANGE", "MGET", "ZSCORE"), func() {
			_, err := k.store.Cancel(t.Context(), c.ID, store.Scope{All: true}, "")
			k.ok(err)
		})
		want("idle poll", script("EXISTS", "MGET", "ZADD", "ZADD", "ZCOUNT", "ZCOUNT", "ZRANGE"), func() { k.poll(2) })
	}
	round(func(_ string, _ []string, f func()) { f() }) // scripts become known
	round(func(name string, script []string, f func()) {
		t.Helper()
		client, ran := m.during(f)
		if diff := cmp.Diff([]string{"EVALSHA"}, client); diff != "" {
			t.Errorf("%s: commands of the client (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(script, ran); diff != "" {
			t.Errorf("%s: commands of the script (-want +got):\n%s", name, diff)
		}
	})
}

// TestBytes holds what the most frequent operations send and receive, but for their payloads, against what they may.
func TestBytes(t *testing.T) {
	t.Parallel()
	p := &proxy{}
	server := redistest.Private(t, redistest.Options{})
	k := openKit(t, p.between(redis.Config{URL: server.URL(), Prefix: "bytes"}))
	k.ok(k.store.TellScripts(t.Context()))
	id := func() string { return execution.NewLogEpoch(execution.Instant(1e15)) + "abcdefghi" } // 22 characters
	var c execution.Control
	cost := func(name string, most int64, f func()) {
		t.Helper()
		before := p.bytes.Load()
		f()
		used := p.bytes.Load() - before
		t.Logf("%-12s %d bytes", name, used)
		if used > most {
			t.Errorf("%s took %d bytes, at most %d", name, used, most)
		}
	}
	cost("submit", 600, func() { k.submit() })
	cost("claim", 700, func() {
		out, err := k.store.Poll(t.Context(), store.PollRequest{Worker: id(), Token: id(), Revisions: []store.Want{{Revision: k.rev, Count: 1, Lease: lease}}})
		k.ok(err)
		c = out.Claimed[0].Control
	})
	k.stream(c, chunks(1, 0, "x"))
	cost("chunk", 330, func() { k.stream(c, chunks(1, 1, "x")) })
	cost("heartbeat", 310, func() {
		_, err := k.store.Beat(t.Context(), []store.Beat{{ID: c.ID, Ownership: owner(c), Lease: lease}})
		k.ok(err)
	})
	cost("checkpoint", 600, func() { c = k.checkpoint(c) })
	cost("complete", 700, func() { k.complete(c) })
	cost("idle poll", 450, func() { k.poll(1) })
}
