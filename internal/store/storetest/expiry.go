package storetest

import (
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func expiryTests() []test {
	return []test{
		{name: "what nobody claims in time fails, and is not claimed late", run: expiryQueue},
		{name: "what was claimed once stays in the queue as long as it takes", run: expiryClaimed},
		{name: "a deadline ends what is queued", run: expiryQueued},
		{name: "a deadline ends what waits, whatever the wait's default", run: expiryWaiting},
		{name: "a wait that ends before the deadline takes its default", run: expiryDefault},
		{name: "a deadline spares what runs until its lease is over", run: expiryRunning},
		{name: "an end in time leaves nothing to expire", run: expiryEnded},
	}
}

// limited submits work that must be claimed, and have ended, by now plus so much; 0: whenever.
func (k *kit) limited(queue, deadline time.Duration) execution.Control {
	k.Helper()
	s := k.submission()
	s.QueueTTL = queue
	if deadline > 0 {
		s.Deadline = k.now().Millis() + deadline.Milliseconds()
	}
	return k.admit(s)
}

// expiredWith asserts that the execution failed with that code, and that nothing is left to do.
func (k *kit) expiredWith(id, code string) {
	k.Helper()
	r := k.read(id)
	f, err := execution.DecodeFailure(r.Error)
	k.ok(err)
	k.same("end", []string{"failed", code}, []string{string(r.Control.Status), f.Code})
	k.same("maintained", store.Maintained{}, k.maintain())
	k.same("claimed", 0, len(k.poll(k.request(9)).Claimed))
	k.same("unfinished", int64(0), k.count().Nonterminal)
}

func expiryQueue(k *kit) {
	id := k.limited(time.Minute, 0).ID
	k.Advance(time.Minute - time.Millisecond)
	k.same("maintained", store.Maintained{}, k.maintain())
	k.Advance(time.Millisecond)
	p := k.poll(k.request(1))
	k.same("claimed", 0, len(p.Claimed))
	k.same("overdue", true, p.Overdue)
	k.same("maintained", store.Maintained{Failed: 1}, k.maintain())
	k.expiredWith(id, execution.FailureQueueExpired)
}

func expiryClaimed(k *kit) {
	k.limited(time.Minute, 0)
	c := k.claim().Control
	k.do(c, execution.Release{Owned: k.owned(c)})
	k.Advance(time.Hour)
	k.same("maintained", store.Maintained{}, k.maintain())
	k.same("claimed", c.ID, k.claim().Control.ID)
}

func expiryQueued(k *kit) {
	s := k.submission()
	s.Delay, s.Deadline = time.Hour, k.now().Millis()+60_000
	k.admit(s)
	k.Advance(time.Minute)
	k.same("maintained", store.Maintained{Failed: 1}, k.maintain())
	k.expiredWith(s.ID, execution.FailureDeadline)
}

func expiryWaiting(k *kit) {
	k.limited(0, time.Minute)
	c := k.suspend(k.claim().Control, time.Hour, execution.Wait{Default: []byte("1")})
	k.Advance(time.Minute)
	k.same("maintained", store.Maintained{Failed: 1}, k.maintain())
	k.expiredWith(c.ID, execution.FailureDeadline)
	_, err := k.Store.Resume(k.ctx, store.ResumeRequest{ID: c.ID, Scope: everyone, Answer: []byte("1"), Checked: c.WaitSequence})
	k.refused(err, execution.CodeNotWaiting)
}

func expiryDefault(k *kit) {
	id := k.limited(0, time.Hour).ID
	k.suspend(k.claim().Control, time.Minute, execution.Wait{Default: []byte("1")})
	k.Advance(time.Minute)
	k.same("maintained", store.Maintained{Defaulted: 1}, k.maintain())
	k.Advance(time.Hour)
	k.same("maintained", store.Maintained{Failed: 1}, k.maintain())
	k.expiredWith(id, execution.FailureDeadline)
}

func expiryRunning(k *kit) {
	k.limited(0, time.Second)
	c := k.claim().Control
	k.Advance(lease - time.Millisecond)
	k.same("maintained", store.Maintained{}, k.maintain())
	k.Advance(time.Millisecond)
	k.same("maintained", store.Maintained{Failed: 1}, k.maintain())
	k.expiredWith(c.ID, execution.FailureDeadline)
}

func expiryEnded(k *kit) {
	k.limited(time.Minute, time.Minute)
	c := k.claim().Control
	k.do(c, complete(k, c))
	k.cancel(k.limited(time.Minute, time.Minute).ID)
	k.Advance(time.Hour)
	k.same("maintained", store.Maintained{}, k.maintain())
	k.same("overdue", false, k.poll(k.request(1)).Overdue)
}
