package storetest

import (
	"context"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// patience is the real time within which what must happen happens, with room for a busy machine.
const patience = 20 * time.Second

func tailTests() []test {
	return []test{
		{name: "what stands there is read at once", run: tailStands},
		{name: "a reader waits for what comes", run: tailWaits},
		{name: "a reader wakes once for several logs", run: tailSeveral},
		{name: "only what stands after the position is read", run: tailAfter},
		{name: "a reader comes back empty when its time is over", run: tailTimeout},
		{name: "a wake is not lost, before or during a read", run: tailWake},
		{name: "closing ends a read", run: tailClose},
		{name: "the end of its context ends a read", run: tailContext},
		{name: "status and end are read like chunks", run: tailEnd},
	}
}

func (k *kit) tail(id string) store.Tail {
	k.Helper()
	p, ok := k.Store.PartitionOf(id)
	if !ok {
		k.Fatalf("%q has no partition", id)
	}
	t, err := k.Store.Tail(k.ctx, p)
	k.ok(err)
	k.Cleanup(func() { k.ok(t.Close()) })
	return t
}

type reading struct {
	entries []store.Entries
	err     error
}

// reading reads in the background, so that the test can act meanwhile.
func (k *kit) reading(ctx context.Context, t store.Tail, logs ...store.Position) <-chan reading {
	out := make(chan reading, 1)
	go func() {
		e, err := t.Read(ctx, logs, patience)
		out <- reading{e, err}
	}()
	return out
}

// result is what a reading came to, long before it gives up by itself.
func (k *kit) result(c <-chan reading) reading {
	k.Helper()
	select {
	case r := <-c:
		return r
	case <-time.After(patience / 2):
		k.Fatal("the read did not end")
		return reading{}
	}
}

func (k *kit) entries(c <-chan reading) []store.Entries {
	k.Helper()
	r := k.result(c)
	k.ok(r.err)
	return r.entries
}

func tailStands(k *kit) {
	c := k.start()
	k.stream(c, 0, "1")
	k.stream(c, 1, "2")
	got := k.entries(k.reading(k.ctx, k.tail(c.ID), store.Position{ID: c.ID}))
	k.same("entries", []store.Entries{{ID: c.ID, Entries: k.log(c.ID)}}, got)
}

func tailWaits(k *kit) {
	c := k.start()
	t := k.tail(c.ID)
	var at execution.LogID
	for i := range int64(5) {
		r := k.reading(k.ctx, t, store.Position{ID: c.ID, After: at})
		k.stream(c, i, "1")
		got := k.entries(r)
		log := k.log(c.ID)
		k.same("entries", []store.Entries{{ID: c.ID, Entries: log[i:]}}, got)
		at = log[i].ID
	}
}

func tailSeveral(k *kit) {
	a, b := k.start(), k.start()
	t := k.tail(a.ID)
	silent := store.Position{ID: k.Store.NewID(store.Key{})}
	r := k.reading(k.ctx, t, store.Position{ID: a.ID}, silent, store.Position{ID: b.ID})
	k.stream(b, 0, "1")
	k.same("entries", []store.Entries{{ID: b.ID, Entries: k.log(b.ID)}}, k.entries(r))
	k.stream(a, 0, "1")
	got := k.entries(k.reading(k.ctx, t, store.Position{ID: a.ID}, silent, store.Position{ID: b.ID}))
	k.same("entries", []store.Entries{{ID: a.ID, Entries: k.log(a.ID)}, {ID: b.ID, Entries: k.log(b.ID)}}, got)
}

func tailAfter(k *kit) {
	c := k.start()
	for i := range int64(4) {
		k.stream(c, i, "1")
	}
	log := k.log(c.ID)
	got := k.entries(k.reading(k.ctx, k.tail(c.ID), store.Position{ID: c.ID, After: log[1].ID}))
	k.same("entries", []store.Entries{{ID: c.ID, Entries: log[2:]}}, got)
}

func tailTimeout(k *kit) {
	c := k.start()
	k.stream(c, 0, "1")
	at := store.Position{ID: c.ID, After: k.log(c.ID)[0].ID}
	t := k.tail(c.ID)
	for _, wait := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond} {
		got, err := t.Read(k.ctx, []store.Position{at}, wait)
		k.ok(err)
		k.same("entries", 0, len(got))
	}
}

func tailWake(k *kit) {
	c := k.start()
	t := k.tail(c.ID)
	t.Wake()
	k.same("woken before", 0, len(k.entries(k.reading(k.ctx, t, store.Position{ID: c.ID}))))
	r := k.reading(k.ctx, t, store.Position{ID: c.ID})
	t.Wake()
	k.same("woken during", 0, len(k.entries(r)))
	k.stream(c, 0, "1")
	k.same("logs afterwards", 1, len(k.entries(k.reading(k.ctx, t, store.Position{ID: c.ID}))))
}

func tailClose(k *kit) {
	c := k.start()
	t := k.tail(c.ID)
	r := k.reading(k.ctx, t, store.Position{ID: c.ID})
	k.ok(t.Close())
	k.same("entries", 0, len(k.result(r).entries))
}

func tailContext(k *kit) {
	c := k.start()
	ctx, cancel := context.WithCancel(k.ctx)
	r := k.reading(ctx, k.tail(c.ID), store.Position{ID: c.ID})
	cancel()
	k.same("entries", 0, len(k.result(r).entries))
}

func tailEnd(k *kit) {
	c := k.start()
	k.watch(c.ID)
	r := k.reading(k.ctx, k.tail(c.ID), store.Position{ID: c.ID})
	c = k.do(k.read(c.ID).Control, complete(k, c))
	got := k.entries(r)
	k.same("entries", []store.Entries{{ID: c.ID, Entries: k.log(c.ID)}}, got)
	k.same("kind", execution.EntryEnd, got[0].Entries[0].Kind)
}
