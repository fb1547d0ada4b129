package storetest

import (
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func budgetTests() []test {
	return []test{
		{name: "the third lost lease fails the work", run: budgetLost},
		{name: "claims without progress fail the work at a release", run: budgetReleases},
		{name: "a checkpoint, a suspend and a retry begin the count of claims anew", run: budgetProgress},
		{name: "budgets are counted apart", run: budgetApart},
	}
}

func (k *kit) failedWith(id string, code string) {
	k.Helper()
	r := k.read(id)
	k.same("status", execution.Failed, r.Control.Status)
	f, err := execution.DecodeFailure(r.Error)
	k.ok(err)
	k.same("code", code, f.Code)
}

func budgetLost(k *kit) {
	id := k.submit().ID
	for range 2 {
		k.claim()
		k.lose(1)
	}
	k.same("attempt", int64(3), k.claimAlone().Attempt)
	k.Advance(lease)
	k.same("maintained", store.Maintained{Failed: 1}, k.maintain())
	k.failedWith(id, execution.FailureLeaseLost)
	k.same("unfinished", int64(0), k.count().Nonterminal)
}

func budgetReleases(k *kit) {
	s := k.submission()
	s.Budgets.Claims = 3
	k.admit(s)
	for range 3 {
		k.same("status", execution.Queued, k.read(s.ID).Control.Status)
		c := k.claim().Control
		k.do(c, execution.Release{Owned: k.owned(c)})
	}
	k.failedWith(s.ID, execution.FailureNoProgress)
}

func budgetProgress(k *kit) {
	s := k.submission()
	s.Budgets = execution.Budgets{LostLeases: 1, Retries: 9, Claims: 2}
	k.admit(s)
	release := func(c execution.Control) { k.do(c, execution.Release{Owned: k.owned(c)}) }
	release(k.claim().Control)
	c := k.claim().Control
	release(k.do(c, execution.Checkpoint{Owned: k.owned(c), Data: []byte("1"), Lease: lease}))
	release(k.claim().Control)
	c = k.claim().Control
	k.resume(k.suspend(c, 0, execution.Wait{}), "1")
	release(k.claim().Control)
	c = k.claim().Control
	k.do(c, execution.Retry{Owned: k.owned(c), Error: broken})
	release(k.claim().Control)
	c = k.claim().Control
	c = k.do(c, execution.Report{Owned: k.owned(c, event("a"))}) // progress is no checkpoint
	release(c)
	k.failedWith(s.ID, execution.FailureNoProgress)
}

func budgetApart(k *kit) {
	s := k.submission()
	s.Budgets = execution.Budgets{LostLeases: 2, Retries: 1, Claims: 9}
	k.admit(s)
	c := k.claim().Control
	k.do(c, execution.Retry{Owned: k.owned(c), Error: broken})
	k.claim()
	k.Advance(lease)
	k.same("maintained", store.Maintained{Requeued: 1}, k.maintain())
	c = k.claimAlone()
	k.do(c, execution.Release{Owned: k.owned(c)})
	c = k.claimAlone()
	k.same("spent", [4]int64{1, 1, 3, 4}, [4]int64{c.LostLeases, c.Retries, c.Claims, c.Attempt})
	k.Advance(lease)
	k.same("maintained", store.Maintained{Failed: 1}, k.maintain())
	k.failedWith(s.ID, execution.FailureLeaseLost)
}
