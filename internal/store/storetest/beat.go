package storetest

import (
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func beatTests() []test {
	return []test{
		{name: "a beat moves the deadline and nothing else", run: beatRenews},
		{name: "replies stand in the order of the beats", run: beatMany},
		{name: "a beat without a lease only appends", run: beatNoLease},
		{name: "a beat tells of a cancel", run: beatCanceled},
		{name: "nothing but the holder's chunks is appended", run: beatOwner},
		{name: "chunks come back byte for byte", run: beatChunks},
		{name: "a repeated batch is appended once", run: beatRepeat},
		{name: "a batch that was lost before it arrived is appended by its repeat", run: beatRepeatLost},
		{name: "no beats is no work", run: beatNone},
	}
}

func beatRenews(k *kit) {
	c := k.start()
	k.Advance(time.Second)
	out := k.beat(store.Beat{ID: c.ID, Ownership: ownership(c), Lease: time.Minute})
	want := c
	want.LeaseUntil = k.now().Millis() + 60_000
	k.same("reply", []store.Beaten{{Version: c.Version, LeaseUntil: want.LeaseUntil, Now: k.now()}}, out)
	k.shows("record", store.Record{Control: want, Now: k.now()}, k.read(c.ID))
	k.do(want, complete(k, want))
}

func beatMany(k *kit) {
	var beats []store.Beat
	var want []store.Beaten
	for i := range 7 {
		c := k.start()
		o := ownership(c)
		b := store.Beaten{Version: c.Version, LeaseUntil: k.now().Millis() + 60_000, Now: k.now()}
		if i%3 == 1 {
			o.Fence--
			b = store.Beaten{Now: k.now()}
		}
		beats, want = append(beats, store.Beat{ID: c.ID, Ownership: o, Lease: time.Minute}), append(want, b)
	}
	out := k.beat(beats...)
	for i := range out {
		if lost := execution.Is(out[i].Err, execution.CodeLeaseLost); lost != (i%3 == 1) {
			k.Fatalf("beat %d: %v", i, out[i].Err)
		}
		out[i].Err = nil
	}
	k.same("replies", want, out)
}

func beatNoLease(k *kit) {
	c := k.start()
	k.Advance(time.Second)
	out := k.stream(c, 0, `"a"`)
	k.same("reply", store.Beaten{Version: c.Version, LeaseUntil: c.LeaseUntil, Log: k.log(c.ID), Now: k.now()}, out)
	want := c
	want.LogEpoch = execution.NewLogEpoch(k.now())
	k.same("control", want, k.read(c.ID).Control)
	k.Advance(lease - time.Second)
	k.same("maintained", store.Maintained{Requeued: 1}, k.maintain())
}

func beatCanceled(k *kit) {
	c := k.start()
	c = k.cancel(c.ID).Control
	out := k.beat(store.Beat{ID: c.ID, Ownership: ownership(c), Lease: lease, Chunks: batch(c, 0, "1")})
	k.same("reply", []store.Beaten{{Version: c.Version, LeaseUntil: c.LeaseUntil, Canceled: true, Log: k.log(c.ID), Now: k.now()}}, out)
	k.same("entries", 1, len(k.log(c.ID)))
}

func beatOwner(k *kit) {
	c := k.start()
	k.do(c, execution.Release{Owned: k.owned(c)})
	gone := store.Beat{ID: k.Store.NewID(store.Key{}), Ownership: ownership(c), Lease: lease, Chunks: batch(c, 0, "1")}
	mine := gone
	mine.ID = c.ID
	for _, out := range k.beat(gone, mine) {
		k.refused(out.Err, execution.CodeLeaseLost)
	}
	k.same("log", 0, len(k.log(c.ID)))
	k.gone(gone.ID)
}

func beatChunks(k *kit) {
	c := k.start()
	chunks := []string{`"\u0000\n"`, `{}`, `[]`, `-0`, "\"\u2028\"", `1e400`}
	k.stream(c, 0, chunks...)
	k.Advance(time.Second)
	last := k.stream(c, 6, `"last"`)
	log := k.log(c.ID)
	k.same("told", log[1:], last.Log)
	k.same("log", []execution.Entry{
		{ID: log[0].ID, Kind: execution.EntryChunks, Data: batch(c, 0, chunks...).Encode()},
		{ID: log[1].ID, Kind: execution.EntryChunks, Data: batch(c, 6, `"last"`).Encode()},
	}, log)
}

func beatRepeat(k *kit) {
	c := k.start()
	b := store.Beat{ID: c.ID, Ownership: ownership(c), Lease: lease, Chunks: batch(c, 0, "1", "2")}
	first := k.beat(b)
	b.Repeat = true
	k.same("reply", first, k.beat(b))
	b.Chunks, b.Repeat = batch(c, 2, "3"), false
	k.beat(b)
	b.Chunks = batch(c, 3, "4")
	k.beat(b)
	b.Repeat = true
	k.beat(b)
	b.Chunks = batch(c, 2, "3")
	k.beat(b)
	var got [][]byte
	for _, e := range k.log(c.ID) {
		got = append(got, e.Data)
	}
	k.same("log", [][]byte{batch(c, 0, "1", "2").Encode(), batch(c, 2, "3").Encode(), batch(c, 3, "4").Encode()}, got)
}

func beatRepeatLost(k *kit) {
	c := k.start()
	k.stream(c, 0, "1")
	k.do(k.read(c.ID).Control, execution.Report{Owned: k.owned(c, event("a"))})
	b := store.Beat{ID: c.ID, Ownership: ownership(c), Lease: lease, Chunks: batch(c, 1, "1"), Repeat: true}
	k.ok(k.beat(b)[0].Err)
	k.ok(k.beat(b)[0].Err)
	// The next attempt numbers its chunks from the start, and the same bytes are a batch of its own.
	k.do(k.read(c.ID).Control, execution.Release{Owned: k.owned(c)})
	c = k.claim().Control
	b = store.Beat{ID: c.ID, Ownership: ownership(c), Chunks: batch(c, 0, "1"), Repeat: true}
	k.ok(k.beat(b)[0].Err)
	var kinds []execution.EntryKind
	for _, e := range k.log(c.ID) {
		kinds = append(kinds, e.Kind)
	}
	k.same("log", []execution.EntryKind{execution.EntryChunks, execution.EntryProgress, execution.EntryChunks,
		execution.EntryStatus, execution.EntryStatus, execution.EntryChunks}, kinds)
}

func beatNone(k *kit) {
	out, err := k.Store.Beat(k.ctx, nil)
	k.ok(err)
	k.same("replies", 0, len(out))
}
