package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func countTests() []test {
	return []test{
		{name: "an empty store counts nothing", run: countEmpty},
		{name: "each status counts where it belongs", run: countStatuses},
		{name: "the oldest ready one waits since it fell due", run: countOldest},
		{name: "a poll says that a revision is served", run: countServed},
		{name: "a poll says who serves a revision", run: countWorkers},
		{name: "processes that poll no more are forgotten", run: countWorkersGone},
		{name: "revisions are told apart", run: countRevisions},
		{name: "at rest everything is zero", run: countRest},
	}
}

func countEmpty(k *kit) {
	c, err := k.Store.Counts(k.ctx)
	k.ok(err)
	k.same("counts", store.Counts{Now: c.Now}, c)
}

func countStatuses(k *kit) {
	now := k.now().Millis()
	count := func(nonterminal, ready, delayed, waiting, leases int64) {
		k.Helper()
		got := k.count()
		want := store.RevisionCount{Revision: k.rev, Nonterminal: nonterminal, Ready: ready, Delayed: delayed, Waiting: waiting, ServedAt: got.ServedAt}
		if ready > 0 {
			want.OldestReady = now
		}
		k.same("counts", want, got)
		k.same("leases", leases, k.leases())
	}
	k.submit()
	k.submit()
	count(2, 2, 0, 0, 0)
	s := k.submission()
	s.Delay = time.Minute
	k.admit(s)
	count(3, 2, 1, 0, 0)
	claimed := k.poll(k.request(2)).Claimed
	count(3, 0, 1, 0, 2)
	c := claimed[0].Control
	waiting := k.suspend(c, 0, execution.Wait{})
	count(3, 0, 1, 1, 1)
	c = claimed[1].Control
	c = k.do(c, execution.Retry{Owned: k.owned(c), Delay: time.Minute, Error: broken})
	count(3, 0, 2, 1, 0)
	k.cancel(c.ID)
	count(2, 0, 1, 1, 0)
	k.Advance(time.Minute)
	now = k.now().Millis()
	count(2, 1, 0, 1, 0)
	c = k.claim().Control
	k.do(c, complete(k, c))
	count(1, 0, 0, 1, 0)
	k.resume(waiting, "1")
	count(1, 1, 0, 0, 0)
}

func countOldest(k *kit) {
	first := k.now().Millis()
	k.submit()
	k.Advance(time.Minute)
	k.submit()
	k.same("oldest", first, k.count().OldestReady)
	k.same("claimed", 2, len(k.poll(k.request(2)).Claimed))
	k.same("oldest", int64(0), k.count().OldestReady)
	s := k.submission()
	s.Delay = time.Second
	due := k.admit(s).AvailableAt
	k.Advance(time.Hour)
	k.same("oldest", due, k.count().OldestReady)
}

func countServed(k *kit) {
	k.submit()
	k.same("served", int64(0), k.count().ServedAt)
	at := k.poll(k.request(0)).Now.Millis()
	k.same("served", at, k.count().ServedAt)
	k.rev.Revision = "r2"
	k.same("served", int64(0), k.count().ServedAt)
	k.Advance(time.Hour)
	k.poll(k.request(1))
	k.same("served", k.now().Millis(), k.count().ServedAt)
	k.rev.Revision = "r1"
	k.same("served", at, k.count().ServedAt)
}

func (k *kit) workers() []store.Worker {
	k.Helper()
	w, err := k.Store.Workers(k.ctx)
	k.ok(err)
	k.same("time", k.now(), w.Now)
	return w.Seen
}

func countWorkers(k *kit) {
	k.same("workers", []store.Worker(nil), k.workers(), cmpopts.EquateEmpty())
	other := store.Revision{Deployment: "a.b", Revision: "r-2"}
	first := k.request(0)
	at := k.poll(first).Now.Millis()
	k.Advance(time.Second)
	second := k.request(0)
	second.Worker, second.Revisions = "w2", append(second.Revisions, store.Want{Revision: other, Lease: lease})
	later := k.poll(second).Now.Millis()
	both := store.Worker{Name: "w2", Revisions: []store.Revision{k.rev, other}, SeenAt: later}
	k.same("workers", []store.Worker{both, {Name: "w1", Revisions: []store.Revision{k.rev}, SeenAt: at}}, k.workers())
	k.Advance(time.Second)
	third := k.request(0)
	third.Solitary = true
	again := k.poll(third).Now.Millis()
	k.same("workers", []store.Worker{{Name: "w1", Revisions: []store.Revision{k.rev}, SeenAt: again}, both}, k.workers())
}

func countWorkersGone(k *kit) {
	k.poll(k.request(0))
	k.Advance(store.WorkersKept - time.Millisecond)
	k.maintain()
	k.same("workers", 1, len(k.workers()))
	k.Advance(time.Millisecond)
	k.maintain()
	k.same("workers", 0, len(k.workers()))
}

func countRevisions(k *kit) {
	for _, rev := range []store.Revision{{Deployment: "a", Revision: "b"}, {Deployment: "a", Revision: "c"},
		{Deployment: "b", Revision: "b"}, {Deployment: "a:b", Revision: "c"}, {Deployment: "a", Revision: "b:c"}} {
		k.rev = rev
		k.submit()
		k.same("unfinished", int64(1), k.count().Nonterminal)
		k.same("claimed", 1, len(k.poll(k.request(9)).Claimed))
	}
}

func countRest(k *kit) {
	for _, cmd := range []func(execution.Control) execution.Command{
		func(c execution.Control) execution.Command { return complete(k, c) },
		func(c execution.Control) execution.Command {
			return execution.Fail{Owned: k.owned(c), Error: broken}
		},
	} {
		c := k.start()
		k.do(c, cmd(c))
	}
	k.cancel(k.submit().ID)
	got := k.count()
	k.same("counts", store.RevisionCount{Revision: k.rev, ServedAt: got.ServedAt}, got)
	k.same("leases", int64(0), k.leases())
}
