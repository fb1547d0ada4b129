package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

const racers = 32

func concurrencyTests() []test {
	return []test{
		{name: "one key, one execution", run: raceKey},
		{name: "the ceiling holds", run: raceCapacity},
		{name: "each execution goes to one worker", run: raceClaim},
		{name: "of five equal answers one is applied", run: raceResume},
		{name: "of answers with one key all are granted and one is applied", run: raceResumeKey},
		{name: "complete against cancel has one end", run: raceCancel},
		{name: "recovery happens once", run: raceRecover},
		{name: "cancel while it is claimed", run: raceClaimCancel},
		{name: "everything at once leaves the counters exact", run: raceAll},
	}
}

// race runs f on all racers at once and returns when all have.
func race(f func(i int)) {
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range racers {
		wg.Go(func() {
			<-begin
			f(i)
		})
	}
	close(begin)
	wg.Wait()
}

// outcomes counts what racers came to: the codes of their errors, and "" for none.
type outcomes struct {
	mu sync.Mutex
	n  map[string]int
}

func (o *outcomes) add(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n == nil {
		o.n = map[string]int{}
	}
	o.n[what]++
}

func raceKey(k *kit) {
	subs := make([]store.Submission, racers)
	for i := range subs {
		subs[i] = k.keyed("k")
	}
	var created, all outcomes
	race(func(i int) {
		r, err := k.Store.Submit(k.ctx, subs[i])
		all.add(r.Record.Control.ID + string(execution.CodeOf(err)))
		if !r.Replayed {
			created.add(r.Record.Control.ID)
		}
	})
	if len(created.n) != 1 {
		k.Fatalf("created: %v", created.n)
	}
	for id := range created.n {
		k.same("ids", map[string]int{id: racers}, all.n)
	}
	k.same("unfinished", int64(1), k.count().Nonterminal)
}

func raceCapacity(k *kit) {
	subs := make([]store.Submission, racers)
	for i := range subs {
		subs[i] = k.capped(5)
	}
	var all outcomes
	race(func(i int) {
		_, err := k.Store.Submit(k.ctx, subs[i])
		all.add(string(execution.CodeOf(err)))
	})
	k.same("outcomes", map[string]int{"": 5, string(execution.CodeCapacity): racers - 5}, all.n)
	k.same("unfinished", int64(5), k.count().Nonterminal)
}

func raceClaim(k *kit) {
	want := k.crowd(100, 0)
	var all outcomes
	race(func(i int) {
		for round := 0; ; round++ {
			p, err := k.Store.Poll(k.ctx, store.PollRequest{Worker: fmt.Sprint("w", i), Token: fmt.Sprint("t", round),
				Revisions: []store.Want{{Revision: k.rev, Count: 3, Lease: lease}}})
			if err != nil || len(p.Claimed) == 0 {
				all.add(string(execution.CodeOf(err)))
				return
			}
			for _, id := range ids(p.Claimed) {
				all.add(id)
			}
		}
	})
	once := map[string]int{"": racers}
	for _, id := range want {
		once[id] = 1
	}
	k.same("claims", once, all.n)
	k.same("leases", int64(100), k.leases())
}

func raceResume(k *kit) {
	c := k.suspend(k.start(), 0, execution.Wait{})
	var all outcomes
	race(func(int) {
		_, err := k.Store.Resume(k.ctx, k.answer(c, "", 0))
		all.add(string(execution.CodeOf(err)))
	})
	k.same("outcomes", map[string]int{"": 1, string(execution.CodeNotWaiting): racers - 1}, all.n)
	k.same("version", c.Version+1, k.read(c.ID).Control.Version)
}

func raceResumeKey(k *kit) {
	c := k.suspend(k.start(), 0, execution.Wait{})
	var all outcomes
	race(func(int) {
		r, err := k.Store.Resume(k.ctx, k.answer(c, "k", 1))
		all.add(fmt.Sprint(execution.CodeOf(err), r.Replayed))
	})
	k.same("outcomes", map[string]int{"false": 1, "true": racers - 1}, all.n)
	k.same("version", c.Version+1, k.read(c.ID).Control.Version)
}

// Whoever comes first decides, and nobody is told otherwise (invariant 8).
func raceCancel(k *kit) {
	var cs [racers]execution.Control
	var ends [racers]execution.Command
	for i := range cs {
		cs[i] = k.start()
		ends[i] = complete(k, cs[i])
	}
	var completed, canceled [racers / 2]execution.Control
	race(func(i int) {
		if n := i / 2; i%2 == 0 {
			out, _ := k.Store.Transition(k.ctx, cs[n], ends[n]) // an error leaves a control without status
			completed[n] = out.Control
		} else {
			r, _ := k.Store.Cancel(k.ctx, cs[n].ID, everyone, "")
			canceled[n] = r.Control
		}
	})
	for i := range completed {
		end := k.read(cs[i].ID).Control
		k.same("what the worker was told", end, completed[i])
		switch canceled[i].Status {
		case execution.Running:
			k.same("end after the cancel", execution.Canceled, end.Status)
		case execution.Completed, execution.Canceled:
			k.same("what the canceler was told", end, canceled[i])
		default:
			k.Fatalf("the canceler was told %q", canceled[i].Status)
		}
	}
	k.same("unfinished", int64(racers/2), k.count().Nonterminal)
}

func raceRecover(k *kit) {
	k.crowd(20, 0)
	k.same("claimed", 20, len(k.poll(k.request(20)).Claimed))
	k.Advance(lease)
	var all outcomes
	race(func(int) {
		m, err := k.Store.Maintain(k.ctx, 100)
		if err != nil {
			all.add(err.Error())
		}
		for range m.Requeued {
			all.add("requeued")
		}
	})
	k.same("outcomes", map[string]int{"requeued": 20}, all.n)
	for _, c := range k.poll(k.request(20)).Claimed {
		k.same("lost leases", int64(1), c.Control.LostLeases)
	}
}

func raceClaimCancel(k *kit) {
	want := k.crowd(racers/2, 0)
	request := k.request(1)
	var claimed, canceled outcomes
	race(func(i int) {
		if i%2 == 0 {
			r := request
			r.Worker = fmt.Sprint("w", i)
			p, err := k.Store.Poll(k.ctx, r)
			for _, c := range p.Claimed {
				claimed.add(c.Control.ID)
			}
			if err != nil {
				claimed.add(err.Error())
			}
			return
		}
		r, err := k.Store.Cancel(k.ctx, want[i/2], everyone, "")
		if err != nil {
			canceled.add(err.Error())
		}
		if r.Control.Status == execution.Canceled {
			canceled.add(r.Control.ID)
		}
	})
	for id, n := range claimed.n {
		if n != 1 || canceled.n[id] != 0 {
			k.Fatalf("%s was claimed %d times and canceled %d times", id, n, canceled.n[id])
		}
	}
	k.same("claimed or canceled", len(want), len(claimed.n)+len(canceled.n)+int(k.count().Ready))
	k.same("leases", int64(len(claimed.n)), k.leases())
}

// raceAll lets every racer live whole lives over the same executions, then holds counters against what is stored.
func raceAll(k *kit) {
	all := k.crowd(60, 0)
	race(func(i int) { k.live(i, all) })
	left := map[execution.Status]int64{}
	for _, id := range all {
		left[k.read(id).Control.Status]++
	}
	got := k.count()
	k.same("counters", [3]int64{left[execution.Queued] + left[execution.Running] + left[execution.Waiting],
		left[execution.Queued], left[execution.Running]}, [3]int64{got.Nonterminal, got.Ready, k.leases()})
	for _, id := range all {
		k.cancel(id)
	}
	k.Advance(time.Hour)
	k.maintain()
	got = k.count()
	k.same("at rest", store.RevisionCount{Revision: k.rev, ServedAt: got.ServedAt}, got)
	k.same("leases at rest", int64(0), k.leases())
}

// live claims, ends, suspends, resumes, releases and cancels, each in its turn. Losing a race is no fault here.
func (k *kit) live(racer int, all []string) {
	for round := range 12 {
		token := fmt.Sprintf("%d-%d", racer, round)
		p, err := k.Store.Poll(k.ctx, store.PollRequest{Worker: fmt.Sprint("w", racer), Token: token,
			Revisions: []store.Want{{Revision: k.rev, Count: 2, Lease: lease}}})
		if err != nil {
			k.Errorf("poll: %v", err)
		}
		for i, c := range p.Claimed {
			o := execution.Owned{Ownership: ownership(c.Control), Operation: fmt.Sprintf("%s-%d", token, i)}
			if _, err := k.Store.Transition(k.ctx, c.Control, turn(racer+round+i, o)); err != nil {
				k.Errorf("transition: %v", err)
			}
		}
		id := all[(racer*7+round*5)%len(all)]
		r, err := k.Store.Read(k.ctx, store.ReadRequest{ID: id, Scope: everyone})
		if err != nil {
			k.Errorf("read: %v", err)
		}
		if r.Control.Status == execution.Waiting {
			_, err = k.Store.Resume(k.ctx, k.answer(r.Control, "", 0))
		}
		if (racer+round)%9 == 0 {
			_, err = k.Store.Cancel(k.ctx, id, everyone, "")
		}
		if err != nil && !execution.Is(err, execution.CodeNotWaiting) {
			k.Errorf("answer or cancel: %v", err)
		}
	}
}

func turn(n int, o execution.Owned) execution.Command {
	switch n % 5 {
	case 0:
		return execution.Complete{Owned: o, Result: []byte("1")}
	case 1:
		return execution.Suspend{Owned: o, Wait: []byte(`{}`)}
	case 2:
		return execution.Report{Owned: o}
	case 3:
		return execution.Fail{Owned: o, Error: broken}
	}
	return execution.Release{Owned: o}
}
