package storetest

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func eraseTests() []test {
	return []test{
		{name: "an execution goes with all it has, wherever it stands", run: eraseEverywhere},
		{name: "who ran it is refused from then on", run: eraseRunning},
		{name: "another owner's execution looks absent", run: eraseScope},
		{name: "an owner goes in rounds, and nobody else", run: eraseOwner},
	}
}

// erased holds what is told of an erasure against what should be.
func (k *kit) erased(want, got store.Erased, err error) {
	k.Helper()
	k.ok(err)
	k.same("erased", want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(store.Erased{}, "Now"))
}

func eraseEverywhere(k *kit) {
	for name, reach := range map[string]func(s store.Submission){
		"queued":  func(store.Submission) {},
		"waiting": func(store.Submission) { k.suspend(k.claim().Control, time.Minute, execution.Wait{}) },
		"retrying": func(store.Submission) {
			c := k.claim().Control
			k.do(c, execution.Retry{Owned: k.owned(c), Delay: time.Hour, Error: broken})
		},
		"running":  func(store.Submission) { k.claim() },
		"canceled": func(s store.Submission) { k.cancel(s.ID) },
		"completed": func(store.Submission) {
			c := k.claim().Control
			k.do(c, complete(k, c))
		},
	} {
		s := k.keyed("k")
		s.Owner, s.Key.Owner, s.Labels = "ann", "ann", "a=1"
		s.MaxOwned = 1 // which what is erased takes no more of
		s.QueueTTL, s.Deadline = time.Hour, k.now().Millis()+time.Hour.Milliseconds()
		s.ID = k.Store.NewID(s.Key)
		k.admit(s)
		k.watch(s.ID)
		reach(s)
		want := store.Erased{Executions: 1, Keys: 1, Unfinished: 1}
		if name == "completed" || name == "canceled" {
			want.Unfinished = 0
		}
		if name == "running" {
			want.Ran = []string{s.ID}
		}
		got, err := k.Store.Erase(k.ctx, s.ID, store.Scope{Owner: "ann"})
		k.erased(want, got, err)
		k.gone(s.ID)
		_, err = k.Store.Erase(k.ctx, s.ID, everyone)
		k.refused(err, execution.CodeNotFound)
		_, err = k.Store.FindKey(k.ctx, s.Key)
		k.refused(err, execution.CodeNotFound)
		log, err := k.tail(s.ID).Read(k.ctx, []store.Position{{ID: s.ID}}, 0)
		k.ok(err)
		k.same(name+": log", 0, len(log))
		k.same(name+": unfinished", int64(0), k.count().Nonterminal)
		k.Advance(2 * time.Hour)
		k.same(name+": claimed", 0, len(k.poll(k.request(5)).Claimed))
		k.same(name+": maintained", store.Maintained{}, k.maintain())
		for _, r := range []store.ListRequest{{Scope: everyone}, {Scope: store.Scope{Owner: "ann"}}, {Scope: everyone, Labels: []string{"a=1"}}} {
			r.Limit = 5
			page, err := k.Store.List(k.ctx, r)
			k.ok(err)
			k.same(name+": looked at", 0, page.Looked)
		}
	}
}

func eraseRunning(k *kit) {
	k.submit()
	r := k.request(1)
	c := k.poll(r).Claimed[0].Control
	_, err := k.Store.Erase(k.ctx, c.ID, everyone)
	k.ok(err)
	k.same("handed out again", 0, len(k.poll(r).Claimed))
	for _, cmd := range []execution.Command{complete(k, c), execution.Report{Owned: k.owned(c, event("x"))}, execution.Release{Owned: k.owned(c)}} {
		_, err = k.Store.Transition(k.ctx, c, cmd)
		k.refused(err, execution.CodeLeaseLost)
	}
	beaten, err := k.Store.Beat(k.ctx, []store.Beat{{ID: c.ID, Ownership: ownership(c), Lease: lease, Chunks: batch(c, 0, "a")}})
	k.ok(err)
	k.refused(beaten[0].Err, execution.CodeLeaseLost)
	_, err = k.Store.Cancel(k.ctx, c.ID, everyone, "")
	k.refused(err, execution.CodeNotFound)
	k.gone(c.ID)
}

func eraseScope(k *kit) {
	s := k.submission()
	s.Owner = "ann"
	k.admit(s)
	for _, scope := range []store.Scope{{}, {Owner: "bob"}} {
		_, err := k.Store.Erase(k.ctx, s.ID, scope)
		k.refused(err, execution.CodeNotFound)
	}
	_, err := k.Store.Erase(k.ctx, k.Store.NewID(store.Key{}), everyone)
	k.refused(err, execution.CodeNotFound)
	k.same("owner", "ann", k.read(s.ID).Control.Owner)
}

func eraseOwner(k *kit) {
	const n = 120
	var others []execution.Control
	for i := range n {
		for _, owner := range []string{"ann", "bob", ""} {
			if i%40 != 0 && owner != "ann" {
				continue
			}
			s := k.submission()
			s.Owner, s.Labels = owner, execution.Labels(fmt.Sprintf("n=%d", i%3))
			c := k.admit(s)
			if owner != "ann" {
				others = append(others, c)
			}
		}
		k.Advance(time.Millisecond)
	}
	var all store.Erased
	for more := true; more; more = all.More {
		all.More = false
		got, err := k.Store.EraseOwner(k.ctx, "ann")
		k.ok(err)
		if got.Executions > 100*k.Store.Partitions() {
			k.Fatalf("%d in one round", got.Executions)
		}
		all.Add(got)
	}
	k.same("erased", [2]int{n, n}, [2]int{all.Executions, all.Unfinished})
	k.same("left", newest(others...), k.walk(store.ListRequest{Scope: everyone, Limit: 50}))
	k.same("unfinished", int64(len(others)), k.count().Nonterminal)
	got, err := k.Store.EraseOwner(k.ctx, "ann")
	k.erased(store.Erased{}, got, err)
}
