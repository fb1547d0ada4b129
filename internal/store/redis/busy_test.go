package redis_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// A poll of several revisions is one exchange, also where one has more than is wanted of it and another has nothing.
func TestPollIsOneExchange(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 4} {
		var exchanges atomic.Int64
		observe := func(string, int, int, time.Duration, string) { exchanges.Add(1) }
		k := openKit(t, redis.Config{URL: redistest.URL(t), Prefix: redistest.Prefix(t), Partitions: partitions, Observe: observe})
		k.ok(k.store.TellScripts(t.Context()))
		k.spread(3)
		r := k.request(partitions)
		idle := store.Revision{Deployment: "idle", Revision: "r1"}
		r.Revisions = append(r.Revisions, store.Want{Revision: idle, Count: 4, Lease: lease})
		before := exchanges.Load()
		p, err := k.store.Poll(t.Context(), r)
		k.ok(err)
		if n := exchanges.Load() - before; n != 1 || len(p.Claimed) != partitions {
			t.Errorf("%d partitions: %d exchanges, %d claimed", partitions, n, len(p.Claimed))
		}
	}
}

// At maxmemory work is claimed in one partition also where another has nothing to give, and whoever polls stays known as
// serving its revisions.
func TestOutOfMemoryOverPartitions(t *testing.T) {
	t.Parallel()
	k := ownKit(t, redis.Config{Prefix: "oom", Partitions: 4})
	id := k.submit()
	k.poll(0)
	k.full()
	served := k.servedAt()
	for k.servedAt() == served {
		if p := k.poll(4); id != "" {
			if len(p.Claimed) != 1 || p.Claimed[0].Control.ID != id {
				t.Fatalf("polled %+v", p)
			}
			id = ""
		}
	}
}

func (k *kit) servedAt() int64 {
	k.Helper()
	counts, err := k.store.Counts(k.Context())
	k.ok(err)
	return counts.Revisions[0].ServedAt
}

// Work of a newer schema at the head of a queue, however much, is put off untouched: it neither hides what stands behind it,
// nor keeps the doorbell quiet, and is looked at again a minute later.
func TestForeignHead(t *testing.T) {
	t.Parallel()
	k, clock := standingKit(t)
	const foreign = 250
	var ids []string
	for range foreign {
		ids = append(ids, k.submit())
		k.field(ids[len(ids)-1], "z", "2")
	}
	clock.advance(time.Millisecond)
	id := k.submit()
	var claimed []store.Claimed
	for range 3 {
		p := k.poll(1)
		claimed = append(claimed, p.Claimed...)
		if !p.More {
			break
		}
	}
	if len(claimed) != 1 || claimed[0].Control.ID != id {
		t.Fatalf("claimed %+v", claimed)
	}
	if p := k.poll(1); len(p.Claimed) != 0 || p.More || p.NextDue == 0 {
		t.Errorf("polled %+v", p)
	}
	k.rings(func() { k.submit() })
	if p := k.poll(5); len(p.Claimed) != 1 {
		t.Errorf("polled %+v", p)
	}
	for _, id := range ids {
		k.field(id, "z", "1") // as a release that knows the schema sees it
	}
	clock.advance(time.Minute)
	if p := k.poll(20); len(p.Claimed) != 20 {
		t.Errorf("%d were claimed a minute later, want 20", len(p.Claimed))
	}
}

// Work that was put off leaves the index with a cancel, whatever release that reaches.
func TestForeignCanceled(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	id := k.submit()
	k.field(id, "z", "2")
	k.poll(1)
	k.field(id, "z", "1")
	_, err := k.store.Cancel(t.Context(), id, store.Scope{All: true}, "")
	k.ok(err)
	if names := redistest.Client(t).ZRange(t.Context(), k.key("delayed:story@r1"), 0, -1).Val(); len(names) != 0 {
		t.Errorf("%q are left among delayed work", names)
	}
}

// Polls that claim nothing leave nothing behind that stays.
func TestPollsAtRest(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	r := k.request(5)
	r.Doubt = true
	_, err := k.store.Poll(t.Context(), r)
	k.ok(err)
	for _, key := range redistest.Keys(t, k.prefix+":*") {
		if ttl := redistest.Client(t).PTTL(t.Context(), key).Val(); ttl < 0 && key != k.key("served") && key != k.key("workers") && key != k.prefix+":namespace" {
			t.Errorf("%s stays", key)
		}
	}
}

// rings holds that the doorbell rings while f runs.
func (k *kit) rings(f func()) {
	k.Helper()
	bell := redistest.Client(k).Subscribe(k.Context(), k.key("bell"))
	defer func() { _ = bell.Close() }()
	if _, err := bell.Receive(k.Context()); err != nil {
		k.Fatal(err)
	}
	f()
	select {
	case <-bell.Channel():
	case <-time.After(10 * time.Second):
		k.Error("the doorbell did not ring")
	}
}

// A stored batch that can't be read counts for none.
func TestWreckedBatch(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for _, garbage := range []string{"", "garbage", "\xdd\xff\xff\xff\xff", "\xc1", "\x95\xa1t\xa1x\xa1y\xa1z\xa1w"} {
		k.ok(redistest.Client(t).Set(t.Context(), k.key("batch:w1"), garbage, 0).Err())
		k.start()
	}
}

// A process may serve very many revisions.
func TestManyRevisions(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	r := store.PollRequest{Worker: "w1", Token: k.token()}
	for i := range 5000 {
		k.rev.Revision = fmt.Sprint("r", i)
		r.Revisions = append(r.Revisions, store.Want{Revision: k.rev, Count: 1, Lease: lease})
	}
	id := k.submit()
	p, err := k.store.Poll(t.Context(), r)
	k.ok(err)
	if len(p.Claimed) != 1 || p.Claimed[0].Control.ID != id || p.Claimed[0].Control.Status != execution.Running {
		t.Fatalf("polled %+v", p)
	}
	counts, err := k.store.Counts(t.Context())
	k.ok(err)
	if len(counts.Revisions) != len(r.Revisions) {
		t.Errorf("%d revisions are served, want %d", len(counts.Revisions), len(r.Revisions))
	}
}

// Ended executions of a newer schema stay, and hold up the removal of none behind them.
func TestForeignRetention(t *testing.T) {
	t.Parallel()
	k, clock := standingKit(t)
	const foreign = 120
	for range foreign {
		k.field(k.complete(k.start()).ID, "z", "2")
	}
	clock.advance(time.Second)
	k.complete(k.start())
	clock.advance(8 * 24 * time.Hour)
	m, err := k.store.Maintain(t.Context(), 1000)
	k.ok(err)
	if m != (store.Maintained{Removed: 1, Skipped: foreign}) {
		t.Errorf("maintained %+v", m)
	}
}

// Waits that expire together are listed some megabytes at a time, whatever is stored with them.
func TestManyLargeWaits(t *testing.T) {
	t.Parallel()
	var lists atomic.Int64
	c := redis.Config{URL: redistest.URL(t), Prefix: redistest.Prefix(t), Observe: func(script string, _, _ int, _ time.Duration, _ string) {
		if script == "overdue" {
			lists.Add(1)
		}
	}}
	k := openKit(t, c)
	wait, err := execution.Wait{Message: strings.Repeat("m", 900_000), Default: []byte("1")}.Encode()
	k.ok(err)
	const n = 7
	for range n {
		c := k.start()
		k.do(c, execution.Suspend{Owned: k.owned(c), Wait: wait, Timeout: time.Millisecond})
	}
	for !k.poll(0).Overdue {
		continue // until the last one, at least, has expired
	}
	done := 0
	for done < n {
		m, err := k.store.Maintain(t.Context(), 100)
		k.ok(err)
		done += m.Defaulted
	}
	if lists.Load() < 3 {
		t.Errorf("%d waits were listed in %d rounds, want 3", n, lists.Load())
	}
}

// A burst of progress costs no more than what is kept of it.
func TestBurstOfProgress(t *testing.T) {
	t.Parallel()
	server := redistest.Private(t, redistest.Options{})
	k := openKit(t, redis.Config{URL: server.URL(), Prefix: "burst"})
	c := k.start()
	var events []execution.Event
	for i := range 8000 {
		events = append(events, k.event(strconv.Itoa(i)))
	}
	m := newMonitor(t, server)
	_, ran := m.during(func() { c = k.do(c, execution.Report{Owned: k.owned(c, events...)}) })
	if len(ran) > 1010 {
		t.Errorf("%d commands, want about as many as entries are kept", len(ran))
	}
	r := k.read(c.ID)
	if len(r.Log) != 1000 || len(r.Progress) != 100 || r.Control.ProgressSequence != 8000 {
		t.Errorf("%d entries, %d events kept, the last is number %d", len(r.Log), len(r.Progress), r.Control.ProgressSequence)
	}
}

// A lease that is over as it begins spoils no claim.
func TestEmptyLease(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.submit()
	r := k.request(1)
	r.Revisions[0].Lease = 0
	p, err := k.store.Poll(t.Context(), r)
	k.ok(err)
	if len(p.Claimed) != 1 {
		t.Errorf("%d were claimed, want 1", len(p.Claimed))
	}
}
