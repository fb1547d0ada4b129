package redis_test

import (
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

// Running executions of a schema that this release does not know are not in the way of the others.
func TestVanishedLeaseBehindForeign(t *testing.T) {
	t.Parallel()
	k, clock := standingKit(t)
	for range 100 {
		k.ok(clock.client.HSet(t.Context(), k.key("c:"+k.start().ID), "z", execution.SchemaVersion+1).Err())
	}
	clock.advance(time.Second)
	k.start()
	k.ok(clock.client.Del(t.Context(), k.key("leases")).Err())
	clock.advance(lease)
	var sum store.Maintained
	for range 2 {
		m, err := k.store.Maintain(t.Context(), 10)
		k.ok(err)
		sum.Requeued += m.Requeued
	}
	if sum.Requeued != 1 {
		t.Errorf("%d were taken back, want 1", sum.Requeued)
	}
}
