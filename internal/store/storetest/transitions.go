package storetest

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func transitionTests() []test {
	return []test{
		{name: "each owned command stores control, payloads and progress", run: transitionRecords},
		{name: "only the holder of the lease may write", run: transitionOwner},
		{name: "nothing is committed within the margin", run: transitionMargin},
		{name: "an end is final", run: transitionFinal},
		{name: "a version that moved on is settled inside", run: transitionSettled},
		{name: "a refused command writes nothing", run: transitionRefused},
		{name: "a command that is not owned is refused", run: transitionForeign},
		{name: "the newest progress is kept and numbered on", run: transitionProgress, limits: store.Limits{ProgressEvents: 3}},
		{name: "terminal repair drops progress", run: transitionRepair},
		{name: "stamps never go back", run: transitionStamps},
		{name: "a checkpoint renews the lease", run: transitionLease},
		{name: "an unknown execution is a lost lease", run: transitionUnknown},
	}
}

// ownedCommands is one of each, with progress, for a claimed execution.
func ownedCommands(k *kit, c execution.Control) []execution.Command {
	o := func() execution.Owned { return k.owned(c, event("a"), event("b")) }
	return []execution.Command{
		execution.Checkpoint{Owned: o(), Data: []byte(`{"x": 1}`), Lease: time.Minute},
		execution.Report{Owned: o()},
		execution.Suspend{Owned: o(), Checkpoint: []byte(`{"x": 2}`), Wait: []byte(`{"kind":"k"}`), Timeout: time.Hour},
		execution.Retry{Owned: o(), Delay: time.Minute, Error: broken},
		execution.Complete{Owned: o(), Result: []byte(`{"r": []}`)},
		execution.Fail{Owned: o(), Error: broken},
		execution.Release{Owned: o()},
	}
}

func transitionRecords(k *kit) {
	for i := range ownedCommands(k, execution.Control{}) {
		c := k.start()
		cmd := ownedCommands(k, c)[i]
		after := k.do(c, cmd)
		want := store.Record{Control: after, Now: k.now(),
			Progress: [][]byte{k.rendered(event("a"), 1), k.rendered(event("b"), 2)}}
		switch cmd := cmd.(type) {
		case execution.Suspend:
			want.Wait = cmd.Wait
		case execution.Retry:
			want.Error = cmd.Error.Encode()
		case execution.Fail:
			want.Error = cmd.Error.Encode()
		case execution.Complete:
			want.Result = cmd.Result
		}
		k.shows(execution.Name(cmd)+": record", want, k.read(c.ID))
		k.cancel(c.ID) // out of the way of the next
		if after.Status == execution.Running {
			k.do(k.read(c.ID).Control, execution.Release{Owned: k.owned(c)})
		}
	}
}

func transitionOwner(k *kit) {
	c := k.start()
	thefts := map[string]func(*execution.Control){
		"another worker":  func(c *execution.Control) { c.Worker = "w2" },
		"another token":   func(c *execution.Control) { c.Token = "stolen" },
		"an older fence":  func(c *execution.Control) { c.Fence-- },
		"a fence to come": func(c *execution.Control) { c.Fence++ },
	}
	for name, change := range thefts {
		thief := c
		change(&thief)
		for _, cmd := range ownedCommands(k, thief) {
			_, err := k.Store.Transition(k.ctx, thief, cmd)
			if !execution.Is(err, execution.CodeLeaseLost) {
				k.Fatalf("%s: %s: %v", name, execution.Name(cmd), err)
			}
		}
		k.refused(k.beat(store.Beat{ID: c.ID, Ownership: ownership(thief), Lease: lease})[0].Err, execution.CodeLeaseLost)
	}
	k.shows("record", store.Record{Control: c, Now: k.now()}, k.read(c.ID))
}

func transitionMargin(k *kit) {
	c := k.start()
	k.Advance(lease - margin - time.Millisecond)
	c = k.do(c, execution.Report{Owned: k.owned(c)})
	k.Advance(time.Millisecond)
	for _, cmd := range ownedCommands(k, c) {
		_, err := k.Store.Transition(k.ctx, c, cmd)
		k.refused(err, execution.CodeLeaseLost)
	}
	k.refused(k.beat(store.Beat{ID: c.ID, Ownership: ownership(c), Lease: lease})[0].Err, execution.CodeLeaseLost)
	k.same("control", c, k.read(c.ID).Control)
}

func transitionFinal(k *kit) {
	ends := []func(execution.Control) execution.Control{
		func(c execution.Control) execution.Control { return k.do(c, complete(k, c)) },
		func(c execution.Control) execution.Control {
			return k.do(c, execution.Fail{Owned: k.owned(c), Error: broken})
		},
		func(c execution.Control) execution.Control {
			return k.do(k.cancel(c.ID).Control, execution.Release{Owned: k.owned(c)})
		},
	}
	for _, end := range ends {
		c := k.start()
		end(c)
		want := k.read(c.ID)
		for _, cmd := range ownedCommands(k, c) {
			_, err := k.Store.Transition(k.ctx, c, cmd)
			k.refused(err, execution.CodeLeaseLost)
		}
		k.same("canceled", want, k.cancel(c.ID))
		_, err := k.Store.Resume(k.ctx, store.ResumeRequest{ID: c.ID, Scope: everyone, Answer: []byte("1")})
		k.refused(err, execution.CodeNotWaiting)
		k.same("claimed", 0, len(k.poll(k.request(1)).Claimed))
		k.same("record", want, k.read(c.ID))
	}
}

// The holder decides from the control that it knows; the store decides once more where that one is old.
func transitionSettled(k *kit) {
	c := k.start()
	old := c
	for i := range int64(3) {
		want := k.expected(c, execution.Report{Owned: k.owned(c, event("x"))}, k.now())
		got, err := k.Store.Transition(k.ctx, old, execution.Report{Owned: k.owned(old, event("x"))})
		k.ok(err)
		want.Operation = got.Operation
		k.same("control", want, got.Control)
		k.same("progress", i+1, got.ProgressSequence)
		c = got.Control
	}
	canceled := k.cancel(c.ID).Control
	got, err := k.Store.Transition(k.ctx, old, execution.Complete{Owned: k.owned(old), Result: []byte("1")})
	k.ok(err)
	want := k.expected(canceled, complete(k, canceled), k.now())
	k.same("control", want, got.Control, cmpopts.IgnoreFields(execution.Control{}, "Operation"))
	k.same("status", execution.Canceled, got.Status)
	k.same("result", []byte(nil), k.read(c.ID).Result)
}

func transitionRefused(k *kit) {
	c := k.start()
	bad := execution.Event{Kind: "k", Metadata: []byte(`{"a":`)}
	_, err := k.Store.Transition(k.ctx, c, execution.Complete{Owned: k.owned(c, event("a"), bad), Result: []byte("1")})
	k.refused(err, execution.CodeInvalidInput)
	_, err = k.Store.Transition(k.ctx, c, execution.Fail{Owned: k.owned(c, event("a")), Error: broken, DropProgress: true})
	k.refused(err, execution.CodeInvalidTransition)
	k.shows("record", store.Record{Control: c, Now: k.now()}, k.read(c.ID))
	k.same("leases", int64(1), k.leases())
}

func transitionForeign(k *kit) {
	c := k.start()
	k.Advance(lease)
	for _, cmd := range []execution.Command{
		execution.Submit{ID: c.ID, Budgets: execution.DefaultBudgets()}, execution.Claim{Worker: "w", Token: "t"},
		execution.Cancel{}, execution.Resume{}, execution.Recover{Fence: c.Fence}, execution.ExpireWait{},
	} {
		if _, err := k.Store.Transition(k.ctx, c, cmd); err == nil {
			k.Fatalf("%s was carried out", execution.Name(cmd))
		}
	}
	k.same("control", c, k.read(c.ID).Control)
}

func transitionProgress(k *kit) {
	c := k.start()
	var all [][]byte
	for i := range int64(5) {
		e := event(fmt.Sprint(i))
		c = k.do(c, execution.Report{Owned: k.owned(c, e)})
		all = append(all, k.rendered(e, i+1))
	}
	k.same("progress", all[2:], k.read(c.ID).Progress)
	k.do(c, execution.Complete{Owned: k.owned(c, event("5"), event("6"))})
	all = append(all, k.rendered(event("5"), 6), k.rendered(event("6"), 7))
	k.same("progress", all[4:], k.read(c.ID).Progress)
}

func transitionRepair(k *kit) {
	c := k.start()
	c = k.do(c, execution.Report{Owned: k.owned(c, event("a"), event("b"))})
	c = k.do(c, execution.Fail{Owned: k.owned(c), Error: broken, DropProgress: true})
	k.shows("record", store.Record{Control: c, Error: broken.Encode(), Now: k.now()}, k.read(c.ID))
	k.same("progress", int64(0), c.ProgressSequence)
}

func transitionStamps(k *kit) {
	c := k.start()
	born := c.UpdatedAt
	k.Advance(-time.Hour)
	c = k.do(c, execution.Checkpoint{Owned: k.owned(c), Data: []byte("1"), Lease: lease})
	k.same("updated at", born, c.UpdatedAt)
	k.same("lease", k.now().Millis()+lease.Milliseconds(), c.LeaseUntil)
	k.do(c, execution.Report{Owned: k.owned(c)}) // the lease ends before the last stamp, and still holds
	k.Advance(2 * time.Hour)
	k.maintain()
	c = k.claim().Control
	k.same("updated at", born+time.Hour.Milliseconds(), c.UpdatedAt)
}

func transitionLease(k *kit) {
	c := k.start()
	k.Advance(20 * time.Second)
	c = k.do(c, execution.Checkpoint{Owned: k.owned(c), Data: []byte("1"), Lease: lease})
	k.Advance(20 * time.Second)
	k.same("maintained", store.Maintained{}, k.maintain())
	k.do(c, execution.Report{Owned: k.owned(c)})
	k.Advance(10 * time.Second)
	k.same("maintained", store.Maintained{Requeued: 1}, k.maintain())
}

func transitionUnknown(k *kit) {
	c := k.start()
	c.ID = k.Store.NewID(store.Key{})
	for _, cmd := range ownedCommands(k, c) {
		_, err := k.Store.Transition(k.ctx, c, cmd)
		k.refused(err, execution.CodeLeaseLost)
	}
	k.gone(c.ID)
}
