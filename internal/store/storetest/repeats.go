package storetest

import (
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// A caller that lost a reply sends the same request again (invariant 11): it is answered as the first was, and has one effect.
// Submissions, polls, answers, chunks and cancels are repeated where their themes are tested.
func repeatTests() []test {
	return []test{
		{name: "every owned command has one effect", run: repeatOwned},
		{name: "a repeat comes before every guard", run: repeatLate},
		{name: "a repeat ends as the first, whatever happened since", run: repeatMoved},
		{name: "only the last operation is remembered", run: repeatOld},
		{name: "operations are told apart by their whole token", run: repeatTokens},
		{name: "maintenance done twice is done once", run: repeatMaintain},
	}
}

func repeatOwned(k *kit) {
	for i := range ownedCommands(k, execution.Control{}) {
		c := k.start()
		cmd := ownedCommands(k, c)[i]
		first := k.do(c, cmd)
		want := k.read(c.ID)
		for range 2 {
			again, err := k.Store.Transition(k.ctx, c, cmd)
			k.ok(err)
			k.same(execution.Name(cmd)+": reply", store.Transitioned{Control: first, Untold: true}, again)
			k.same(execution.Name(cmd)+": record", want, k.read(c.ID))
		}
		if !first.Status.Terminal() {
			k.cancel(c.ID)
		}
		if first.Status == execution.Running {
			k.do(k.read(c.ID).Control, execution.Release{Owned: k.owned(c)})
		}
		k.same("unfinished", int64(0), k.count().Nonterminal)
	}
}

func repeatLate(k *kit) {
	c := k.start()
	cmd := execution.Checkpoint{Owned: k.owned(c, event("a")), Data: []byte("1"), Lease: lease}
	first := k.do(c, cmd)
	k.Advance(time.Hour)
	again, err := k.Store.Transition(k.ctx, c, cmd)
	k.ok(err)
	k.same("reply", first, again.Control)
	k.shows("record", store.Record{Control: first, Progress: [][]byte{k.rendered(event("a"), 1)}, Now: k.now()}, k.read(c.ID))
}

// Work that was handed back may have a new holder, or an end, when the old one asks again.
func repeatMoved(k *kit) {
	moves := []func(c execution.Control){
		func(execution.Control) { k.claim() },
		func(c execution.Control) { k.cancel(c.ID) },
		func(execution.Control) {
			next := k.claim().Control
			k.cancel(next.ID)
			k.Advance(lease)
			k.maintain()
		},
	}
	for _, move := range moves {
		c := k.start()
		cmd := execution.Release{Owned: k.owned(c, event("a"))}
		k.do(c, cmd)
		move(c)
		want := k.read(c.ID)
		again, err := k.Store.Transition(k.ctx, c, cmd)
		k.ok(err)
		k.same("status", execution.Queued, again.Status)
		k.same("record", want, k.read(c.ID))
		if want.Control.Status == execution.Running {
			k.do(want.Control, complete(k, want.Control))
		}
	}
}

func repeatOld(k *kit) {
	c := k.start()
	old := execution.Report{Owned: k.owned(c, event("a"))}
	after := k.do(c, old)
	end := execution.Complete{Owned: k.owned(c), Result: []byte("1")}
	after = k.do(after, end)
	_, err := k.Store.Transition(k.ctx, c, old)
	k.refused(err, execution.CodeLeaseLost)
	again, err := k.Store.Transition(k.ctx, c, end)
	k.ok(err)
	k.same("reply", after, again.Control)
}

func repeatTokens(k *kit) {
	c := k.start()
	for i, token := range []string{"op", "o", "op1", "p"} {
		o := k.owned(c, event("a"))
		o.Operation = token
		c = k.do(c, execution.Report{Owned: o})
		k.same("progress", int64(i+1), c.ProgressSequence)
	}
}

func repeatMaintain(k *kit) {
	k.start()
	k.Advance(lease)
	k.same("maintained", store.Maintained{Requeued: 1}, k.maintain())
	k.same("maintained", store.Maintained{}, k.maintain())
	c := k.claim().Control
	k.same("lost leases", int64(1), c.LostLeases)
}
