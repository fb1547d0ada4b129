package storetest

import (
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func resumeTests() []test {
	return []test{
		{name: "an answer is checked before it is applied", run: resumeChecked},
		{name: "an answer that was checked against another wait is checked again", run: resumeStale},
		{name: "an answer for another wait is refused", run: resumeMoved},
		{name: "nothing waits, nothing is answered", run: resumeNotWaiting},
		{name: "a key replays the same answer for good", run: resumeKey},
		{name: "a key with another answer is refused", run: resumeKeyReused},
		{name: "an unchecked answer binds no key", run: resumeKeyUnchecked},
		{name: "a key is one execution's", run: resumeKeyScope},
		{name: "each answer goes to its own wait", run: resumeTwice},
	}
}

func (k *kit) answer(c execution.Control, key string, digest byte) store.ResumeRequest {
	return store.ResumeRequest{ID: c.ID, Scope: everyone, Answer: []byte(`[1, 2]`), Checked: c.WaitSequence, Key: key, Digest: [32]byte{digest}}
}

func (k *kit) replayed(r store.ResumeRequest) {
	k.Helper()
	got, err := k.Store.Resume(k.ctx, r)
	k.ok(err)
	k.same("replay", store.Resumed{Record: k.read(r.ID), Replayed: true}, got)
}

func (k *kit) denied(r store.ResumeRequest, code execution.Code) {
	k.Helper()
	want := k.read(r.ID)
	_, err := k.Store.Resume(k.ctx, r)
	k.refused(err, code)
	k.same("record", want, k.read(r.ID))
}

func resumeChecked(k *kit) {
	w := execution.Wait{Kind: "approval", Message: "<Go on?>", Schema: []byte(`{"type":"boolean"}`), Default: []byte("1.0")}
	c := k.suspend(k.start(), time.Hour, w)
	k.same("sequence", c.Version, c.WaitSequence)
	r := store.ResumeRequest{ID: c.ID, Scope: everyone, Answer: []byte(`{"approved":true}`)}
	open := store.Record{Control: c, Wait: k.wait(w), Now: k.now()}
	got, err := k.Store.Resume(k.ctx, r)
	k.ok(err)
	k.same("unchecked", store.Resumed{Record: open, Unchecked: true}, got)
	k.same("record", open, k.read(c.ID))
	r.Checked, r.Sequence = c.WaitSequence, c.WaitSequence
	k.Advance(time.Second)
	want := store.Record{Control: k.expected(c, execution.Resume{Sequence: c.WaitSequence, Answer: r.Answer}, k.now()), Now: k.now()}
	got, err = k.Store.Resume(k.ctx, r)
	k.ok(err)
	k.same("applied", store.Resumed{Record: want}, got)
	k.same("record", want, k.read(c.ID))
	claimed := k.claim()
	k.same("claimed", store.Claimed{Control: claimed.Control, Input: []byte(`{"n":1}`), Checkpoint: []byte(`{"at":"wait"}`),
		Answer: r.Answer}, claimed)
}

func resumeStale(k *kit) {
	first := k.suspend(k.start(), 0, execution.Wait{Kind: "one"})
	k.resume(first, "1")
	second := k.suspend(k.claim().Control, 0, execution.Wait{Kind: "two"})
	got, err := k.Store.Resume(k.ctx, k.answer(first, "k", 1))
	k.ok(err)
	want := store.Record{Control: second, Wait: k.wait(execution.Wait{Kind: "two"}), Now: k.now()}
	k.same("unchecked", store.Resumed{Record: want, Unchecked: true}, got)
	k.same("record", want, k.read(second.ID))
}

func resumeMoved(k *kit) {
	first := k.suspend(k.start(), 0, execution.Wait{})
	k.resume(first, "1")
	second := k.suspend(k.claim().Control, 0, execution.Wait{})
	for _, checked := range []int64{0, first.WaitSequence, second.WaitSequence} {
		r := k.answer(second, "", 0)
		r.Sequence, r.Checked = first.WaitSequence, checked
		k.denied(r, execution.CodeWaitMoved)
	}
}

func resumeNotWaiting(k *kit) {
	c := k.submit()
	k.denied(k.answer(c, "k", 1), execution.CodeNotWaiting)
	c = k.claim().Control
	k.denied(k.answer(c, "k", 1), execution.CodeNotWaiting)
	c = k.suspend(c, 0, execution.Wait{})
	k.resume(c, "1")
	k.denied(k.answer(c, "", 1), execution.CodeNotWaiting)
	k.denied(k.answer(c, "k", 1), execution.CodeNotWaiting)
	k.cancel(c.ID)
	k.denied(k.answer(c, "k", 1), execution.CodeNotWaiting)
	c.ID = k.Store.NewID(store.Key{})
	_, err := k.Store.Resume(k.ctx, k.answer(c, "k", 1))
	k.refused(err, execution.CodeNotFound)
}

func resumeKey(k *kit) {
	c := k.suspend(k.start(), 0, execution.Wait{})
	r := k.answer(c, "k", 1)
	got, err := k.Store.Resume(k.ctx, r)
	k.ok(err)
	k.same("applied", store.Resumed{Record: k.read(c.ID)}, got)
	k.replayed(r)
	c = k.claim().Control
	k.replayed(r)
	c = k.suspend(c, 0, execution.Wait{Kind: "two"})
	k.replayed(r) // also while another wait is open, which it does not touch
	k.resume(c, "1")
	c = k.claim().Control
	k.do(c, complete(k, c))
	r.Checked = 0 // whoever repeats need not have checked
	k.replayed(r)
	k.Advance(6 * 24 * time.Hour)
	k.replayed(r)
}

func resumeKeyReused(k *kit) {
	c := k.suspend(k.start(), 0, execution.Wait{})
	_, err := k.Store.Resume(k.ctx, k.answer(c, "k", 1))
	k.ok(err)
	k.denied(k.answer(c, "k", 2), execution.CodeKeyReused)
	c = k.suspend(k.claim().Control, 0, execution.Wait{})
	k.denied(k.answer(c, "k", 2), execution.CodeKeyReused)
	_, err = k.Store.Resume(k.ctx, k.answer(c, "other", 2))
	k.ok(err)
}

func resumeKeyUnchecked(k *kit) {
	c := k.suspend(k.start(), 0, execution.Wait{})
	r := k.answer(c, "k", 1)
	r.Checked = 0
	got, err := k.Store.Resume(k.ctx, r)
	k.ok(err)
	k.same("unchecked", true, got.Unchecked)
	got, err = k.Store.Resume(k.ctx, k.answer(c, "k", 2))
	k.ok(err)
	k.same("applied", store.Resumed{Record: k.read(c.ID)}, got)
}

func resumeKeyScope(k *kit) {
	for digest := range byte(3) {
		c := k.suspend(k.start(), 0, execution.Wait{})
		got, err := k.Store.Resume(k.ctx, k.answer(c, "k", digest))
		k.ok(err)
		k.same("applied", store.Resumed{Record: k.read(c.ID)}, got)
		k.cancel(c.ID)
	}
}

func resumeTwice(k *kit) {
	c := k.start()
	for _, answer := range []string{"1", "2", "3"} {
		c = k.suspend(c, 0, execution.Wait{})
		k.resume(c, answer)
		claimed := k.claim()
		k.same("answer", answer, string(claimed.Answer))
		c = claimed.Control
	}
	// A new wait takes the answer of the last one away, also where nobody consumed it.
	k.suspend(c, time.Minute, execution.Wait{Default: []byte("4")})
	k.Advance(time.Minute)
	k.maintain()
	k.same("answer", "4", string(k.claim().Answer))
}
