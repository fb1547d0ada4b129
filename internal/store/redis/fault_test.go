package redis_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// A server that forgot its scripts is told them again, single calls and pipelines alike.
func TestScriptsAreToldAgain(t *testing.T) {
	t.Parallel()
	k := ownKit(t, redis.Config{Prefix: "noscript", Partitions: 3})
	flush := func() {
		t.Helper()
		k.own.EachMaster(func(ctx context.Context, node *goredis.Client) error { return node.ScriptFlush(ctx).Err() })
	}
	flush()
	c := k.start()
	flush()
	if got := k.complete(c); got.Status != execution.Completed {
		t.Errorf("status %s", got.Status)
	}
	flush()
	k.ok(k.store.Check(t.Context()))
	if n := k.nonterminal(); n != 0 {
		t.Errorf("%d unfinished executions", n)
	}
}

// wreck puts a key of the wrong type in place of another.
func (k *kit) wreck(name string) {
	k.Helper()
	client := redistest.Client(k)
	k.ok(client.Del(k.Context(), k.key(name)).Err())
	if strings.HasPrefix(name, "c:") || !strings.Contains(name, ":") || strings.HasPrefix(name, "p:") || strings.HasPrefix(name, "l:") ||
		strings.HasPrefix(name, "ready:") || strings.HasPrefix(name, "delayed:") || strings.HasPrefix(name, "waiting:") || strings.HasPrefix(name, "n:") {
		k.ok(client.Set(k.Context(), k.key(name), "wrecked", 0).Err())
	} else {
		k.ok(client.SAdd(k.Context(), k.key(name), "wrecked").Err())
	}
}

// Indexes of the wrong type give way: no transition fails for them, and each finds its work again.
func TestWreckedIndexes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ready:story@r1", "delayed:story@r1", "waiting:story@r1", "leases", "running", "waits", "retention", "served", "workers", "batch:w1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			k.wreck(name)
			c := k.start()
			k.wreck(name)
			c = k.checkpoint(c)
			k.wreck(name)
			c = k.suspend(c)
			k.wreck(name)
			_, err := k.store.Maintain(t.Context(), 10)
			k.ok(err)
			r, err := k.store.Cancel(t.Context(), c.ID, store.Scope{All: true}, "")
			k.ok(err)
			if r.Control.Status != execution.Canceled || k.nonterminal() != 0 {
				t.Errorf("status %s, %d unfinished", r.Control.Status, k.nonterminal())
			}
		})
	}
}

// Counters of the wrong type refuse a submission before anything is written, and never hold up an end.
func TestWreckedCounters(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	c := k.start()
	k.wreck("capacity")
	sub := k.submission()
	_, err := k.store.Submit(t.Context(), sub)
	k.refused(err, execution.CodeCorrupt)
	if n := redistest.Client(t).Exists(t.Context(), k.key("c:"+sub.ID), k.key("i:"+sub.ID)).Val(); n != 0 {
		t.Errorf("%d keys were written", n)
	}
	if got := k.complete(c); got.Status != execution.Completed {
		t.Errorf("status %s", got.Status)
	}
}

// An input that is not there, or of the wrong type, is told from an empty one where it is asked for, and hides nothing else.
func TestWreckedInput(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	ask := func(id string) error {
		_, err := k.store.Read(t.Context(), store.ReadRequest{ID: id, Scope: store.Scope{All: true}, Input: true})
		return err
	}
	gone, wrecked := k.submit(), k.submit()
	k.ok(ask(gone))
	k.ok(redistest.Client(t).Del(t.Context(), k.key("i:"+gone)).Err())
	k.wreck("i:" + wrecked)
	for _, id := range []string{gone, wrecked} {
		k.refused(ask(id), execution.CodeCorrupt)
		k.read(id)
	}
}

// Counters never go below zero, and one that can't be read stays as it is.
func TestCountersStayPositive(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"0", "-3", "x", "1e3"} {
		k := newKit(t)
		c := k.start()
		client := redistest.Client(t)
		k.ok(client.HSet(t.Context(), k.key("capacity"), "story", value).Err())
		k.complete(c)
		if got := client.HGet(t.Context(), k.key("capacity"), "story").Val(); got != value {
			t.Errorf("counter %q became %q", value, got)
		}
	}
}

// A log of the wrong type never blocks a transition: it gives way to a new one under a new name.
func TestWreckedLog(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	c := k.start()
	k.stream(c, chunks(1, 0, "a"))
	epoch := k.read(c.ID).Control.LogEpoch
	k.wreck("l:" + c.ID)
	if log := k.read(c.ID).Log; log != nil {
		t.Errorf("log is %v", log)
	}
	out, err := k.store.Beat(t.Context(), []store.Beat{{ID: c.ID, Ownership: owner(c), Lease: 2 * lease, Chunks: chunks(1, 1, "b")}})
	k.ok(err)
	k.refused(out[0].Err, execution.CodeCorrupt)
	if out[0].LeaseUntil <= c.LeaseUntil {
		t.Error("the lease was not renewed")
	}
	c = k.do(c, execution.Report{Owned: k.owned(c, k.event("x"))})
	if c.LogEpoch == epoch {
		t.Error("the new log has the name of the old one")
	}
	k.wreck("l:" + c.ID)
	if log := k.read(k.complete(c).ID).Log; len(log) != 1 || log[0].Kind != execution.EntryEnd {
		t.Errorf("log is %v", log)
	}
}

// Progress of the wrong type refuses more progress and marks the claim, until a failure drops it.
func TestWreckedProgress(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	c := k.start()
	c = k.do(c, execution.Report{Owned: k.owned(c, k.event("x"))})
	k.wreck("p:" + c.ID)
	_, err := k.store.Transition(t.Context(), c, execution.Report{Owned: k.owned(c, k.event("y"))})
	k.refused(err, execution.CodeCorrupt)
	_, err = k.store.Read(t.Context(), store.ReadRequest{ID: c.ID, Scope: store.Scope{All: true}})
	k.refused(err, execution.CodeCorrupt)
	k.do(c, execution.Release{Owned: k.owned(c)})
	claimed := k.poll(1).Claimed
	if len(claimed) != 1 || !claimed[0].Invalid {
		t.Fatalf("claimed %+v", claimed)
	}
	c = claimed[0].Control
	failure := execution.Failure{Code: execution.FailureStoredInvalid}
	c = k.do(c, execution.Fail{Owned: k.owned(c), Error: failure, DropProgress: true})
	if r := k.read(c.ID); c.Status != execution.Failed || r.Progress != nil || k.nonterminal() != 0 {
		t.Errorf("%+v", r)
	}
}

// What can't be read of an execution hides neither what was done to it nor that it is there.
func TestWreckedProgressHidesNoOutcome(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	sub := k.submission()
	sub.Key = store.Key{Deployment: sub.Deployment, Value: "k"}
	_, err := k.store.Submit(t.Context(), sub)
	k.ok(err)
	c := k.poll(1).Claimed[0].Control
	c = k.suspend(k.do(c, execution.Report{Owned: k.owned(c, k.event("x"))}))
	k.wreck("p:" + c.ID)
	for _, replayed := range []bool{false, true} {
		r, err := k.store.Resume(t.Context(), store.ResumeRequest{ID: c.ID, Scope: store.Scope{All: true}, Answer: []byte("1"),
			Checked: c.WaitSequence, Key: "k"})
		k.ok(err)
		if r.Replayed != replayed || r.Record.Control.Status != execution.Queued {
			t.Errorf("resumed %+v", r)
		}
	}
	for range 2 {
		r, err := k.store.Cancel(t.Context(), c.ID, store.Scope{All: true}, "")
		k.ok(err)
		if r.Control.Status != execution.Canceled {
			t.Errorf("canceled %+v", r)
		}
	}
	found, err := k.store.FindKey(t.Context(), sub.Key)
	k.ok(err)
	again, err := k.store.Submit(t.Context(), sub)
	k.ok(err)
	if found.Record.Control.ID != sub.ID || again.Record.Control.ID != sub.ID {
		t.Errorf("found %+v, then %+v", found, again)
	}
}

// A payload that is missing or of the wrong type marks the claim as invalid.
func TestWreckedPayloads(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"i:", "k:", "a:"} {
		k := newKit(t)
		c := k.suspend(k.start())
		_, err := k.store.Resume(t.Context(), store.ResumeRequest{ID: c.ID, Scope: store.Scope{All: true}, Answer: []byte("1"), Checked: c.WaitSequence})
		k.ok(err)
		k.wreck(kind + c.ID)
		if claimed := k.poll(1).Claimed; len(claimed) != 1 || !claimed[0].Invalid {
			t.Errorf("%s: claimed %+v", kind, claimed)
		}
	}
	k := newKit(t)
	id := k.submit()
	k.ok(redistest.Client(t).Del(t.Context(), k.key("i:"+id)).Err())
	if claimed := k.poll(1).Claimed; len(claimed) != 1 || !claimed[0].Invalid {
		t.Errorf("claimed %+v", claimed)
	}
}

// A malformed control leaves every index and its counter once, is listed, and never stalls its neighbours.
func TestMalformedControls(t *testing.T) {
	t.Parallel()
	damage := map[string]func(k *kit, id string){
		"other type":    func(k *kit, id string) { k.wreck("c:" + id) },
		"no status":     func(k *kit, id string) { k.field(id, "s", "z") },
		"not a number":  func(k *kit, id string) { k.field(id, "v", "007") },
		"too large":     func(k *kit, id string) { k.field(id, "f", "9007199254740992") },
		"unknown field": func(k *kit, id string) { k.field(id, "nonsense", "1") },
		"inconsistent":  func(k *kit, id string) { k.field(id, "e", "5") },
	}
	for name, f := range damage {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			bad, good := k.submit(), k.submit()
			f(k, bad)
			_, err := k.store.Read(t.Context(), store.ReadRequest{ID: bad, Scope: store.Scope{All: true}})
			k.refused(err, execution.CodeCorrupt)
			p := k.poll(2)
			if p.Malformed != 1 || len(p.Claimed) != 1 || p.Claimed[0].Control.ID != good {
				t.Fatalf("polled %+v", p)
			}
			counts, err := k.store.Counts(t.Context())
			k.ok(err)
			if counts.Malformed != 1 || counts.Revisions[0].Nonterminal != 1 || counts.Revisions[0].Ready != 0 {
				t.Errorf("counts %+v", counts)
			}
			if p := k.poll(2); p.Malformed != 0 || len(p.Claimed) != 0 {
				t.Errorf("polled again %+v", p)
			}
		})
	}
}

func (k *kit) field(id, name, value string) {
	k.Helper()
	k.ok(redistest.Client(k).HSet(k.Context(), k.key("c:"+id), name, value).Err())
}

// A control of a newer schema is passed over and stays as it is, wherever it stands.
func TestForeignControls(t *testing.T) {
	t.Parallel()
	k, clock := standingKit(t)
	foreign := k.submit()
	k.field(foreign, "z", "2")
	k.field(foreign, "new", "x")
	c := k.start()
	if p := k.poll(5); len(p.Claimed) != 0 || p.Malformed != 0 {
		t.Fatalf("polled %+v", p)
	}
	k.field(c.ID, "z", "2")
	clock.advance(lease)
	m, err := k.store.Maintain(t.Context(), 10)
	k.ok(err)
	if m != (store.Maintained{Skipped: 1}) {
		t.Errorf("maintained %+v", m)
	}
	k.field(c.ID, "z", "1")
	if m, err := k.store.Maintain(t.Context(), 10); err != nil || m != (store.Maintained{Requeued: 1}) {
		t.Errorf("maintained %+v, %v", m, err)
	}
	if n := k.nonterminal(); n != 2 {
		t.Errorf("%d unfinished executions", n)
	}
}

func standingKit(t *testing.T) (*kit, *movable) {
	t.Helper()
	s, clock := standing(t, 1, store.Limits{})
	return &kit{T: t, store: s, prefix: clock.prefix, rev: store.Revision{Deployment: "story", Revision: "r1"}}, clock
}

// Malformed controls are found by maintenance too, and listed once.
func TestMalformedLease(t *testing.T) {
	t.Parallel()
	k, clock := standingKit(t)
	c := k.start()
	k.start()
	k.field(c.ID, "a", "-1")
	clock.advance(lease)
	m, err := k.store.Maintain(t.Context(), 10)
	k.ok(err)
	if m != (store.Maintained{Requeued: 1, Malformed: 1}) {
		t.Errorf("maintained %+v", m)
	}
	if n := k.nonterminal(); n != 1 {
		t.Errorf("%d unfinished executions, want 1", n)
	}
}

// One whose lease lies ahead, since the clock was set back, is found as well.
func TestMalformedLeaseAhead(t *testing.T) {
	t.Parallel()
	k, clock := standingKit(t)
	k.field(k.start().ID, "a", "-1")
	clock.step(-time.Hour)
	m, err := k.store.Maintain(t.Context(), 10)
	k.ok(err)
	if n := k.nonterminal(); m != (store.Maintained{Malformed: 1}) || n != 0 {
		t.Errorf("maintained %+v, %d unfinished executions", m, n)
	}
}

// At maxmemory a submission is refused and leaves nothing, while all that is under way goes on.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	k := ownKit(t, redis.Config{Prefix: "oom"})
	running, waiting, queued := k.start(), k.suspend(k.start()), k.submit()
	k.stream(running, chunks(1, 0, "a"))
	k.full()

	sub := k.submission()
	_, err := k.store.Submit(t.Context(), sub)
	k.refused(err, execution.CodeUnavailable)
	var e *execution.Error
	if !errors.As(err, &e) || e.Message != "the store has no room" || !e.Unchanged {
		t.Errorf("error is %+v", e)
	}
	if n := k.own.Client().Exists(t.Context(), k.key("c:"+sub.ID), k.key("i:"+sub.ID)).Val(); n != 0 {
		t.Errorf("%d keys were written", n)
	}
	for _, b := range []store.Beat{{Lease: lease}, {Chunks: chunks(1, 1, "b")}, {Lease: lease, Chunks: chunks(1, 2, "c")}} {
		b.ID, b.Ownership = running.ID, owner(running)
		out, err := k.store.Beat(t.Context(), []store.Beat{b})
		k.ok(err)
		k.ok(out[0].Err)
	}
	running = k.checkpoint(running)
	running = k.do(running, execution.Report{Owned: k.owned(running, k.event("x"))})
	k.complete(running)
	_, err = k.store.Resume(t.Context(), store.ResumeRequest{ID: waiting.ID, Scope: store.Scope{All: true}, Answer: []byte("1"), Checked: waiting.WaitSequence})
	k.ok(err)
	claimed := k.poll(5).Claimed
	if len(claimed) != 2 {
		t.Fatalf("%d were claimed, want 2", len(claimed))
	}
	k.ok(k.store.Check(t.Context()))
	_, err = k.store.Read(t.Context(), store.ReadRequest{ID: queued, Scope: store.Scope{All: true}, Watch: true})
	k.ok(err)
	if k.read(queued).Control.WatchedUntil == 0 {
		t.Error("the log is not marked as watched")
	}
	_, err = k.store.Cancel(t.Context(), queued, store.Scope{All: true}, "enough")
	k.ok(err)
	_, err = k.store.Maintain(t.Context(), 10)
	k.ok(err)
	if log := k.read(running.ID).Log; len(log) != 5 {
		t.Errorf("%d entries, want 5", len(log))
	}
}
