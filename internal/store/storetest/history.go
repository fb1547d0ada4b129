package storetest

import (
	"fmt"
	"strings"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func historyTests() []test {
	return []test{
		{name: "the newest chunks are kept", run: historyChunks, limits: store.Limits{HistoryChunks: 5}},
		{name: "the newest bytes are kept", run: historyBytes, limits: store.Limits{HistoryBytes: 100}},
		{name: "one batch over the bounds is kept whole", run: historyWhole, limits: store.Limits{HistoryChunks: 2, HistoryBytes: 10}},
		{name: "an entry without chunks counts as one", run: historyMixed, limits: store.Limits{HistoryChunks: 3}},
		{name: "entries without chunks are bounded too", run: historyReports, limits: store.Limits{HistoryChunks: 5}},
		{name: "of many reports at once the newest are kept", run: historyBurst, limits: store.Limits{HistoryChunks: 5, ProgressEvents: 3}},
		{name: "trimming leaves epoch and numbering alone", run: historyNumbering, limits: store.Limits{HistoryChunks: 1}},
	}
}

// firsts lists the number of the first chunk of each batch in the log.
func (k *kit) firsts(id string) []int64 {
	k.Helper()
	var out []int64
	for _, e := range k.log(id) {
		if e.Kind != execution.EntryChunks {
			continue
		}
		b, err := execution.DecodeChunkBatch(e.Data)
		k.ok(err)
		out = append(out, b.First)
	}
	return out
}

func historyChunks(k *kit) {
	c := k.start()
	for i := range int64(6) {
		k.stream(c, 2*i, "1", "2")
		// An entry goes as soon as the rest holds five chunks: three batches of two do.
		k.same("kept", max(0, 2*(i-2)), k.firsts(c.ID)[0])
	}
	k.stream(c, 12, "1")
	k.same("kept", []int64{8, 10, 12}, k.firsts(c.ID))
}

func historyBytes(k *kit) {
	c := k.start()
	for i := range int64(6) {
		k.stream(c, i, strings.Repeat("x", 30))
		k.same("kept", max(0, i-3), k.firsts(c.ID)[0]) // four of thirty bytes make a hundred
	}
	k.stream(c, 6, strings.Repeat("x", 99))
	k.same("kept", []int64{5, 6}, k.firsts(c.ID))
	k.stream(c, 7, "x")
	k.same("kept", []int64{6, 7}, k.firsts(c.ID))
}

func historyWhole(k *kit) {
	c := k.start()
	k.stream(c, 0, "1")
	k.stream(c, 1, "1", "2", "3", "4")
	k.same("kept", []int64{1}, k.firsts(c.ID))
	k.stream(c, 5, strings.Repeat("x", 50))
	k.same("kept", []int64{5}, k.firsts(c.ID))
}

func historyMixed(k *kit) {
	c := k.start()
	k.stream(c, 0, "1")
	c = k.do(k.read(c.ID).Control, execution.Report{Owned: k.owned(c, event("a"), event("b"))})
	k.stream(c, 1, "1")
	k.same("kept", []int64{1}, k.firsts(c.ID))
	k.same("entries", 3, len(k.log(c.ID)))
	k.stream(c, 2, "1")
	k.same("entries", 3, len(k.log(c.ID)))
	k.stream(c, 3, "1", "1", "1")
	k.same("entries", 1, len(k.log(c.ID)))
	k.same("progress", 2, len(k.read(c.ID).Progress)) // the stored list has its own bound
}

func historyNumbering(k *kit) {
	c := k.start()
	var last execution.LogID
	for i := range int64(4) {
		k.stream(c, i, fmt.Sprint(i))
		log := k.log(c.ID)
		k.same("entries", 1, len(log))
		if !last.Less(log[0].ID) {
			k.Fatalf("id %v after %v", log[0].ID, last)
		}
		last = log[0].ID
	}
	k.same("epoch", execution.NewLogEpoch(k.now()), k.read(c.ID).Control.LogEpoch)
}

func historyReports(k *kit) {
	c := k.start()
	for range 4 {
		c = k.do(c, execution.Report{Owned: k.owned(c, event("a"), event("b"))})
	}
	k.same("entries", 5, len(k.log(c.ID)))
	k.stream(c, 0, "1", "2", "3")
	k.same("entries", 3, len(k.log(c.ID)))
	k.stream(c, 3, "1")
	k.same("kept", []int64{0, 3}, k.firsts(c.ID))
	for range 3 {
		k.do(c, execution.Suspend{Owned: k.owned(c), Wait: k.wait(execution.Wait{})})
		k.resume(k.read(c.ID).Control, "1")
		c = k.claim().Control
	}
	log := k.log(c.ID)
	k.same("entries", 5, len(log))
	last, err := execution.DecodeStatusEntry(log[4].Data)
	k.ok(err)
	k.same("the newest", execution.StatusEntry{Status: execution.Running, Attempt: 4, Version: c.Version}, last)
}

func historyBurst(k *kit) {
	c := k.start()
	var events []execution.Event
	for i := range 12 {
		events = append(events, event(fmt.Sprint(i)))
	}
	c = k.do(c, execution.Report{Owned: k.owned(c, events...)})
	var want []string
	for _, e := range k.log(c.ID) {
		want = append(want, string(e.Data))
	}
	k.same("entries", 5, len(want))
	k.same("the newest entry", string(k.rendered(events[11], 12)), want[4])
	var progress []string
	for _, p := range k.read(c.ID).Progress {
		progress = append(progress, string(p))
	}
	k.same("progress", want[2:], progress)
	k.stream(c, 0, "1")
	k.same("entries", 5, len(k.log(c.ID)))
	k.stream(c, 1, "1", "2", "3", "4")
	k.same("kept", []int64{0, 1}, k.firsts(c.ID))
}
