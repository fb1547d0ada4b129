package storetest

import (
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func cancelTests() []test {
	return []test{
		{name: "queued work ends at once", run: cancelQueued},
		{name: "delayed work ends at once", run: cancelDelayed},
		{name: "waiting work ends at once and its wait is gone", run: cancelWaiting},
		{name: "running work is told and every way out ends as canceled", run: cancelRunning},
		{name: "a checkpoint after the request is stored", run: cancelCheckpoint},
		{name: "recovery ends as canceled", run: cancelRecovered},
		{name: "asking again changes nothing", run: cancelAgain},
		{name: "an unknown execution is not found", run: cancelUnknown},
		{name: "a pending retry loses its error", run: cancelRetry},
	}
}

// enoughReason is the reason that the kit gives.
var enoughReason = []byte("enough")

// canceled cancels and holds the reply and what is stored against the domain.
func (k *kit) canceled(c execution.Control) execution.Control {
	k.Helper()
	want := k.expected(c, execution.Cancel{Reason: "enough"}, k.now())
	k.shows("reply", store.Record{Control: want, Reason: enoughReason, Now: k.now()}, k.cancel(c.ID))
	k.shows("record", store.Record{Control: want, Reason: enoughReason, Now: k.now()}, k.read(c.ID))
	return want
}

func cancelQueued(k *kit) {
	c := k.submit()
	k.Advance(time.Second)
	after := k.canceled(c)
	k.same("status", execution.Canceled, after.Status)
	k.same("canceled at", k.now().Millis(), after.CanceledAt)
	k.same("claimed", 0, len(k.poll(k.request(1)).Claimed))
}

func cancelDelayed(k *kit) {
	s := k.submission()
	s.Delay = time.Hour
	c := k.canceled(k.admit(s))
	k.same("status", execution.Canceled, c.Status)
	p := k.poll(k.request(1))
	k.same("reply", store.Polled{Now: p.Now}, p)
	k.Advance(time.Hour)
	k.same("claimed", 0, len(k.poll(k.request(1)).Claimed))
}

func cancelWaiting(k *kit) {
	c := k.suspend(k.start(), time.Minute, execution.Wait{Kind: "k"})
	after := k.canceled(c)
	k.same("status", execution.Canceled, after.Status)
	_, err := k.Store.Resume(k.ctx, store.ResumeRequest{ID: c.ID, Scope: everyone, Answer: []byte("1"), Checked: c.WaitSequence})
	k.refused(err, execution.CodeNotWaiting)
	k.Advance(time.Minute)
	k.same("maintained", store.Maintained{}, k.maintain())
}

func cancelRunning(k *kit) {
	for i, cmd := range ownedCommands(k, execution.Control{}) {
		switch cmd.(type) {
		case execution.Checkpoint, execution.Report:
			continue
		}
		c := k.canceled(k.start())
		k.same("status", execution.Running, c.Status)
		cmd = ownedCommands(k, c)[i]
		c = k.do(c, cmd)
		k.same(execution.Name(cmd)+": status", execution.Canceled, c.Status)
		k.shows(execution.Name(cmd)+": record", store.Record{Control: c, Reason: enoughReason, Now: k.now(),
			Progress: [][]byte{k.rendered(event("a"), 1), k.rendered(event("b"), 2)}}, k.read(c.ID))
		k.same("unfinished", int64(0), k.count().Nonterminal)
		k.same("leases", int64(0), k.leases())
	}
}

func cancelCheckpoint(k *kit) {
	c := k.canceled(k.start())
	c = k.do(c, execution.Checkpoint{Owned: k.owned(c), Data: []byte("1"), Lease: lease})
	k.same("status", execution.Running, c.Status)
	if c.CanceledAt == 0 {
		k.Fatal("the reply to a checkpoint does not tell of the cancel")
	}
	c = k.do(c, execution.Report{Owned: k.owned(c, event("a"))})
	c = k.do(c, execution.Release{Owned: k.owned(c)})
	k.same("status", execution.Canceled, c.Status)
}

func cancelRecovered(k *kit) {
	c := k.canceled(k.start())
	k.Advance(lease)
	want := k.expected(c, execution.Recover{Fence: c.Fence}, k.now())
	k.same("maintained", store.Maintained{Canceled: 1}, k.maintain())
	k.shows("record", store.Record{Control: want, Reason: enoughReason, Now: k.now()}, k.read(c.ID))
	k.same("status", execution.Canceled, want.Status)
}

func cancelAgain(k *kit) {
	c := k.canceled(k.start())
	k.Advance(time.Second)
	k.shows("reply", store.Record{Control: c, Reason: enoughReason, Now: k.now()}, k.cancel(c.ID))
	c = k.do(c, execution.Release{Owned: k.owned(c)})
	k.Advance(time.Second)
	k.shows("reply", store.Record{Control: c, Reason: enoughReason, Now: k.now()}, k.cancel(c.ID))
}

func cancelUnknown(k *kit) {
	_, err := k.Store.Cancel(k.ctx, k.Store.NewID(store.Key{}), everyone, "")
	k.refused(err, execution.CodeNotFound)
}

func cancelRetry(k *kit) {
	c := k.start()
	c = k.do(c, execution.Retry{Owned: k.owned(c), Delay: time.Hour, Error: broken})
	k.same("status", execution.Canceled, k.canceled(c).Status)
}
