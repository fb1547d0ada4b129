package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func displaceTests() []test {
	return []test{
		{name: "a move takes all that does not run along as it is", run: displaceMoves},
		{name: "moved work keeps its place in the queue", run: displaceOrder},
		{name: "moved work rings, and is claimed under its new revision", run: displaceClaimed},
		{name: "a moved wait is answered by its new sequence", run: displaceWait},
		{name: "withdrawn work fails for good", run: displaceWithdraws},
		{name: "a hundred at a time, until nothing is left", run: displaceBounded},
		{name: "what is over is left to maintenance", run: displaceOver},
		{name: "what a poll left to maintenance stays there, though the clock is set back", run: displaceSetBack},
		{name: "nothing else is touched", run: displaceOthers},
		{name: "other commands are refused", run: displaceRefused},
	}
}

func (k *kit) displace(cmd execution.Command) store.Displaced {
	k.Helper()
	d, err := k.Store.Displace(k.ctx, k.rev, cmd)
	k.ok(err)
	d.Now = 0
	return d
}

// inEveryState is an execution of each kind of which an operator may dispose, and one that runs.
func (k *kit) inEveryState() (idle []execution.Control, running execution.Control) {
	k.Helper()
	s := k.submission()
	s.QueueTTL = time.Hour
	k.admit(s)
	waiting := k.suspend(k.claim().Control, time.Hour, execution.Wait{})
	k.submit()
	running = k.claim().Control
	s = k.submission()
	s.Owner, s.MaxOwned, s.Deadline = "ann", 9, k.now().Millis()+time.Hour.Milliseconds()
	ready := k.admit(s)
	s = k.submission()
	s.Delay, s.Priority = time.Minute, 3
	return []execution.Control{waiting, ready, k.admit(s)}, running
}

func displaceMoves(k *kit) {
	idle, running := k.inEveryState()
	k.watch(idle[0].ID)
	k.Advance(time.Second)
	before, to := k.count(), store.Revision{Deployment: k.rev.Deployment, Revision: "r2"}
	now := k.now()
	k.same("displaced", store.Displaced{Done: 3}, k.displace(execution.Move{Revision: "r2", Actor: "key:A"}))
	for _, c := range idle {
		got := k.read(c.ID)
		k.same("control", k.expected(c, execution.Move{Revision: "r2"}, now), got.Control, cmpopts.IgnoreFields(execution.Control{}, "WatchedUntil", "LogEpoch"))
		k.same("revision", "r2", got.Control.Revision)
		told := k.past(c.ID).History.Entries
		last := told[len(told)-1]
		k.same("told", []string{"moved", string(c.Status), "key:A"}, []string{last.Cause.Name(), string(last.Cause.Status()), last.Actor})
	}
	k.same("running", running, k.read(running.ID).Control)
	k.same("left", store.RevisionCount{Revision: k.rev, Nonterminal: 1, ServedAt: before.ServedAt}, k.count())
	k.same("moved", store.RevisionCount{Revision: to, Nonterminal: 3, Ready: 1, Delayed: 1, Waiting: 1, OldestReady: before.OldestReady}, k.countOf(to))
	k.same("again", store.Displaced{}, k.displace(execution.Move{Revision: "r2"}))
	k.full(4)
	k.crowded("ann", 1)
	k.Advance(time.Hour)
	k.same("maintained", store.Maintained{Failed: 2, Requeued: 1}, k.maintain())
}

func displaceOrder(k *kit) {
	s := k.submission()
	s.Priority = 2
	first := k.admit(s)
	k.Advance(time.Second)
	second := k.submit()
	k.Advance(time.Minute)
	k.displace(execution.Move{Revision: "r2"})
	k.rev.Revision = "r2"
	k.Advance(time.Second)
	s = k.submission()
	s.Priority = 1 // would be before the second, had that lost its place
	third := k.admit(s)
	for _, want := range []execution.Control{first, second, third} {
		k.same("claimed", want.ID, k.poll(k.request(1)).Claimed[0].Control.ID)
	}
}

func displaceClaimed(k *kit) {
	c := k.start()
	c = k.do(c, execution.Checkpoint{Owned: k.owned(c, event("x")), Data: []byte(`{"at":1.0}`), Lease: lease})
	k.do(c, execution.Release{Owned: k.owned(c)})
	k.displace(execution.Move{Revision: "r2"})
	k.same("claimed", 0, len(k.poll(k.request(2)).Claimed))
	k.rev.Revision = "r2"
	got := k.claim()
	k.same("checkpoint", `{"at":1.0}`, string(got.Checkpoint))
	k.same("input", `{"n":1}`, string(got.Input))
	k.same("attempt", int64(2), got.Control.Attempt)
	k.do(got.Control, complete(k, got.Control))
	k.same("left", int64(0), k.count().Nonterminal)
}

func displaceWait(k *kit) {
	c := k.suspend(k.start(), 0, execution.Wait{})
	k.displace(execution.Move{Revision: "r2"})
	_, err := k.Store.Resume(k.ctx, store.ResumeRequest{ID: c.ID, Scope: everyone, Answer: []byte("1"), Sequence: c.WaitSequence, Checked: c.WaitSequence})
	k.refused(err, execution.CodeWaitMoved)
	after := k.resume(k.read(c.ID).Control, `"yes"`).Record.Control
	k.same("status", execution.Queued, after.Status)
	k.rev.Revision = "r2"
	k.same("answer", `"yes"`, string(k.claim().Answer))
}

func displaceWithdraws(k *kit) {
	idle, running := k.inEveryState()
	k.same("displaced", store.Displaced{Done: 3}, k.displace(execution.Withdraw{Reason: "r1 is gone"}))
	for _, c := range idle {
		got := k.read(c.ID)
		f, err := execution.DecodeFailure(got.Error)
		k.ok(err)
		k.same("failure", execution.Failure{Type: "RevisionUnserved", Code: "revision_unserved", Message: "An operator ended the work: r1 is gone", Retryable: true}, f)
		k.same("status", execution.Failed, got.Control.Status)
		k.same("wait", []byte(nil), got.Wait, cmpopts.EquateEmpty())
	}
	k.same("unfinished", int64(1), k.count().Nonterminal)
	k.do(running, complete(k, running))
	k.Advance(30 * 24 * time.Hour)
	k.same("removed", 4, k.maintain().Removed)
}

func displaceBounded(k *kit) {
	const n = 230
	for range n {
		k.submit()
	}
	done := 0
	for rounds := 0; done < n; rounds++ {
		d := k.displace(execution.Move{Revision: "r2"})
		if d.Done == 0 || rounds > n {
			k.Fatalf("%d of %d are done, then %+v", done, n, d)
		}
		done += d.Done
		k.same("remaining", int64(n-done), d.Remaining)
	}
	k.same("left", int64(0), k.count().Nonterminal)
	k.rev.Revision = "r2"
	k.same("moved", int64(n), k.count().Nonterminal)
}

func displaceOver(k *kit) {
	idle, _ := k.inEveryState()
	k.Advance(time.Hour)
	k.same("displaced", store.Displaced{Done: 1, Remaining: 2, Kept: 2}, k.displace(execution.Move{Revision: "r2"}))
	k.same("maintained", store.Maintained{Failed: 2, Requeued: 1}, k.maintain())
	for _, c := range idle[:2] {
		k.same("status", execution.Failed, k.read(c.ID).Control.Status)
	}
}

func displaceSetBack(k *kit) {
	s := k.submission()
	s.QueueTTL = time.Second
	k.admit(s)
	k.Advance(2 * time.Second)
	k.same("claimed", 0, len(k.poll(k.request(1)).Claimed))
	k.Advance(-2 * time.Second)
	k.same("displaced", store.Displaced{}, k.displace(execution.Move{Revision: "r2"}))
	k.Advance(2 * time.Second)
	k.same("maintained", store.Maintained{Failed: 1}, k.maintain())
}

func displaceOthers(k *kit) {
	var others []execution.Control
	mine := k.rev
	for _, rev := range []store.Revision{{Deployment: "story", Revision: "r11"}, {Deployment: "other", Revision: "r1"}, {Deployment: "story", Revision: "r2"}} {
		k.rev = rev
		others = append(others, k.submit(), k.suspend(k.startOther(), 0, execution.Wait{}))
	}
	k.rev = mine
	ended := k.start()
	k.do(ended, complete(k, ended))
	k.same("displaced", store.Displaced{}, k.displace(execution.Withdraw{}))
	for _, c := range others {
		k.same("other", c, k.read(c.ID).Control, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".WatchedUntil" }, cmp.Ignore()))
	}
}

// startOther claims an execution of the kit's revision where one is queued already.
func (k *kit) startOther() execution.Control {
	k.Helper()
	s := k.submission()
	s.Priority = execution.MaxPriority
	id := k.admit(s).ID
	c := k.poll(k.request(1)).Claimed[0].Control
	k.same("claimed", id, c.ID)
	return c
}

func displaceRefused(k *kit) {
	c := k.submit()
	for _, cmd := range []execution.Command{execution.Cancel{}, execution.Expire{}, execution.Move{}, execution.Move{Revision: k.rev.Revision}} {
		_, err := k.Store.Displace(k.ctx, k.rev, cmd)
		k.refused(err, execution.CodeInvalidTransition)
	}
	k.same("control", c, k.read(c.ID).Control)
}
