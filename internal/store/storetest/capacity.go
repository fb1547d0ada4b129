package storetest

import (
	"strings"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func capacityTests() []test {
	return []test{
		{name: "a submission over the ceiling writes nothing", run: capacityRefused},
		{name: "the ceiling counts a deployment over its revisions", run: capacityDeployment},
		{name: "zero is no ceiling", run: capacityNone},
		{name: "an owner has a ceiling over all deployments", run: capacityOwner},
		{name: "every way to an end frees one place", run: capacityFreed},
		{name: "what goes on keeps its place", run: capacityKept},
	}
}

func (k *kit) capped(n int64) store.Submission {
	s := k.submission()
	s.MaxNonterminal = n
	return s
}

// full asserts that exactly n executions of the deployment are unfinished, by what admission says.
func (k *kit) full(n int64) {
	k.Helper()
	_, err := k.Store.Submit(k.ctx, k.capped(n))
	k.refused(err, execution.CodeCapacity)
	probe := k.admit(k.capped(n + 1))
	k.cancel(probe.ID)
}

func capacityRefused(k *kit) {
	k.admit(k.capped(2))
	k.admit(k.capped(2))
	s := k.capped(2)
	_, err := k.Store.Submit(k.ctx, s)
	k.refused(err, execution.CodeCapacity)
	k.gone(s.ID)
	k.same("unfinished", int64(2), k.count().Nonterminal)
	k.same("claimed", 2, len(k.poll(k.request(9)).Claimed))
}

func capacityDeployment(k *kit) {
	k.submit()
	k.rev.Revision = "r2"
	k.submit()
	k.full(2)
	k.rev.Deployment = "other"
	k.admit(k.capped(1))
}

func capacityNone(k *kit) {
	for range 30 {
		k.admit(k.capped(0))
	}
	k.full(30)
}

func capacityFreed(k *kit) {
	ways := []struct {
		name string
		end  func(c execution.Control)
	}{
		{"complete", func(c execution.Control) { k.do(c, complete(k, c)) }},
		{"fail", func(c execution.Control) { k.do(c, execution.Fail{Owned: k.owned(c), Error: broken}) }},
		{"cancel running", func(c execution.Control) {
			k.do(k.cancel(c.ID).Control, execution.Release{Owned: k.owned(c)})
		}},
		{"cancel queued", func(c execution.Control) {
			k.cancel(k.do(c, execution.Release{Owned: k.owned(c)}).ID)
		}},
		{"cancel waiting", func(c execution.Control) { k.cancel(k.suspend(c, 0, execution.Wait{}).ID) }},
		{"wait expired", func(c execution.Control) {
			k.suspend(c, time.Second, execution.Wait{})
			k.Advance(time.Second)
			k.same("maintained", store.Maintained{Failed: 1}, k.maintain())
		}},
	}
	owned := k.submission()
	owned.Owner, owned.MaxOwned = "ann", 9
	k.admit(owned)
	first := k.claim().Control // goes on, so that the count is never just zero
	for _, way := range ways {
		k.full(1)
		owned.ID, owned.MaxOwned = k.Store.NewID(store.Key{}), 2
		k.admit(owned)
		c := k.claim().Control
		k.full(2)
		k.crowded("ann", 2)
		way.end(c)
		k.crowded("ann", 1)
		if status := k.read(c.ID).Control.Status; !status.Terminal() {
			k.Fatalf("%s: the execution is %s", way.name, status)
		}
		first = k.do(first, execution.Checkpoint{Owned: k.owned(first), Data: []byte("1"), Lease: time.Hour})
	}
	k.full(1)
}

// crowded asserts that the owner has exactly n unfinished executions, by what admission says.
func (k *kit) crowded(owner string, n int64) {
	k.Helper()
	s := k.submission()
	s.Owner, s.MaxOwned = owner, n
	_, err := k.Store.Submit(k.ctx, s)
	k.refused(err, execution.CodeOwnerCapacity)
	k.gone(s.ID)
	s.MaxOwned = n + 1
	k.cancel(k.admit(s).ID)
}

func capacityOwner(k *kit) {
	long := strings.Repeat("ö", 255)
	for _, owner := range []string{"ann", long} {
		for _, deployment := range []string{"story", "other"} {
			s := k.submission()
			s.Owner, s.Deployment, s.MaxOwned = owner, deployment, 2
			k.admit(s)
		}
		k.crowded(owner, 2)
	}
	s := k.submission()
	s.Owner, s.MaxOwned = "ann", 1
	_, err := k.Store.Submit(k.ctx, s)
	k.same("error", store.OwnerFull(1), err)
	s.MaxOwned = 0
	k.admit(s) // counts for nothing
	k.crowded("ann", 2)
	s.Owner, s.MaxOwned, s.ID = "", 1, k.Store.NewID(store.Key{})
	k.admit(s)
	s.ID = k.Store.NewID(store.Key{})
	k.admit(s)
}

func capacityKept(k *kit) {
	c := k.start()
	k.do(c, execution.Retry{Owned: k.owned(c), Error: broken})
	k.full(1)
	c = k.suspend(k.claim().Control, 0, execution.Wait{})
	k.full(1)
	k.resume(c, "1")
	k.full(1)
	k.claim()
	k.Advance(lease)
	k.same("maintained", store.Maintained{Requeued: 1}, k.maintain())
	k.full(1)
	k.same("unfinished", int64(1), k.count().Nonterminal)
}
