package redis_test

import (
	"slices"
	"testing"

	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
)

// held submits n executions and has them wait as if they had lost two leases.
func (k *kit) held(n int) (ids []string) {
	k.Helper()
	for range n {
		id := k.submit()
		k.field(id, "l", "2")
		ids = append(ids, id)
	}
	if p := k.poll(n); len(p.Claimed) != 0 || !p.Held {
		k.Fatalf("%d were claimed beside others, held: %v", len(p.Claimed), p.Held)
	}
	return ids
}

func (k *kit) pollAlone() store.Polled {
	k.Helper()
	r := k.request(1)
	r.Solitary = true
	p, err := k.store.Poll(k.Context(), r)
	k.ok(err)
	return p
}

// Work on its last chance of a newer schema is passed over, and no process is held up for it until a minute later.
func TestForeignSolitary(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	ids := k.held(3)
	for _, id := range ids {
		k.field(id, "z", "2")
	}
	if p := k.poll(9); !p.Held {
		t.Error("nobody has looked yet, but it is not held")
	}
	if p := k.pollAlone(); len(p.Claimed) != 0 {
		t.Errorf("%d were claimed", len(p.Claimed))
	}
	if p := k.poll(9); p.Held {
		t.Error("work that nobody here can claim is held")
	}
	known := k.held(1)[0]
	if p := k.pollAlone(); len(p.Claimed) != 1 || p.Claimed[0].Control.ID != known {
		t.Errorf("%d were claimed behind it, want 1", len(p.Claimed))
	}
	n, err := redistest.Client(t).ZCard(t.Context(), k.key("delayed:story@r1")).Result()
	if err != nil || n != 3 {
		t.Errorf("%d wait for a newer release, want 3: %v", n, err)
	}
}

// What can't be read, is gone, or stands there wrongly, leaves the index and stalls no neighbour.
func TestWreckedSolitary(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	client := redistest.Client(t)
	ids := k.held(4)
	k.field(ids[0], "v", "x")
	k.ok(client.Del(t.Context(), k.key("c:"+ids[1])).Err())
	k.field(ids[2], "r", "r2")
	claimed := slices.Concat(k.pollAlone().Claimed, k.pollAlone().Claimed)
	if len(claimed) != 1 || claimed[0].Control.ID != ids[3] {
		t.Fatalf("%d were claimed, want the good one", len(claimed))
	}
	if p := k.poll(9); p.Held {
		t.Error("something is left")
	}
	if n := client.ZScore(t.Context(), k.key("malformed"), ids[0]).Val(); n == 0 {
		t.Error("the malformed one is not listed")
	}
	k.ok(client.LPush(t.Context(), k.key("solitary:story@r1"), "garbage").Err())
	id := k.held(1)[0] // an index of another type gives way
	if p := k.pollAlone(); len(p.Claimed) != 1 || p.Claimed[0].Control.ID != id {
		t.Errorf("%d were claimed", len(p.Claimed))
	}
}
