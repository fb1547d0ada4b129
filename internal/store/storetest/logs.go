package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func logTests() []test {
	return []test{
		{name: "nobody watches, nothing streams: there is no log", run: logNone},
		{name: "a watched execution leaves its changes of status", run: logWatched},
		{name: "being watched ends unless it is renewed", run: logUnwatched},
		{name: "watching is no business transition", run: logWatchQuiet},
		{name: "progress begins a log, then status follows", run: logProgress},
		{name: "chunks begin a log, then the end follows", run: logChunks},
		{name: "a wait stands in its status entry", run: logWait},
		{name: "recovery and expiry leave their status", run: logMaintained},
		{name: "a cancel of running work leaves nothing until it ends", run: logCancel},
		{name: "the epoch stays for good", run: logEpoch},
		{name: "ids grow also when the clock steps back", run: logIDs},
		{name: "a page begins at its entry and is bounded", run: logPage},
		{name: "the log goes before its execution", run: logDropped, limits: store.Limits{StreamTTL: time.Minute, TerminalTTL: time.Hour}},
	}
}

// logged holds a whole log, but for its ids, against what is wanted, and sees that the ids grow.
func (k *kit) logged(id string, want ...execution.Entry) {
	k.Helper()
	got := k.log(id)
	k.same("log", want, got, cmpopts.IgnoreFields(execution.Entry{}, "ID"))
	for i := 1; i < len(got); i++ {
		if !got[i-1].ID.Less(got[i].ID) {
			k.Fatalf("id %v after %v", got[i].ID, got[i-1].ID)
		}
	}
}

func statusEntry(c execution.Control, wait ...byte) execution.Entry {
	e := execution.StatusEntry{Status: c.Status, Attempt: c.Attempt, Version: c.Version,
		AvailableAt: c.AvailableAt, WaitUntil: c.WaitUntil, Wait: wait}
	kind := execution.EntryStatus
	if c.Status.Terminal() {
		kind = execution.EntryEnd
	}
	return execution.Entry{Kind: kind, Data: e.Encode()}
}

func unwatched() cmp.Option { return cmpopts.IgnoreFields(execution.Control{}, "WatchedUntil") }

func logNone(k *kit) {
	c := k.start()
	c = k.do(c, execution.Checkpoint{Owned: k.owned(c), Data: []byte("1"), Lease: lease})
	c = k.do(c, complete(k, c))
	k.logged(c.ID)
	k.same("epoch", "", c.LogEpoch)
}

func logWatched(k *kit) {
	id := k.submit().ID
	k.watch(id)
	c := k.claim().Control
	want := []execution.Entry{statusEntry(c)}
	k.same("epoch", execution.NewLogEpoch(k.now()), c.LogEpoch)
	k.Advance(time.Second)
	c = k.do(c, execution.Checkpoint{Owned: k.owned(c), Data: []byte("1"), Lease: lease})
	c = k.do(c, execution.Retry{Owned: k.owned(c), Delay: time.Minute, Error: broken})
	want = append(want, statusEntry(c))
	k.Advance(time.Minute)
	c = k.claim().Control
	want = append(want, statusEntry(c))
	c = k.do(c, complete(k, c))
	k.logged(id, append(want, statusEntry(c))...)
}

func logUnwatched(k *kit) {
	c := k.submit()
	k.watch(c.ID)
	k.Advance(40 * time.Second)
	controls, err := k.Store.Controls(k.ctx, []string{c.ID})
	k.ok(err)
	k.same("controls", []execution.Control{c}, controls, unwatched())
	k.Advance(40 * time.Second) // the mark was renewed
	c = k.claim().Control
	k.logged(c.ID, statusEntry(c))
	other := k.submit()
	k.watch(other.ID)
	k.Advance(time.Minute)
	other = k.claim().Control
	k.logged(other.ID)
	k.same("epoch", "", other.LogEpoch)
}

func logWatchQuiet(k *kit) {
	c := k.start()
	k.Advance(time.Second)
	k.watch(c.ID)
	k.same("control", c, k.read(c.ID).Control, unwatched())
	k.do(k.read(c.ID).Control, complete(k, c))
	r := k.read(c.ID)
	k.watch(c.ID)
	k.same("record", r, k.read(c.ID), unwatched())
}

func logProgress(k *kit) {
	c := k.start()
	c = k.do(c, execution.Report{Owned: k.owned(c, event("a"))})
	a := execution.Entry{Kind: execution.EntryProgress, Data: k.rendered(event("a"), 1)}
	k.logged(c.ID, a)
	c = k.do(c, execution.Complete{Owned: k.owned(c, event("b")), Result: []byte("1")})
	b := execution.Entry{Kind: execution.EntryProgress, Data: k.rendered(event("b"), 2)}
	k.logged(c.ID, a, b, statusEntry(c))
}

func logChunks(k *kit) {
	c := k.start()
	k.stream(c, 0, "1", "2")
	k.Advance(time.Second)
	c = k.do(k.read(c.ID).Control, execution.Fail{Owned: k.owned(c), Error: broken})
	k.logged(c.ID, execution.Entry{Kind: execution.EntryChunks, Data: batch(c, 0, "1", "2").Encode()}, statusEntry(c))
}

func logWait(k *kit) {
	c := k.start()
	k.watch(c.ID)
	w := execution.Wait{Kind: "approval", Message: "Go\non?", Schema: []byte(`{"type":"boolean"}`)}
	c = k.suspend(k.read(c.ID).Control, time.Minute, w)
	want := []execution.Entry{statusEntry(c, k.wait(w)...)}
	k.logged(c.ID, want...)
	c = k.resume(c, "1").Record.Control
	want = append(want, statusEntry(c))
	c = k.claim().Control
	want = append(want, statusEntry(c))
	c = k.suspend(c, 0, execution.Wait{Kind: "two"})
	want = append(want, statusEntry(c, k.wait(execution.Wait{Kind: "two"})...))
	c = k.cancel(c.ID).Control
	k.logged(c.ID, append(want, statusEntry(c))...)
}

func logMaintained(k *kit) {
	c := k.start()
	k.stream(c, 0, "1")
	want := []execution.Entry{{Kind: execution.EntryChunks, Data: batch(c, 0, "1").Encode()}}
	k.Advance(lease)
	k.maintain()
	want = append(want, statusEntry(k.read(c.ID).Control))
	c = k.claim().Control
	want = append(want, statusEntry(c))
	c = k.suspend(c, time.Minute, execution.Wait{})
	want = append(want, statusEntry(c, k.wait(execution.Wait{})...))
	k.Advance(time.Minute)
	k.maintain()
	k.logged(c.ID, append(want, statusEntry(k.read(c.ID).Control))...)
}

func logCancel(k *kit) {
	c := k.start()
	k.watch(c.ID)
	k.cancel(c.ID)
	k.logged(c.ID)
	c = k.do(k.read(c.ID).Control, execution.Release{Owned: k.owned(c)})
	k.logged(c.ID, statusEntry(c))
}

func logEpoch(k *kit) {
	c := k.start()
	k.stream(c, 0, "1")
	epoch := execution.NewLogEpoch(k.now())
	for i := range int64(3) {
		k.Advance(time.Second)
		k.stream(c, i+1, "1")
		c = k.do(k.read(c.ID).Control, execution.Report{Owned: k.owned(c, event("a"))})
		k.same("epoch", epoch, c.LogEpoch)
	}
	c = k.do(c, complete(k, c))
	k.same("epoch", epoch, c.LogEpoch)
}

func logIDs(k *kit) {
	c := k.start()
	k.watch(c.ID)
	var last execution.LogID
	for i := range int64(5) {
		k.stream(c, i, "1")
		log := k.log(c.ID)
		id := log[len(log)-1].ID
		if !last.Less(id) {
			k.Fatalf("id %v after %v", id, last)
		}
		last = id
		k.Advance(-time.Second)
	}
}

func logPage(k *kit) {
	c := k.start()
	for i := range int64(5) {
		k.stream(c, i, "1")
		k.Advance(time.Millisecond)
	}
	log := k.log(c.ID)
	page := func(from execution.LogID, limit int, want []execution.Entry) {
		k.Helper()
		r, err := k.Store.Read(k.ctx, store.ReadRequest{ID: c.ID, Scope: everyone, Log: true, LogFrom: from, LogLimit: limit})
		k.ok(err)
		k.same("page", want, r.Log)
	}
	page(execution.LogID{}, 2, log[:2])
	page(log[1].ID, 2, log[1:3])
	page(log[3].ID, 9, log[3:])
	page(execution.LogID{Ms: log[1].ID.Ms, Seq: log[1].ID.Seq + 1}, 1, log[2:3])
	page(execution.LogID{Ms: log[4].ID.Ms, Seq: log[4].ID.Seq + 1}, 9, nil)
	newest, err := k.Store.Read(k.ctx, store.ReadRequest{ID: c.ID, Scope: everyone, LogNewest: true})
	k.ok(err)
	k.same("newest", log[4:], newest.Log)
	k.same("no log asked for", []execution.Entry(nil), k.read(c.ID).Log)
}

func logDropped(k *kit) {
	c := k.start()
	k.stream(c, 0, "1")
	k.Advance(10 * time.Second)
	c = k.do(k.read(c.ID).Control, complete(k, c))
	k.Advance(50 * time.Second)
	k.maintain()
	k.same("entries", 2, len(k.log(c.ID)))
	k.Advance(11 * time.Second)
	k.logged(c.ID)
	k.maintain()
	k.logged(c.ID)
	k.shows("record", store.Record{Control: c, Result: []byte(`"done"`), Now: k.now()}, k.read(c.ID))
}
