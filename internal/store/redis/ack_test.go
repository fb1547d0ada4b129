package redis_test

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// brief is a wait that runs out soon where nothing answers, and still is far longer than a replica on this machine takes.
const brief = 300 * time.Millisecond

// replicated is a primary with a replica that acknowledges what it is sent.
func replicated(t *testing.T, args ...string) (primary, replica *redistest.Server) {
	t.Helper()
	primary = redistest.Private(t, redistest.Options{Args: append([]string{"--repl-diskless-sync-delay", "0"}, args...)})
	replica = redistest.Private(t, redistest.Options{Args: append([]string{"--replicaof", "127.0.0.1", port(t, primary)}, args...)})
	until(t, "the replica is online", func() bool { return acknowledges(t, primary) })
	return primary, replica
}

// acknowledges reports whether a replica follows a server closely.
func acknowledges(t *testing.T, primary *redistest.Server) bool {
	t.Helper()
	pipe := primary.Client().Pipeline()
	pipe.Set(t.Context(), "{0}any", "", time.Minute)
	got := pipe.Do(t.Context(), "WAIT", 1, 100)
	_, err := pipe.Exec(t.Context())
	return err == nil && got.Val() == int64(1)
}

func port(t *testing.T, s *redistest.Server) string {
	t.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// until looks again and again: a server tells of no event.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !cond() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: never", what)
		}
	}
}

func all() store.Scope { return store.Scope{All: true} }

// changes are the operations that wait, each as one that may be repeated, and told the store to use: a repeat comes from
// another process, whose connections have written nothing.
func (k *kit) changes() map[string]func(*redis.Store) (string, error) {
	keyed := k.submission()
	keyed.Key = store.Key{Deployment: "story", Value: "k", Fingerprint: [32]byte{1}}
	keyed.ID = k.store.NewID(keyed.Key)
	bound := k.submission()
	bound.Key = store.Key{Deployment: "story", Value: "bound", Fingerprint: [32]byte{1}}
	bound.ID = k.store.NewID(bound.Key)
	var controls []execution.Control
	for range 3 {
		controls = append(controls, k.start())
	}
	queued := k.submit()
	_, err := k.store.Submit(k.Context(), bound)
	k.ok(err)
	waiting := k.suspend(controls[2])
	checkpoint := execution.Checkpoint{Owned: k.owned(controls[0]), Data: []byte(`{"at":1}`), Lease: lease}
	complete := execution.Complete{Owned: k.owned(controls[1]), Result: []byte(`1`)}
	transition := func(c execution.Control, cmd execution.Command) func(*redis.Store) (string, error) {
		return func(s *redis.Store) (string, error) {
			out, err := s.Transition(k.Context(), c, cmd)
			return out.ID, err
		}
	}
	return map[string]func(*redis.Store) (string, error){
		"submit": func(s *redis.Store) (string, error) {
			out, err := s.Submit(k.Context(), keyed)
			return out.Record.Control.ID, err
		},
		"find": func(s *redis.Store) (string, error) {
			out, err := s.FindKey(k.Context(), bound.Key)
			return out.Record.Control.ID, err
		},
		"checkpoint": transition(controls[0], checkpoint),
		"complete":   transition(controls[1], complete),
		"cancel": func(s *redis.Store) (string, error) {
			out, err := s.Cancel(k.Context(), queued, all(), "")
			return out.Control.ID, err
		},
		"resume": func(s *redis.Store) (string, error) {
			out, err := s.Resume(k.Context(), store.ResumeRequest{ID: waiting.ID, Scope: all(), Answer: []byte(`true`),
				Checked: waiting.WaitSequence, Key: "k", Digest: [32]byte{1}})
			return out.Record.Control.ID, err
		},
	}
}

// A change that no replica acknowledges is unconfirmed, and so is each repeat, from wherever it comes; once the replica goes on
// a repeat is confirmed, and was carried out once.
func TestUnacknowledgedChange(t *testing.T) {
	t.Parallel()
	primary, replica := replicated(t)
	config := redis.Config{URL: primary.URL(), Prefix: "ack", Ack: redis.Ack{Replicas: 1, Timeout: brief}}
	k := openKit(t, config)
	k.ok(k.store.TellScripts(t.Context()))
	changes := k.changes()
	others := map[string]*redis.Store{}
	for name := range changes {
		others[name] = openKit(t, config).store
	}
	replica.Pause()
	for name, change := range changes {
		for i, s := range []*redis.Store{k.store, k.store, others[name], others[name]} {
			if _, err := change(s); execution.CodeOf(err) != execution.CodeUnconfirmed {
				t.Errorf("%s, try %d without a replica: %v", name, i, err)
			}
		}
	}
	replica.Resume()
	for name, change := range changes {
		if id, err := change(others[name]); err != nil || id == "" {
			t.Errorf("%s with a replica: %q, %v", name, id, err)
		}
	}
	if n := k.nonterminal(); n != 4 { // the two with a key, the checkpoint's and the answered one
		t.Errorf("%d unfinished executions, want 4", n)
	}
}

// What was refused is refused, whatever becomes of the wait.
func TestRefusalNeedsNoAcknowledgement(t *testing.T) {
	t.Parallel()
	primary, replica := replicated(t)
	k := openKit(t, redis.Config{URL: primary.URL(), Prefix: "ack", Ack: redis.Ack{Replicas: 1, Timeout: brief}})
	c := k.start()
	waiting := k.suspend(k.start())
	sub := k.submission()
	sub.MaxNonterminal = 1
	replica.Pause()
	defer replica.Resume()
	_, err := k.store.Submit(t.Context(), sub)
	k.refused(err, execution.CodeCapacity)
	_, err = k.store.Cancel(t.Context(), k.store.NewID(store.Key{}), all(), "")
	k.refused(err, execution.CodeNotFound)
	c.Token = "another"
	_, err = k.store.Transition(t.Context(), c, execution.Release{Owned: k.owned(c)})
	k.refused(err, execution.CodeLeaseLost)
	out, err := k.store.Resume(t.Context(), store.ResumeRequest{ID: waiting.ID, Scope: all(), Answer: []byte(`1`)})
	if k.ok(err); !out.Unchecked {
		t.Errorf("an answer that was not checked: %+v", out)
	}
}

// Polls, beats, maintenance and reads promise nothing, and go on without a replica.
func TestWhatDoesNotWait(t *testing.T) {
	t.Parallel()
	primary, replica := replicated(t)
	var waited atomic.Int64
	k := openKit(t, redis.Config{URL: primary.URL(), Prefix: "ack", Ack: redis.Ack{Replicas: 1},
		Observe: func(_ string, _, commands int, _ time.Duration, _ string) { waited.Add(int64(commands - 1)) }})
	k.submit()
	replica.Pause()
	defer replica.Resume()
	waited.Store(0)
	c := k.poll(1).Claimed[0].Control
	k.stream(c, chunks(1, 0, "a"))
	_, err := k.store.Beat(t.Context(), []store.Beat{{ID: c.ID, Ownership: owner(c), Lease: lease}})
	k.ok(err)
	_, err = k.store.Maintain(t.Context(), 10)
	k.ok(err)
	k.read(c.ID)
	if n := waited.Load(); n != 0 {
		t.Errorf("%d waits", n)
	}
}

// A wait shares the exchange of its change, told scripts or not, and its outcome is counted.
func TestAcknowledgementCostsNoExchange(t *testing.T) {
	t.Parallel()
	primary, replica := replicated(t)
	var exchanges, commands atomic.Int64
	var outcome atomic.Value
	observe := func(_ string, e, c int, _ time.Duration, o string) {
		exchanges.Add(int64(e))
		commands.Add(int64(c))
		outcome.Store(o)
	}
	k := openKit(t, redis.Config{URL: primary.URL(), Prefix: "ack", Ack: redis.Ack{Replicas: 1, Timeout: brief}, Observe: observe})
	want := func(what string, wantExchanges, wantCommands int64, wantOutcome string) {
		t.Helper()
		if e, c, o := exchanges.Swap(0), commands.Swap(0), outcome.Load(); e != wantExchanges || c != wantCommands || o != wantOutcome {
			t.Errorf("%s: %d exchanges of %d commands, %v", what, e, c, o)
		}
	}
	exchanges.Store(0)
	commands.Store(0)
	k.ok(primary.Client().ScriptFlush(t.Context()).Err())
	k.submit()
	want("an unknown script", 2, 4, "ok")
	k.submit()
	want("a known one", 1, 2, "ok")
	replica.Pause()
	defer replica.Resume()
	_, err := k.store.Submit(t.Context(), k.submission())
	k.refused(err, execution.CodeUnconfirmed)
	want("no replica", 1, 2, "unconfirmed")
}

// At maxmemory a repeat is still answered and acknowledged. Only where an acknowledgement is asked for does a repeat write.
func TestRepeatAtMaxmemory(t *testing.T) {
	t.Parallel()
	primary, _ := replicated(t)
	for _, ack := range []redis.Ack{{}, {Replicas: 1}} {
		k := openKit(t, redis.Config{URL: primary.URL(), Prefix: "m" + strconv.Itoa(ack.Replicas), Ack: ack})
		changes := k.changes()
		for name, change := range changes {
			if _, err := change(k.store); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		k.ok(primary.Client().Del(t.Context(), k.key("ack")).Err())
		k.ok(primary.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
		for name, change := range changes {
			k.ok(primary.Client().Del(t.Context(), k.key("ack")).Err())
			if id, err := change(k.store); err != nil || id == "" {
				t.Errorf("%s at maxmemory: %q, %v", name, id, err)
			}
			ttl, err := primary.Client().PTTL(t.Context(), k.key("ack")).Result()
			k.ok(err)
			if wrote := ttl > 0 && ttl <= time.Minute; wrote != (ack.Replicas > 0) {
				t.Errorf("%s with %+v: the mark lives for %v", name, ack, ttl)
			}
		}
		k.ok(primary.Client().ConfigSet(t.Context(), "maxmemory", "0").Err())
	}
}

// A wait ends before the context does, so that its outcome is known.
func TestWaitEndsBeforeItsContext(t *testing.T) {
	t.Parallel()
	primary, replica := replicated(t)
	k := openKit(t, redis.Config{URL: primary.URL(), Prefix: "ack", Ack: redis.Ack{Replicas: 1, Timeout: 4 * time.Second}})
	k.ok(k.store.TellScripts(t.Context()))
	replica.Pause()
	defer replica.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	_, err := k.store.Submit(ctx, k.submission())
	k.refused(err, execution.CodeUnconfirmed)
}

// What could never be acknowledged is refused at start, with the setting and the remedy.
func TestOpenRefusesAcknowledgement(t *testing.T) {
	t.Parallel()
	server := redistest.Private(t, redistest.Options{})
	_, err := opened(t, redis.Config{URL: server.URL(), Ack: redis.Ack{Replicas: 2}})
	if err == nil {
		t.Fatal("it was opened")
	}
	contains(t, err.Error(), "--ack (WINDROW_ACK)", "replicas=2", "0 online", "connect more")
	_, err = opened(t, redis.Config{URL: server.URL(), Ack: redis.Ack{Fsync: true}})
	if err == nil {
		t.Fatal("it was opened")
	}
	want := []string{"fsync", "appendonly", "yes"}
	if !hasWaitAOF(t, server) {
		want = []string{"fsync", "7.2", "upgrade"}
	}
	contains(t, err.Error(), want...)
}

// hasWaitAOF tells whether a server knows WAITAOF.
func hasWaitAOF(t *testing.T, s *redistest.Server) bool {
	t.Helper()
	known, err := s.Client().Do(t.Context(), "COMMAND", "INFO", "WAITAOF").Slice()
	if err != nil {
		t.Fatal(err)
	}
	return len(known) == 1 && known[0] != nil
}

// With fsync a change waits for the append-only file, and is unconfirmed where there is none any more.
func TestFsync(t *testing.T) {
	t.Parallel()
	server := redistest.Private(t, redistest.Options{AppendFsync: "always"})
	config := redis.Config{URL: server.URL(), Prefix: "ack", Ack: redis.Ack{Fsync: true}}
	if !hasWaitAOF(t, server) {
		_, err := opened(t, config)
		if err == nil {
			t.Fatal("a server without WAITAOF was accepted")
		}
		contains(t, err.Error(), "7.2")
		return
	}
	k := openKit(t, config)
	for name, change := range k.changes() {
		for range 2 {
			if _, err := change(k.store); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	k.ok(server.Client().ConfigSet(t.Context(), "appendonly", "no").Err())
	sub := k.submission()
	for range 2 {
		_, err := k.store.Submit(t.Context(), sub)
		k.refused(err, execution.CodeUnconfirmed)
	}
}

// clustered are two servers of a cluster, the second a replica of the first, which holds all slots.
func clustered(t *testing.T) (primary, replica *redistest.Server) {
	t.Helper()
	args := []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0"}
	do := func(s *redistest.Server, args ...any) string {
		t.Helper()
		out, err := s.Client().Do(t.Context(), args...).Text()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return out
	}
	primary, replica = redistest.Private(t, redistest.Options{Args: args}), redistest.Private(t, redistest.Options{Args: args})
	slots := []any{"CLUSTER", "ADDSLOTS"}
	for slot := range 16384 {
		slots = append(slots, slot)
	}
	do(primary, slots...)
	do(replica, "CLUSTER", "MEET", "127.0.0.1", port(t, primary))
	id := do(primary, "CLUSTER", "MYID")
	until(t, "the servers know each other", func() bool {
		return replica.Client().Do(t.Context(), "CLUSTER", "REPLICATE", id).Err() == nil
	})
	until(t, "the cluster is whole", func() bool {
		return acknowledges(t, primary) && strings.Contains(do(replica, "CLUSTER", "INFO"), "cluster_state:ok") &&
			strings.Contains(do(primary, "CLUSTER", "INFO"), "cluster_state:ok")
	})
	return primary, replica
}

// On a cluster a wait goes where its change went, also where another server has come to hold the partition.
func TestAcknowledgementOnCluster(t *testing.T) {
	t.Parallel()
	primary, replica := clustered(t)
	nodes := "redis+cluster://127.0.0.1:" + port(t, primary) + ",127.0.0.1:" + port(t, replica)
	k := openKit(t, redis.Config{URL: nodes, Prefix: "ack", Ack: redis.Ack{Replicas: 1, Timeout: brief}})
	c := k.start()
	k.checkpoint(c)
	replica.Pause()
	sub := k.submission()
	_, err := k.store.Submit(t.Context(), sub)
	k.refused(err, execution.CodeUnconfirmed)
	replica.Resume()
	until(t, "the repeat is confirmed", func() bool {
		out, err := k.store.Submit(t.Context(), sub)
		return err == nil && out.Replayed
	})

	// Promote the replica, and let the old primary follow it: what it is asked then it answers with MOVED.
	until(t, "the failover begins", func() bool { return replica.Client().Do(t.Context(), "CLUSTER", "FAILOVER").Err() == nil })
	until(t, "the old primary follows", func() bool {
		return acknowledges(t, replica) && strings.HasPrefix(moved(t, primary), "MOVED ")
	})
	out, err := k.store.Submit(t.Context(), k.submission())
	k.ok(err)
	if got := k.read(out.Record.Control.ID).Control.Status; got != execution.Queued {
		t.Errorf("status %s", got)
	}
}

// moved is what a server of a cluster says to a command for a key.
func moved(t *testing.T, s *redistest.Server) string {
	t.Helper()
	if err := s.Client().Get(t.Context(), "any").Err(); err != nil && err != goredis.Nil {
		return err.Error()
	}
	return ""
}
