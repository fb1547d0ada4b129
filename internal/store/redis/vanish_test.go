package redis_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// A running execution whose entry vanished from the index of leases is taken back like any other: within two leases after
// its last renewal.
func TestVanishedLease(t *testing.T) {
	t.Parallel()
	k, clock := standingKit(t)
	maintain := func(want store.Maintained) {
		t.Helper()
		if got, err := k.store.Maintain(t.Context(), 10); err != nil || got != want {
			t.Errorf("maintained %+v, %v; want %+v", got, err, want)
		}
	}
	c := k.start()
	clock.advance(lease - 2*time.Second)
	beat := store.Beat{ID: c.ID, Ownership: owner(c), Lease: lease}
	out, err := k.store.Beat(t.Context(), []store.Beat{beat})
	k.ok(err)
	k.ok(out[0].Err)
	k.ok(clock.client.Del(t.Context(), k.key("leases")).Err())
	clock.advance(lease - time.Millisecond)
	maintain(store.Maintained{})
	clock.advance(time.Millisecond)
	maintain(store.Maintained{Requeued: 1})

	c = k.poll(1).Claimed[0].Control
	if c.Attempt != 2 || c.LostLeases != 1 {
		t.Errorf("attempt %d after %d lost leases, want 2 after 1", c.Attempt, c.LostLeases)
	}
	k.complete(c)
	if n := clock.client.Exists(t.Context(), k.key("running")).Val(); n != 0 {
		t.Error("the index of what runs is not empty at rest")
	}
}

// A pass walks all that runs: a lease that vanished behind many others, or behind what this release does not know, is found.
func TestVanishedLeaseBehindMany(t *testing.T) {
	t.Parallel()
	k, clock := standingKit(t)
	var beats []store.Beat
	for i := range 350 {
		c := k.start()
		if i%3 == 0 {
			k.ok(clock.client.HSet(t.Context(), k.key("c:"+c.ID), "z", execution.SchemaVersion+1).Err())
			continue
		}
		beats = append(beats, store.Beat{ID: c.ID, Ownership: owner(c), Lease: 2 * lease})
	}
	clock.advance(time.Second)
	k.start()
	_, err := k.store.Beat(t.Context(), beats)
	k.ok(err)
	k.ok(clock.client.Del(t.Context(), k.key("leases")).Err())
	clock.advance(lease)
	if m, err := k.store.Maintain(t.Context(), 10); err != nil || m.Requeued != 1 {
		t.Errorf("maintained %+v, %v; want 1 taken back", m, err)
	}
	due := clock.client.ZCount(t.Context(), k.key("running"), "-inf", strconv.FormatInt(clock.now/1000, 10)).Val()
	if due != 0 {
		t.Errorf("%d are still to be looked at", due)
	}
}
