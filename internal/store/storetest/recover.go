package storetest

import (
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func recoverTests() []test {
	return []test{
		{name: "a lease that runs out gives the work back", run: recoverRequeues},
		{name: "a heartbeat keeps the lease", run: recoverBeat},
		{name: "the old holder is refused after a new claim", run: recoverFenced},
		{name: "one pass is bounded and tells of the rest", run: recoverBounded},
		{name: "maintenance at rest does nothing", run: recoverRest},
		{name: "a clock that is set back leaves no lease behind", run: recoverBack},
	}
}

func recoverRequeues(k *kit) {
	c := k.start()
	c = k.do(c, execution.Checkpoint{Owned: k.owned(c), Data: []byte("1"), Lease: lease})
	k.Advance(lease - time.Millisecond)
	k.same("maintained", store.Maintained{}, k.maintain())
	k.Advance(time.Millisecond)
	want := k.expected(c, execution.Recover{Fence: c.Fence}, k.now())
	k.same("maintained", store.Maintained{Requeued: 1}, k.maintain())
	k.shows("record", store.Record{Control: want, Now: k.now()}, k.read(c.ID))
	k.same("lost leases", int64(1), want.LostLeases)
	k.same("leases", int64(0), k.leases())
	got := k.claim()
	k.same("checkpoint", "1", string(got.Checkpoint))
	k.same("attempt", int64(2), got.Control.Attempt)
}

func recoverBeat(k *kit) {
	c := k.start()
	for range 5 {
		k.Advance(20 * time.Second)
		want := store.Beaten{Version: c.Version, LeaseUntil: k.now().Millis() + lease.Milliseconds(), Now: k.now()}
		k.same("beat", want, k.beat(store.Beat{ID: c.ID, Ownership: ownership(c), Lease: lease})[0])
		k.same("maintained", store.Maintained{}, k.maintain())
	}
	k.Advance(lease)
	k.same("maintained", store.Maintained{Requeued: 1}, k.maintain())
}

func recoverFenced(k *kit) {
	old := k.start()
	k.Advance(lease)
	k.maintain()
	now := k.claim().Control
	for _, cmd := range ownedCommands(k, old) {
		_, err := k.Store.Transition(k.ctx, old, cmd)
		k.refused(err, execution.CodeLeaseLost)
	}
	out := k.beat(store.Beat{ID: old.ID, Ownership: ownership(old), Lease: lease, Chunks: batch(old, 0, "x")})
	k.refused(out[0].Err, execution.CodeLeaseLost)
	k.same("control", now, k.read(old.ID).Control)
	k.same("log", 0, len(k.log(old.ID)))
}

func recoverBounded(k *kit) {
	for range 5 {
		k.submit()
	}
	k.same("claimed", 5, len(k.poll(k.request(5)).Claimed))
	k.Advance(lease)
	for _, want := range []store.Maintained{{Requeued: 2, More: true}, {Requeued: 2, More: true}, {Requeued: 1}, {}} {
		got, err := k.Store.Maintain(k.ctx, 2)
		k.ok(err)
		k.same("maintained", want, got)
	}
}

func recoverRest(k *kit) {
	k.same("maintained", store.Maintained{}, k.maintain())
	c := k.suspend(k.start(), 0, execution.Wait{})
	k.submit()
	k.Advance(time.Hour)
	k.same("maintained", store.Maintained{}, k.maintain())
	k.same("control", c, k.read(c.ID).Control)
}

// The clock may be set back: who holds a lease renews it, and of who doesn't it is over a lease later.
func recoverBack(k *kit) {
	k.start()
	alive := k.start()
	k.Advance(-10 * time.Minute)
	renew := func() { k.ok(k.beat(store.Beat{ID: alive.ID, Ownership: ownership(alive), Lease: lease})[0].Err) }
	renew()
	k.same("maintained", store.Maintained{}, k.maintain())
	k.Advance(lease / 2)
	renew()
	k.Advance(lease/2 - time.Millisecond)
	k.same("maintained", store.Maintained{}, k.maintain())
	k.Advance(time.Millisecond)
	k.same("maintained", store.Maintained{Requeued: 1}, k.maintain())
	k.same("lost leases", int64(1), k.claim().Control.LostLeases)
	k.do(alive, complete(k, alive))
}
