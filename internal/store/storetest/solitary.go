package storetest

import (
	"slices"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func solitaryTests() []test {
	return []test{
		{name: "only a solitary poll gets work on its last chance, one at a time", run: solitaryClaims},
		{name: "a solitary poll gets no other work", run: solitaryOnly},
		{name: "budgets say which chance is the last", run: solitaryBudgets},
		{name: "it waits apart, however much of it there is", run: solitaryApart},
		{name: "delayed work on its last chance is held once due", run: solitaryDelayed},
		{name: "a repeat hands out the same at no cost", run: solitaryRepeat},
		{name: "what waits longest comes first, whatever its revision", run: solitaryOrder},
		{name: "revisions that want none, and other ones, are left alone", run: solitaryWants},
		{name: "one worker at a time is told to become empty, once a lease has passed", run: solitaryDrain},
		{name: "a turn ends with the claim, and a lease after the last poll", run: solitaryTurn},
		{name: "a clock that is set back hides none of it", run: solitaryBack},
		{name: "it rings, counts, and leaves with a cancel", run: solitarySeen},
	}
}

// lose has what runs lose its lease.
func (k *kit) lose(n int) {
	k.Helper()
	k.Advance(lease)
	k.same("maintained", store.Maintained{Requeued: n}, k.maintain())
}

// lastChance submits n executions that have lost two leases of three.
func (k *kit) lastChance(n int) (out []string) {
	k.Helper()
	for range n {
		out = append(out, k.submit().ID)
	}
	for range 2 {
		k.same("claimed", n, len(k.poll(k.request(n)).Claimed))
		k.lose(n)
	}
	return out
}

// alone is a solitary poll of the kit's revision.
func (k *kit) alone() store.PollRequest {
	r := k.request(1)
	r.Solitary = true
	return r
}

// claimAlone claims the one execution that is on its last chance.
func (k *kit) claimAlone() execution.Control {
	k.Helper()
	p := k.poll(k.alone())
	if len(p.Claimed) != 1 {
		k.Fatalf("%d were claimed, want 1", len(p.Claimed))
	}
	return p.Claimed[0].Control
}

// yielding is a poll of a worker that can become empty.
func (k *kit) yielding(worker string) store.PollRequest {
	r := k.request(0)
	r.Worker, r.Yields = worker, true
	return r
}

func solitaryClaims(k *kit) {
	want := k.lastChance(2)
	p := k.poll(k.request(9))
	k.same("others get", store.Polled{Now: k.now(), Held: true}, p)
	var got []string
	for range 2 {
		p := k.poll(k.alone())
		k.same("claimed", 1, len(p.Claimed))
		c := p.Claimed[0].Control
		k.same("reply", store.Polled{Now: k.now(), Claimed: p.Claimed}, p)
		k.same("status, attempt, lost leases", []any{execution.Running, int64(3), int64(2)}, []any{c.Status, c.Attempt, c.LostLeases})
		k.same("stored", c, k.read(c.ID).Control)
		got = append(got, c.ID)
	}
	k.same("in order", true, got[0] != got[1] && (got[0] == want[0] || got[0] == want[1]))
	k.same("nothing is left", store.Polled{Now: k.now()}, k.poll(k.alone()))
	k.same("held", false, k.poll(k.request(0)).Held)
}

func solitaryOnly(k *kit) {
	k.submit()
	k.same("reply", store.Polled{Now: k.now()}, k.poll(k.alone()))
	c := k.claim().Control
	k.lose(1)
	k.same("reply", store.Polled{Now: k.now()}, k.poll(k.alone()))
	k.same("claimed", []string{c.ID}, ids(k.poll(k.request(1)).Claimed))
}

func solitaryBudgets(k *kit) {
	for _, b := range []struct {
		budgets execution.Budgets
		normal  int // chances before the last one
	}{
		{execution.Budgets{LostLeases: 2, Claims: 20}, 1},
		{execution.Budgets{LostLeases: 4, Claims: 20}, 3},
		{execution.Budgets{LostLeases: 4, Claims: 3}, 2}, // the third claim in a row fails it too
	} {
		s := k.submission()
		s.Budgets = b.budgets
		k.admit(s)
		for range b.normal {
			k.same("claimed", []string{s.ID}, ids(k.poll(k.request(9)).Claimed))
			k.lose(1)
		}
		k.same("claimed beside others", 0, len(k.poll(k.request(9)).Claimed))
		c := k.claimAlone()
		k.same("claimed alone", s.ID, c.ID)
		k.do(c, complete(k, c))
	}
	s := k.submission()
	s.Budgets.LostLeases = 1 // its author forgoes another chance
	k.admit(s)
	k.same("claimed", []string{s.ID}, ids(k.poll(k.request(9)).Claimed))
}

func solitaryApart(k *kit) {
	k.lastChance(100)
	k.lastChance(50)
	last := k.submit().ID
	p := k.poll(k.request(9))
	k.same("claimed", []string{last}, ids(p.Claimed))
	k.same("held, more", []bool{true, false}, []bool{p.Held, p.More})
}

func solitaryDelayed(k *kit) {
	id := k.lastChance(1)[0]
	c := k.claimAlone()
	k.do(c, execution.Retry{Owned: k.owned(c), Delay: time.Minute, Error: broken})
	p := k.poll(k.request(9))
	k.same("before", store.Polled{Now: k.now(), NextDue: k.now().Millis() + 60_000}, p)
	k.same("before, alone", 0, len(k.poll(k.alone()).Claimed))
	k.Advance(time.Minute)
	next := k.submit().ID
	p = k.poll(k.request(9))
	k.same("claimed", []string{next}, ids(p.Claimed))
	k.same("held", true, p.Held)
	k.same("claimed alone", []string{id}, ids(k.poll(k.alone()).Claimed))
}

func solitaryRepeat(k *kit) {
	k.lastChance(2)
	r := k.alone()
	first := k.poll(r)
	k.Advance(time.Second)
	again := k.poll(r)
	k.same("claimed", first.Claimed, again.Claimed)
	k.same("another request", false, k.claimAlone().ID == first.Claimed[0].Control.ID)
	r = k.alone()
	k.same("nothing is left", 0, len(k.poll(r).Claimed))
}

func solitaryOrder(k *kit) {
	r := k.alone()
	var want []string
	for _, name := range []string{"b", "c", "a"} {
		k.rev.Deployment = name
		want = append(want, k.lastChance(1)...)
	}
	r.Revisions = nil
	for _, name := range []string{"a", "b", "c"} {
		r.Revisions = append(r.Revisions, store.Want{Revision: store.Revision{Deployment: name, Revision: k.rev.Revision}, Count: 1, Lease: lease})
	}
	for _, id := range want {
		r.Token = k.token()
		k.same("claimed", []string{id}, ids(k.poll(r).Claimed))
	}
}

func solitaryWants(k *kit) {
	k.lastChance(1)
	other := k.alone()
	other.Revisions[0].Revision.Revision = "r2"
	k.same("another revision", store.Polled{Now: k.now()}, k.poll(other))
	other.Solitary = false
	k.same("another revision", store.Polled{Now: k.now()}, k.poll(other))
	none := k.alone()
	none.Revisions[0].Count = 0
	k.same("none wanted", 0, len(k.poll(none).Claimed))
}

func solitaryDrain(k *kit) {
	k.lastChance(1)
	k.same("at once", store.Polled{Now: k.now(), Held: true}, k.poll(k.yielding("w1")))
	k.Advance(lease - time.Millisecond)
	k.same("too early", store.Polled{Now: k.now(), Held: true}, k.poll(k.yielding("w1")))
	k.Advance(time.Millisecond)
	k.same("one that can't", store.Polled{Now: k.now(), Held: true}, k.poll(k.request(0)))
	for range 3 {
		k.same("the first", store.Polled{Now: k.now(), Held: true, Drain: true}, k.poll(k.yielding("w1")))
		k.same("another", store.Polled{Now: k.now(), Held: true}, k.poll(k.yielding("w2")))
		k.Advance(lease / 2)
	}
}

func solitaryTurn(k *kit) {
	k.lastChance(3)
	k.Advance(lease)
	k.same("w1", true, k.poll(k.yielding("w1")).Drain)
	k.same("w2", false, k.poll(k.yielding("w2")).Drain)
	other := k.alone()
	other.Worker = "w2"
	k.same("claimed by chance", 1, len(k.poll(other).Claimed))
	k.same("w2", false, k.poll(k.yielding("w2")).Drain)
	k.same("claimed in turn", 1, len(k.poll(k.alone()).Claimed))
	k.same("w2", true, k.poll(k.yielding("w2")).Drain)
	k.Advance(lease / 2)
	k.same("w1", false, k.poll(k.yielding("w1")).Drain)
	k.Advance(lease / 2)
	k.same("w1", true, k.poll(k.yielding("w1")).Drain)
	k.same("w2", false, k.poll(k.yielding("w2")).Drain)
}

func solitaryBack(k *kit) {
	want := k.lastChance(2)
	k.Advance(lease)
	k.same("in turn", true, k.poll(k.yielding("gone")).Drain)
	k.Advance(-10 * time.Minute)
	k.same("held", true, k.poll(k.yielding("w1")).Held)
	k.Advance(lease - time.Millisecond)
	k.same("too early", false, k.poll(k.yielding("w1")).Drain)
	k.Advance(time.Millisecond)
	k.same("a lease later", true, k.poll(k.yielding("w1")).Drain)
	k.same("one at a time", false, k.poll(k.yielding("w2")).Drain)
	got := []string{k.claimAlone().ID, k.claimAlone().ID}
	slices.Sort(got)
	slices.Sort(want)
	k.same("claimed", want, got)
}

func solitarySeen(k *kit) {
	k.start()
	k.lose(1)
	id := k.claim().Control.ID
	k.submit()
	b := k.listen()
	k.lose(1) // although there is ready work
	b.rang()
	since := k.now().Millis()
	k.Advance(time.Second)
	n := k.count()
	k.same("counts", []int64{2, 2, 0}, []int64{n.Nonterminal, n.Ready, n.Delayed})
	k.claim()
	n = k.count()
	k.same("counts", []int64{2, 1, 0, since}, []int64{n.Nonterminal, n.Ready, n.Delayed, n.OldestReady})
	k.cancel(id)
	n = k.count()
	k.same("counts", []int64{1, 0, 0, 0}, []int64{n.Nonterminal, n.Ready, n.Delayed, n.OldestReady})
	k.same("held", false, k.poll(k.request(0)).Held)
}
