package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func toldTests() []test {
	return []test{
		{name: "every transition is told of", run: toldAll},
		{name: "an end tells who made it", run: toldEnds},
		{name: "checkpoints in a row are one", run: toldCheckpoints},
		{name: "a repeat is told of once", run: toldOnce},
		{name: "the newest are kept, and the first", run: toldNewest},
		{name: "names and codes are bounded", run: toldBounds},
		{name: "another owner's is absent", run: toldOthers},
	}
}

// past is an execution with the whole of its history, which agrees with its control.
func (k *kit) past(id string) store.Record {
	k.Helper()
	r, err := k.Store.Read(k.ctx, store.ReadRequest{ID: id, Scope: everyone, History: execution.MaxHistory})
	k.ok(err)
	if fault := disagreement(r); fault != "" {
		k.Errorf("history: %s", fault)
	}
	return r
}

// disagreement is what in the history of a record can't be so by its control, or by itself; empty: nothing (invariant 12).
func disagreement(r store.Record) string {
	c, last := r.Control, execution.HistoryEntry{}
	for i, e := range r.History.All(c) {
		gap := i == 1 && r.History.Omitted > 0
		switch {
		case e.At < last.At || e.At > c.UpdatedAt:
			return fmt.Sprintf("%s at %d after %d, updated at %d", e.Cause.Name(), e.At, last.At, c.UpdatedAt)
		case last.Cause.Status().Terminal():
			return fmt.Sprintf("%s after the end as %s", e.Cause.Name(), last.Cause.Status())
		case !gap && e.Attempt != last.Attempt && (e.Cause != execution.CauseClaimed || e.Attempt != last.Attempt+1), e.Attempt < last.Attempt:
			return fmt.Sprintf("%s in attempt %d after attempt %d", e.Cause.Name(), e.Attempt, last.Attempt)
		case e.Times < 1:
			return fmt.Sprintf("%s %d times", e.Cause.Name(), e.Times)
		}
		last = e
	}
	if last.Cause.Status() != c.Status || last.Attempt != c.Attempt {
		return fmt.Sprintf("it leads to %s in attempt %d, the control is %s in attempt %d", last.Cause.Status(), last.Attempt, c.Status, c.Attempt)
	}
	return ""
}

// told holds the history of an execution, without the submission, against what is wanted. Times are after the creation.
func (k *kit) told(id string, want ...execution.HistoryEntry) {
	k.Helper()
	r := k.past(id)
	var got []execution.HistoryEntry
	for _, e := range r.History.All(r.Control)[1:] {
		e.At -= r.Control.CreatedAt
		got = append(got, e)
	}
	for i := range want {
		want[i].Times = max(want[i].Times, 1)
	}
	k.same("history", want, got)
}

// later lets a second pass.
func (k *kit) later() { k.Advance(time.Second) }

func toldAll(k *kit) {
	by := store.Scope{All: true, By: "key:one"}
	s := k.submission()
	s.Actor, s.Budgets.Claims = "key:zero", 30
	id := k.admit(s).ID
	k.same("submission", execution.HistoryEntry{Cause: execution.CauseSubmitted, At: k.read(id).Control.CreatedAt, Actor: "key:zero", Times: 1},
		k.past(id).History.All(k.read(id).Control)[0])
	k.later()
	c := k.claim().Control
	k.later()
	c = k.do(c, execution.Checkpoint{Owned: k.owned(c), Data: []byte("1"), Lease: lease})
	c = k.do(c, execution.Report{Owned: k.owned(c, event("x"))}) // is told of by the progress
	c = k.suspend(c, 0, execution.Wait{})
	k.later()
	_, err := k.Store.Resume(k.ctx, store.ResumeRequest{ID: id, Scope: by, Answer: []byte("1"), Checked: c.WaitSequence})
	k.ok(err)
	c = k.claim().Control
	k.do(c, execution.Retry{Owned: k.owned(c), Error: broken})
	c = k.claim().Control
	k.do(c, execution.Release{Owned: k.owned(c)})
	k.claim()
	k.Advance(lease)
	k.maintain()
	c = k.claim().Control
	k.do(c, execution.Suspend{Owned: k.owned(c), Wait: k.wait(execution.Wait{Default: []byte("1")}), Timeout: time.Second})
	k.later()
	k.maintain()
	k.claim()
	_, err = k.Store.Cancel(k.ctx, id, by, "enough")
	k.ok(err)
	c = k.read(id).Control
	k.do(c, complete(k, c))
	k.told(id, toldLife(lease.Milliseconds())...)
}

// toldLife is what toldAll is told of.
func toldLife(lease int64) []execution.HistoryEntry {
	return []execution.HistoryEntry{
		{Cause: execution.CauseClaimed, At: 1000, Attempt: 1, Actor: "w1"},
		{Cause: execution.CauseCheckpointed, At: 2000, Attempt: 1, Actor: "w1"},
		{Cause: execution.CauseSuspended, At: 2000, Attempt: 1, Actor: "w1"},
		{Cause: execution.CauseResumed, At: 3000, Attempt: 1, Actor: "key:one"},
		{Cause: execution.CauseClaimed, At: 3000, Attempt: 2, Actor: "w1"},
		{Cause: execution.CauseRetried, At: 3000, Attempt: 2, Actor: "w1", Code: "broken"},
		{Cause: execution.CauseClaimed, At: 3000, Attempt: 3, Actor: "w1"},
		{Cause: execution.CauseReleased, At: 3000, Attempt: 3, Actor: "w1"},
		{Cause: execution.CauseClaimed, At: 3000, Attempt: 4, Actor: "w1"},
		{Cause: execution.CauseLeaseLost, At: 3000 + lease, Attempt: 4},
		{Cause: execution.CauseClaimed, At: 3000 + lease, Attempt: 5, Actor: "w1"},
		{Cause: execution.CauseSuspended, At: 3000 + lease, Attempt: 5, Actor: "w1"},
		{Cause: execution.CauseDefaulted, At: 4000 + lease, Attempt: 5},
		{Cause: execution.CauseClaimed, At: 4000 + lease, Attempt: 6, Actor: "w1"},
		{Cause: execution.CauseCancelRequested, At: 4000 + lease, Attempt: 6, Actor: "key:one"},
		{Cause: execution.CauseStopped, At: 4000 + lease, Attempt: 6, Actor: "w1"},
	}
}

func toldEnds(k *kit) {
	claimed := execution.HistoryEntry{Cause: execution.CauseClaimed, Attempt: 1, Actor: "w1"}
	c := k.start()
	k.do(c, complete(k, c))
	k.told(c.ID, claimed, execution.HistoryEntry{Cause: execution.CauseCompleted, Attempt: 1, Actor: "w1"})

	c = k.start()
	k.do(c, execution.Fail{Owned: k.owned(c), Error: broken})
	k.told(c.ID, claimed, execution.HistoryEntry{Cause: execution.CauseFailed, Attempt: 1, Actor: "w1", Code: "broken"})

	c = k.submit()
	k.cancel(c.ID)
	k.told(c.ID, execution.HistoryEntry{Cause: execution.CauseCanceled})

	s := k.submission()
	s.Budgets.LostLeases = 1
	c = k.admit(s)
	k.claim()
	k.Advance(lease)
	k.maintain()
	k.told(c.ID, claimed, execution.HistoryEntry{Cause: execution.CauseEnded, At: lease.Milliseconds(), Attempt: 1, Code: execution.FailureLeaseLost})

	c = k.start()
	k.cancel(c.ID)
	k.Advance(lease)
	k.maintain()
	k.told(c.ID, claimed, execution.HistoryEntry{Cause: execution.CauseCancelRequested, Attempt: 1},
		execution.HistoryEntry{Cause: execution.CauseAbandoned, At: lease.Milliseconds(), Attempt: 1})
}

func toldCheckpoints(k *kit) {
	checkpoint := func(c execution.Control) execution.Control {
		k.later()
		return k.do(c, execution.Checkpoint{Owned: k.owned(c), Data: []byte("1"), Lease: lease})
	}
	c := k.start()
	for range 12 {
		c = k.do(checkpoint(c), execution.Report{Owned: k.owned(c, event("x"))})
	}
	k.do(c, execution.Release{Owned: k.owned(c)})
	c = checkpoint(checkpoint(k.claim().Control))
	k.cancel(c.ID)
	checkpoint(k.read(c.ID).Control)
	k.told(c.ID,
		execution.HistoryEntry{Cause: execution.CauseClaimed, Attempt: 1, Actor: "w1"},
		execution.HistoryEntry{Cause: execution.CauseCheckpointed, At: 12_000, Attempt: 1, Actor: "w1", Times: 12},
		execution.HistoryEntry{Cause: execution.CauseReleased, At: 12_000, Attempt: 1, Actor: "w1"},
		execution.HistoryEntry{Cause: execution.CauseClaimed, At: 12_000, Attempt: 2, Actor: "w1"},
		execution.HistoryEntry{Cause: execution.CauseCheckpointed, At: 14_000, Attempt: 2, Actor: "w1", Times: 2},
		execution.HistoryEntry{Cause: execution.CauseCancelRequested, At: 14_000, Attempt: 2},
		execution.HistoryEntry{Cause: execution.CauseCheckpointed, At: 15_000, Attempt: 2, Actor: "w1"})
}

func toldOnce(k *kit) {
	c := k.start()
	cmd := execution.Release{Owned: k.owned(c)}
	for range 2 {
		_, err := k.Store.Transition(k.ctx, c, cmd)
		k.ok(err)
	}
	k.cancel(c.ID)
	k.cancel(c.ID)
	k.told(c.ID, execution.HistoryEntry{Cause: execution.CauseClaimed, Attempt: 1, Actor: "w1"},
		execution.HistoryEntry{Cause: execution.CauseReleased, Attempt: 1, Actor: "w1"},
		execution.HistoryEntry{Cause: execution.CauseCanceled, Attempt: 1})
}

func toldNewest(k *kit) {
	const rounds = 60
	s := k.submission()
	s.Actor = "key:zero"
	id := k.admit(s).ID
	for range rounds {
		k.suspend(k.claim().Control, 0, execution.Wait{})
		k.resume(k.read(id).Control, "1")
	}
	r := k.past(id)
	k.same("kept", execution.MaxHistory, len(r.History.Entries))
	k.same("omitted", int64(3*rounds-execution.MaxHistory), r.History.Omitted)
	k.same("submitter", "key:zero", r.History.Submitter)
	k.same("the oldest", execution.HistoryEntry{Cause: execution.CauseClaimed, Attempt: rounds - 32, Actor: "w1", Times: 1, At: r.History.Entries[0].At},
		r.History.Entries[0])
	few, err := k.Store.Read(k.ctx, store.ReadRequest{ID: id, Scope: everyone, History: 2})
	k.ok(err)
	k.same("the newest", r.History.Entries[execution.MaxHistory-2:], few.History.Entries)
	k.same("omitted", int64(3*rounds-2), few.History.Omitted)
	k.same("not asked for", execution.History{}, k.read(id).History)
}

func toldBounds(k *kit) {
	long := strings.Repeat("é", execution.MaxHistoryText)
	s := k.submission()
	s.Actor = long
	c := k.admit(s)
	k.same("submitter", long[:execution.MaxHistoryText], k.past(c.ID).History.Submitter)
	for i, code := range []string{long, "a\tb\nc\x00d\xff", ""} {
		c = k.claim().Control
		if i < 2 {
			k.do(c, execution.Retry{Owned: k.owned(c), Error: execution.Failure{Code: code}})
		} else {
			k.do(c, execution.Fail{Owned: k.owned(c), Error: execution.Failure{Code: code}})
		}
	}
	claimed := func(n int64) execution.HistoryEntry {
		return execution.HistoryEntry{Cause: execution.CauseClaimed, Attempt: n, Actor: "w1"}
	}
	k.told(c.ID, claimed(1), execution.HistoryEntry{Cause: execution.CauseRetried, Attempt: 1, Actor: "w1", Code: long[:execution.MaxHistoryText]},
		claimed(2), execution.HistoryEntry{Cause: execution.CauseRetried, Attempt: 2, Actor: "w1", Code: "a?b?c?d?"},
		claimed(3), execution.HistoryEntry{Cause: execution.CauseFailed, Attempt: 3, Actor: "w1"})
}

func toldOthers(k *kit) {
	s := k.submission()
	s.Owner = "ann"
	id := k.admit(s).ID
	_, err := k.Store.Read(k.ctx, store.ReadRequest{ID: id, Scope: store.Scope{Owner: "bob"}, History: 9})
	k.refused(err, execution.CodeNotFound)
	r, err := k.Store.Read(k.ctx, store.ReadRequest{ID: id, Scope: store.Scope{Owner: "ann"}, History: 9})
	k.ok(err)
	k.same("history", "", disagreement(r))
}
