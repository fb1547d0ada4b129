package storetest

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// byID compares what was claimed in any order: stores take from the front with a little randomness.
func byID() cmp.Option {
	return cmpopts.SortSlices(func(a, b store.Claimed) bool { return a.Control.ID < b.Control.ID })
}

func orderTests() []test {
	return []test{
		{name: "what waits longest comes first, roughly", run: orderOldest},
		{name: "delayed work stands where it fell due", run: orderDelayed},
		{name: "a higher priority comes first", run: orderPriority},
		{name: "a delay, a retry and a wait keep the priority", run: orderPriorityKept},
		{name: "no priority starves", run: orderAging},
		{name: "nothing is left behind", run: orderAll},
		{name: "a crowd that falls due at once holds up no other revision", run: orderCrowd},
		{name: "a crowd that falls due at once is claimed to its end", run: orderCrowdAll},
	}
}

// crowd submits n executions and returns their ids, sorted.
func (k *kit) crowd(n int, delay time.Duration) []string {
	k.Helper()
	var out []string
	for range n {
		s := k.submission()
		s.Delay = delay
		out = append(out, k.admit(s).ID)
	}
	slices.Sort(out)
	return out
}

// within asserts that all that was claimed is among those.
func (k *kit) within(among []string, claimed []store.Claimed) {
	k.Helper()
	for _, id := range ids(claimed) {
		if _, ok := slices.BinarySearch(among, id); !ok {
			k.Fatalf("%s came before its turn", id)
		}
	}
}

func orderOldest(k *kit) {
	old := k.crowd(60, 0)
	k.Advance(time.Hour)
	k.crowd(60, 0)
	p := k.poll(k.request(10))
	k.same("claimed", 10, len(p.Claimed))
	k.within(old, p.Claimed)
}

func orderDelayed(k *kit) {
	k.crowd(60, 3*time.Hour)
	early := k.crowd(60, time.Hour)
	k.Advance(2 * time.Hour)
	k.crowd(60, 0)
	k.Advance(2 * time.Hour)
	p := k.poll(k.request(10))
	k.same("claimed", 10, len(p.Claimed))
	k.within(early, p.Claimed)
}

// prior submits to one partition, within which the order holds.
func (k *kit) prior(priority int64, delay time.Duration) string {
	k.Helper()
	s := k.submission()
	for home, _ := k.Store.PartitionOf(s.ID); home != 0; home, _ = k.Store.PartitionOf(s.ID) {
		s.ID = k.Store.NewID(store.Key{})
	}
	s.Priority, s.Delay = priority, delay
	return k.admit(s).ID
}

// one claims what is first and tells its id.
func (k *kit) one() string {
	k.Helper()
	p := k.poll(k.request(1))
	k.same("claimed", 1, len(p.Claimed))
	return p.Claimed[0].Control.ID
}

func orderPriority(k *kit) {
	var want []string
	for _, priority := range []int64{0, 1, 5, 9} {
		want = append(want, k.prior(priority, 0))
		k.Advance(time.Second)
	}
	slices.Reverse(want)
	k.same("oldest", k.now().Millis()-1000, k.count().OldestReady)
	k.same("claimed", want, []string{k.one(), k.one(), k.one(), k.one()})
}

func orderPriorityKept(k *kit) {
	delayed := k.prior(3, time.Second)
	k.prior(4, 0)
	retried := k.claim().Control
	k.do(retried, execution.Retry{Owned: k.owned(retried), Delay: time.Second, Error: broken})
	k.prior(5, 0)
	waiting := k.suspend(k.claim().Control, 0, execution.Wait{})
	plain := k.prior(0, 0)
	k.Advance(2 * time.Second)
	k.resume(waiting, "1")
	k.same("claimed", []string{waiting.ID, retried.ID, delayed, plain}, []string{k.one(), k.one(), k.one(), k.one()})
	k.same("priority", int64(5), k.read(waiting.ID).Control.Priority)
}

// orderAging lets work of the highest priority come in faster than it is done: what fell due nine steps before is not held up.
func orderAging(k *kit) {
	low := k.prior(0, 0)
	for waited := time.Duration(0); waited <= execution.MaxPriority*execution.PriorityStep; waited += execution.PriorityStep / 2 {
		k.prior(execution.MaxPriority, 0)
		k.prior(execution.MaxPriority, 0)
		if id := k.one(); id == low {
			k.Fatalf("priority 0 came before priority 9, which fell due only %s later", waited)
		}
		k.Advance(execution.PriorityStep / 2)
	}
	for late := 0; k.one() != low; late++ {
		if late == 30 {
			k.Fatal("priority 0 starves")
		}
		k.prior(execution.MaxPriority, 0)
	}
}

func orderAll(k *kit) {
	want := k.crowd(40, 0)
	want = append(want, k.crowd(40, time.Minute)...)
	slices.Sort(want)
	k.Advance(time.Hour)
	var got []string
	for {
		p := k.poll(k.request(7))
		if len(p.Claimed) == 0 {
			break
		}
		got = append(got, ids(p.Claimed)...)
	}
	slices.Sort(got)
	k.same("claimed", want, got)
}

func orderCrowd(k *kit) {
	r := k.request(0)
	k.crowd(150, time.Minute)
	k.rev.Deployment = "other"
	want := k.crowd(1, time.Minute)
	later := k.crowd(1, time.Hour)
	k.Advance(time.Minute)
	r.Revisions = append(r.Revisions, store.Want{Revision: k.rev, Count: 1, Lease: lease})
	p := k.poll(r)
	k.same("claimed", want, ids(p.Claimed))
	k.same("next due", k.read(later[0]).Control.AvailableAt, p.NextDue)
}

func orderCrowdAll(k *kit) {
	want := k.crowd(150, time.Minute)
	k.Advance(time.Minute)
	var got []string
	for more := true; more; {
		p := k.poll(k.request(len(want) + 1))
		got, more = append(got, ids(p.Claimed)...), p.More
	}
	slices.Sort(got)
	k.same("claimed", want, got)
}
