package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func pollTests() []test {
	return []test{
		{name: "a claim hands out control and payloads", run: pollClaims},
		{name: "a later claim starts from checkpoint and answer", run: pollPayloads},
		{name: "at most as many as wanted, of the revisions that want some", run: pollWants},
		{name: "one request serves several revisions", run: pollRevisions},
		{name: "it tells when delayed work falls due", run: pollNextDue},
		{name: "a brief one claims and tells nothing else", run: pollBrief},
		{name: "a repeat hands out the same batch at no cost", run: pollRepeat},
		{name: "a repeat leaves out what moved on", run: pollRepeatMoved},
		{name: "after the lease the same token claims anew", run: pollRepeatLate},
		{name: "a token is one worker's", run: pollRepeatWorker},
		{name: "payload is bounded but one always fits", run: pollBytes},
		{name: "it tells of overdue leases, waits and retention", run: pollOverdue},
		{name: "fences grow also when the clock steps back", run: pollFences},
		{name: "nothing due is an empty answer", run: pollEmpty},
		{name: "what arrives late claims nothing", run: pollLate},
	}
}

func pollClaims(k *kit) {
	s := k.submission()
	c := k.admit(s)
	k.Advance(5 * time.Second)
	r := k.request(1)
	now := k.now()
	want := c
	want.Status, want.Version, want.Fence, want.Attempt, want.Claims = execution.Running, 2, int64(now), 1, 1
	want.Worker, want.Token, want.LeaseUntil, want.UpdatedAt = r.Worker, r.Token, now.Millis()+30_000, now.Millis()
	k.same("reply", store.Polled{Claimed: []store.Claimed{{Control: want, Input: s.Input}}, Now: now, LeaseEnd: want.LeaseUntil}, k.poll(r))
	k.same("stored", want, k.read(s.ID).Control)
}

func pollPayloads(k *kit) {
	c := k.start()
	c = k.suspend(c, 0, execution.Wait{Kind: "approval"})
	k.resume(c, `{"approved": true}`)
	got := k.claim()
	k.same("claimed", store.Claimed{Control: got.Control, Input: []byte(`{"n":1}`), Checkpoint: []byte(`{"at":"wait"}`),
		Answer: []byte(`{"approved": true}`)}, got)
	c = got.Control
	c = k.do(c, execution.Checkpoint{Owned: k.owned(c), Data: []byte("2"), Lease: lease})
	k.do(c, execution.Release{Owned: k.owned(c)})
	got = k.claim() // the answer stays until a checkpoint says that it was read
	k.same("claimed", store.Claimed{Control: got.Control, Input: []byte(`{"n":1}`), Checkpoint: []byte("2"),
		Answer: []byte(`{"approved": true}`)}, got)
	c = got.Control
	c = k.do(c, execution.Checkpoint{Owned: k.owned(c), Data: []byte("3"), Consumed: true, Lease: lease})
	k.do(c, execution.Release{Owned: k.owned(c)})
	got = k.claim()
	k.same("claimed", store.Claimed{Control: got.Control, Input: []byte(`{"n":1}`), Checkpoint: []byte("3")}, got)
}

func pollWants(k *kit) {
	for range 5 {
		k.submit()
	}
	other := store.Revision{Deployment: "story", Revision: "r2"}
	r := k.request(3)
	r.Revisions = append(r.Revisions, store.Want{Revision: other, Count: 9, Lease: lease})
	k.same("claimed", 3, len(k.poll(r).Claimed))
	k.same("claimed without want", 0, len(k.poll(k.request(0)).Claimed))
	k.same("left", int64(2), k.count().Ready)
	k.same("claimed", 2, len(k.poll(k.request(9)).Claimed))
}

func pollRevisions(k *kit) {
	r := store.PollRequest{Worker: "w1", Token: k.token()}
	want := map[store.Revision]time.Duration{}
	for i := range 12 {
		k.rev = store.Revision{Deployment: fmt.Sprintf("d%d", i/2), Revision: fmt.Sprintf("r%d", i)}
		k.submit()
		want[k.rev] = time.Duration(i+1) * time.Minute
		r.Revisions = append(r.Revisions, store.Want{Revision: k.rev, Count: 1, Lease: want[k.rev]})
	}
	got := map[store.Revision]time.Duration{}
	p := k.poll(r)
	for _, c := range p.Claimed {
		rev := store.Revision{Deployment: c.Control.Deployment, Revision: c.Control.Revision}
		got[rev] = time.Duration(c.Control.LeaseUntil-p.Now.Millis()) * time.Millisecond
	}
	k.same("leases by revision", want, got)
}

func pollNextDue(k *kit) {
	var due []int64
	for _, d := range []time.Duration{3 * time.Minute, time.Minute, 2 * time.Minute} {
		s := k.submission()
		s.Delay = d
		due = append(due, k.admit(s).AvailableAt)
	}
	k.same("next due", due[1], k.poll(k.request(0)).NextDue)
	k.same("next due", due[1], k.poll(k.request(1)).NextDue)
	k.Advance(time.Minute)
	p := k.poll(k.request(1))
	k.same("claimed", 1, len(p.Claimed))
	k.same("next due", due[2], p.NextDue)
	k.Advance(2 * time.Minute)
	p = k.poll(k.request(9))
	k.same("claimed", 2, len(p.Claimed))
	k.same("next due", int64(0), p.NextDue)
	k.rev.Revision = "r2"
	k.same("next due of another revision", int64(0), k.poll(k.request(1)).NextDue)
}

// pollBrief leaves to the next full poll what has fallen due, and takes what was found due before.
func pollBrief(k *kit) {
	late := k.submission()
	late.Delay = time.Minute
	k.admit(late)
	for range 3 {
		k.submit()
	}
	k.Advance(2 * time.Minute)
	brief := func(count int) store.Polled {
		r := k.request(count)
		r.Brief, r.Yields = true, true
		return k.poll(r)
	}
	p := brief(2)
	k.same("claimed", 2, len(p.Claimed))
	p.Claimed = nil
	k.same("what it tells", store.Polled{Now: k.now()}, p)
	k.same("processes seen", 0, len(k.workers()))
	k.same("claimed of what was due before", 1, len(brief(9).Claimed))
	k.same("claimed in full", late.ID, k.poll(k.request(9)).Claimed[0].Control.ID)
}

func pollRepeat(k *kit) {
	for range 3 {
		k.submit()
	}
	r := k.request(2)
	first := k.poll(r)
	k.same("claimed", 2, len(first.Claimed))
	k.Advance(time.Second)
	again := k.poll(r)
	k.same("batch", first.Claimed, again.Claimed, byID())
	k.same("left", int64(1), k.count().Ready)
	k.same("leases", int64(2), k.leases())
	for _, c := range first.Claimed {
		k.same("control", c.Control, k.read(c.Control.ID).Control)
	}
	k.same("with a new token", 1, len(k.poll(k.request(2)).Claimed))
}

func pollRepeatMoved(k *kit) {
	for range 3 {
		k.submit()
	}
	r := k.request(3)
	claimed := k.poll(r).Claimed
	k.do(claimed[0].Control, complete(k, claimed[0].Control))
	k.do(claimed[1].Control, execution.Release{Owned: k.owned(claimed[1].Control)})
	k.same("batch", claimed[2:], k.poll(r).Claimed)
}

func pollRepeatLate(k *kit) {
	first := k.start()
	r := k.request(1)
	r.Token = first.Token
	k.Advance(lease)
	next := k.submit()
	k.same("claimed before recovery", []string{next.ID}, ids(k.poll(r).Claimed))
	next = k.read(next.ID).Control
	k.do(next, complete(k, next))
	k.same("maintained", store.Maintained{Requeued: 1}, k.maintain())
	r.Token = k.token()
	p := k.poll(r)
	k.same("claimed", []string{first.ID}, ids(p.Claimed))
	k.same("attempt", int64(2), p.Claimed[0].Control.Attempt)
}

func pollRepeatWorker(k *kit) {
	k.submit()
	k.submit()
	r := k.request(1)
	first := ids(k.poll(r).Claimed)
	r.Worker = "w2"
	second := ids(k.poll(r).Claimed)
	if first[0] == second[0] {
		k.Fatalf("%s was handed to two workers", first[0])
	}
}

func pollBytes(k *kit) {
	for range 6 {
		s := k.submission()
		s.Input = []byte(`"` + strings.Repeat("x", 1000) + `"`)
		k.admit(s)
	}
	total, polls := 0, 0
	for more := true; more; polls++ {
		r := k.request(9)
		r.MaxBytes = 2100
		p := k.poll(r)
		if n := len(p.Claimed); n < 1 || n > 3 {
			k.Fatalf("%d claimed at once", n)
		}
		total, more = total+len(p.Claimed), p.More
	}
	k.same("claimed", 6, total)
	s := k.submission()
	s.Input = []byte(`"` + strings.Repeat("x", 9000) + `"`)
	k.admit(s)
	r := k.request(9)
	r.MaxBytes = 1
	k.same("one always fits", []string{s.ID}, ids(k.poll(r).Claimed))
}

func pollOverdue(k *kit) {
	overdue := func(want bool) {
		k.Helper()
		k.same("overdue", want, k.poll(k.request(0)).Overdue)
	}
	overdue(false)
	k.start()
	k.Advance(lease - time.Millisecond)
	overdue(false)
	k.Advance(time.Millisecond)
	overdue(true)
	k.maintain()
	overdue(false)
	k.suspend(k.claim().Control, time.Hour, execution.Wait{})
	k.Advance(time.Hour)
	overdue(true)
	k.maintain()
	overdue(false)
	k.Advance(7 * 24 * time.Hour)
	overdue(true)
	k.maintain()
	overdue(false)
}

func pollFences(k *kit) {
	c := k.start()
	for range 3 {
		k.Advance(-time.Hour)
		last := c
		k.do(c, execution.Release{Owned: k.owned(c)})
		c = k.claim().Control
		k.same("fence", last.Fence+1, c.Fence)
		k.same("updated at", last.UpdatedAt, c.UpdatedAt)
		k.same("attempt", last.Attempt+1, c.Attempt)
	}
}

func pollEmpty(k *kit) {
	k.same("reply", store.Polled{Now: k.now()}, k.poll(k.request(9)))
	k.same("reply", store.Polled{Now: k.now()}, k.poll(store.PollRequest{Worker: "w", Token: "t"}))
}

// A copy of a poll that arrives after its repeat, or after a later poll that was remembered, claims nothing.
func pollLate(k *kit) {
	old := k.request(1)
	old.Number, old.Doubt = 1, true
	k.poll(old)
	id := k.submit().ID
	k.same("claimed late", 0, len(k.poll(old).Claimed))
	next := k.request(1)
	next.Number = 2
	k.same("claimed", []string{id}, ids(k.poll(next).Claimed))
	id = k.submit().ID
	k.same("claimed late", 0, len(k.poll(old).Claimed))
	next.Token, next.Number = k.token(), 3
	k.same("claimed", []string{id}, ids(k.poll(next).Claimed))
}
