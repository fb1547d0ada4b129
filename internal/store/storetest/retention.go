package storetest

import (
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func retentionTests() []test {
	limits := store.Limits{TerminalTTL: time.Hour, StreamTTL: time.Minute}
	return []test{
		{name: "an ended execution is erased with all it had", run: retentionErased, limits: limits},
		{name: "it is kept to the end of its retention", run: retentionKept, limits: limits},
		{name: "everybody is told when it goes", run: retentionTold, limits: limits},
		{name: "what has not ended is kept for good", run: retentionUnfinished, limits: limits},
		{name: "erasing frees the key", run: retentionKey, limits: limits},
		{name: "one pass is bounded and tells of the rest", run: retentionBounded, limits: limits},
	}
}

func retentionErased(k *kit) {
	s := k.keyed("k")
	k.admit(s)
	k.watch(s.ID)
	c := k.claim().Control
	k.do(c, complete(k, c))
	k.Advance(time.Hour)
	k.same("maintained", store.Maintained{Removed: 1}, k.maintain())
	k.gone(s.ID)
	_, err := k.Store.Cancel(k.ctx, s.ID, everyone, "")
	k.refused(err, execution.CodeNotFound)
	_, err = k.Store.Resume(k.ctx, store.ResumeRequest{ID: s.ID, Scope: everyone, Answer: []byte("1")})
	k.refused(err, execution.CodeNotFound)
	_, err = k.Store.FindKey(k.ctx, s.Key)
	k.refused(err, execution.CodeNotFound)
	controls, err := k.Store.Controls(k.ctx, []string{s.ID})
	k.ok(err)
	k.same("status", execution.Status(""), controls[0].Status)
	got, err := k.tail(s.ID).Read(k.ctx, []store.Position{{ID: s.ID}}, 0)
	k.ok(err)
	k.same("log", 0, len(got))
	k.same("unfinished", int64(0), k.count().Nonterminal)
	k.same("maintained", store.Maintained{}, k.maintain())
}

func retentionKept(k *kit) {
	c := k.start()
	k.Advance(20 * time.Second)
	k.do(c, complete(k, c))
	k.Advance(time.Hour - time.Millisecond)
	k.same("maintained", store.Maintained{}, k.maintain())
	k.same("result", `"done"`, string(k.read(c.ID).Result))
	k.Advance(time.Millisecond)
	k.same("maintained", store.Maintained{Removed: 1}, k.maintain())
}

func retentionTold(k *kit) {
	s := k.keyed("k")
	admitted, err := k.Store.Submit(k.ctx, s)
	k.ok(err)
	k.same("of a new one", int64(0), admitted.Record.ExpiresAt)
	c := k.claim().Control
	k.same("of one that runs", int64(0), k.read(s.ID).ExpiresAt)
	k.Advance(20 * time.Second)
	ended := k.do(c, complete(k, c))
	want := ended.UpdatedAt + time.Hour.Milliseconds()
	k.Advance(20 * time.Minute)
	k.same("of one that has ended", want, k.read(s.ID).ExpiresAt)
	found, err := k.Store.FindKey(k.ctx, s.Key)
	k.ok(err)
	k.same("by its key", want, found.Record.ExpiresAt)
	again, err := k.Store.Submit(k.ctx, s)
	k.ok(err)
	k.same("submitted again", want, again.Record.ExpiresAt)
	canceled := k.submit()
	k.same("of one that is canceled", k.cancel(canceled.ID).Control.UpdatedAt+time.Hour.Milliseconds(), k.read(canceled.ID).ExpiresAt)
	record, err := k.Store.Cancel(k.ctx, canceled.ID, everyone, "")
	k.ok(err)
	k.same("canceled again", k.read(canceled.ID).ExpiresAt, record.ExpiresAt)
}

func retentionUnfinished(k *kit) {
	waiting := k.suspend(k.start(), 0, execution.Wait{})
	queued := k.submit()
	k.Advance(1000 * time.Hour)
	k.same("maintained", store.Maintained{}, k.maintain())
	k.same("waiting", waiting, k.read(waiting.ID).Control)
	k.same("queued", queued, k.read(queued.ID).Control)
}

func retentionKey(k *kit) {
	s := k.keyed("k")
	k.admit(s)
	k.cancel(s.ID)
	k.Advance(time.Hour)
	k.maintain()
	again := k.keyed("k")
	again.Key.Fingerprint = [32]byte{2}
	k.admit(again)
	k.Advance(time.Hour)
	k.maintain() // the new binding is not taken along
	r, err := k.Store.FindKey(k.ctx, again.Key)
	k.ok(err)
	k.same("id", again.ID, r.Record.Control.ID)
}

func retentionBounded(k *kit) {
	for range 5 {
		k.cancel(k.submit().ID)
	}
	k.Advance(time.Hour)
	for _, want := range []store.Maintained{{Removed: 2, More: true}, {Removed: 2, More: true}, {Removed: 1}, {}} {
		got, err := k.Store.Maintain(k.ctx, 2)
		k.ok(err)
		k.same("maintained", want, got)
	}
}
