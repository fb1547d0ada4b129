package storetest

import (
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func capacityTests() []test {
	return []test{
		{name: "a submission over the ceiling writes nothing", run: capacityRefused},
		{name: "the ceiling counts a deployment over its revisions", run: capacityDeployment},
		{name: "zero is no ceiling", run: capacityNone},
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
	first := k.start() // goes on, so that the count is never just zero
	for _, way := range ways {
		k.full(1)
		c := k.start()
		k.full(2)
		way.end(c)
		if status := k.read(c.ID).Control.Status; !status.Terminal() {
			k.Fatalf("%s: the execution is %s", way.name, status)
		}
		first = k.do(first, execution.Checkpoint{Owned: k.owned(first), Data: []byte("1"), Lease: time.Hour})
	}
	k.full(1)
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
