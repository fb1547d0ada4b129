package stream

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func id(n uint64) execution.LogID { return execution.LogID{Ms: n} }

// chunks is an entry with n numbered chunks.
func chunks(at uint64, attempt, first int64, n int) execution.Entry {
	b := execution.ChunkBatch{Attempt: attempt, First: first}
	for i := range n {
		b.Chunks = append(b.Chunks, fmt.Append(nil, first+int64(i)))
	}
	return execution.Entry{ID: id(at), Kind: execution.EntryChunks, Data: b.Encode()}
}

func status(at uint64, s execution.Status, attempt, version int64) execution.Entry {
	data := execution.StatusEntry{Status: s, Attempt: attempt, Version: version}.Encode()
	return execution.Entry{ID: id(at), Kind: execution.EntryStatus, Data: data}
}

func progress(at uint64) execution.Entry {
	return execution.Entry{ID: id(at), Kind: execution.EntryProgress, Data: []byte("{}")}
}

func entry(at uint64, kind execution.EntryKind, data string) execution.Entry {
	return execution.Entry{ID: id(at), Kind: kind, Data: []byte(data)}
}

// read is what a read from the position on would return of the log.
func read(epoch string, log []execution.Entry, from execution.LogID) store.Record {
	log = slices.DeleteFunc(slices.Clone(log), func(e execution.Entry) bool { return e.ID.Less(from) })
	return store.Record{Control: execution.Control{Status: execution.Running, Attempt: 2, Version: 9, LogEpoch: epoch}, Log: log}
}

// Where a viewer goes on, and which gaps it is told: everything from its cursor on, or a gap, then all that is kept.
func TestTrailFromCursor(t *testing.T) {
	t.Parallel()
	log := []execution.Entry{status(1, execution.Running, 1, 2), chunks(2, 1, 0, 3), progress(3), chunks(4, 1, 3, 2)}
	all := []string{"running 1", "1:0", "1:1", "1:2", "progress", "1:3", "1:4"}
	tests := []struct {
		name   string
		cursor string
		epoch  string
		log    []execution.Entry
		want   []string
	}{
		{"fresh", "", "7", log, all},
		{"fresh, no log yet", "", "", nil, nil},
		{"fresh, the log is gone", "", "7", nil, []string{"gap"}},
		{"fresh, the first chunks are gone", "", "7", log[3:], []string{"gap", "1:3", "1:4"}},
		{"fresh, the first chunks are gone but not their status", "", "7", []execution.Entry{log[0], log[3]}, []string{"running 1", "gap", "1:3", "1:4"}},
		{"fresh, an older attempt is gone", "", "7", []execution.Entry{chunks(5, 2, 0, 1)}, []string{"2:0"}},
		{"at the beginning of no log", "0-0-0-0", "7", log, all},
		{"at the beginning of no log, there is none yet", "0-0-0-0", "", nil, nil},
		{"at the beginning", "7-0-0-0", "7", log, all},
		{"at the beginning, trimmed since", "7-0-0-0", "7", log[3:], []string{"gap", "1:3", "1:4"}},
		{"at the beginning of another log", "6-0-0-0", "7", log, append([]string{"gap"}, all...)},
		{"after a status", "7-1-0-0", "7", log, all[1:]},
		{"inside an entry", "7-2-0-0", "7", log, all[2:]},
		{"inside an entry, before its last chunk", "7-2-0-1", "7", log, all[3:]},
		{"after an entry", "7-2-0-2", "7", log, all[4:]},
		{"after more chunks than the entry has", "7-2-0-10000", "7", log, all[4:]},
		{"after progress", "7-3-0-0", "7", log, all[5:]},
		{"at the end", "7-4-0-1", "7", log, nil},
		{"the entry was trimmed", "7-2-0-1", "7", log[2:], append([]string{"gap"}, all[4:]...)},
		{"the entry never was, others precede it", "7-3-5-0", "7", log, append([]string{"gap"}, all...)},
		{"another log", "6-2-0-1", "7", log, append([]string{"gap"}, all...)},
		{"the log is gone", "7-2-0-1", "7", nil, []string{"gap"}},
		{"there never was a log", "7-2-0-1", "", nil, []string{"gap"}},
		{"after an end that is none", "7-end", "7", log, append([]string{"gap"}, all...)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var c *execution.Cursor
			if tt.cursor != "" {
				parsed, err := execution.ParseCursor(tt.cursor)
				if err != nil {
					t.Fatal(err)
				}
				c = &parsed
			}
			trail := newTrail(c)
			got, again := trail.page(read(tt.epoch, tt.log, trail.pos))
			if again {
				more, again := trail.page(read(tt.epoch, tt.log, trail.pos))
				if again {
					t.Fatal("a page from the beginning has to be read again")
				}
				got = append(got, more...)
			}
			if diff := cmp.Diff(tt.want, render(got)); diff != "" {
				t.Fatalf("events (-want +got):\n%s", diff)
			}
			if more, again := trail.page(read(tt.epoch, tt.log, trail.pos)); len(more) > 0 || again {
				t.Fatalf("the same page once more tells %v, again %v", render(more), again)
			}
		})
	}
}

// What live entries tell, one after the other.
func TestTrailTake(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		log  []execution.Entry
		want []string
	}{
		{"chunks in order", []execution.Entry{chunks(1, 1, 0, 1), chunks(2, 1, 1, 1)}, []string{"1:0", "1:1"}},
		{"an entry twice", []execution.Entry{chunks(1, 1, 0, 1), chunks(1, 1, 0, 1)}, []string{"1:0"}},
		{"chunks missing", []execution.Entry{chunks(1, 1, 0, 1), chunks(2, 1, 5, 1)}, []string{"1:0", "gap", "1:5"}},
		{"a new attempt", []execution.Entry{chunks(1, 1, 0, 1), status(2, execution.Running, 2, 5), chunks(3, 2, 0, 1)},
			[]string{"1:0", "running 2", "2:0"}},
		{"a new attempt without its beginning", []execution.Entry{chunks(1, 1, 0, 1), status(2, execution.Running, 2, 5), chunks(3, 2, 4, 1)},
			[]string{"1:0", "running 2", "gap", "2:4"}},
		{"a new attempt that was not announced", []execution.Entry{chunks(1, 1, 0, 1), chunks(3, 2, 0, 1)}, []string{"1:0", "gap", "2:0"}},
		{"chunks of an attempt that is over", []execution.Entry{status(1, execution.Running, 2, 5), chunks(2, 1, 0, 1), chunks(3, 2, 0, 1)},
			[]string{"running 2", "2:0"}},
		{"a kind of a newer release", []execution.Entry{chunks(1, 1, 0, 1), entry(2, "?", "x"), chunks(3, 1, 1, 1)}, []string{"1:0", "1:1"}},
		{"garbled chunks", []execution.Entry{chunks(1, 1, 0, 1), entry(2, execution.EntryChunks, "x"), chunks(3, 1, 8, 1)}, []string{"1:0", "gap", "1:8"}},
		{"a garbled status", []execution.Entry{entry(1, execution.EntryStatus, "x"), progress(2)}, []string{"progress"}},
		{"after the end", []execution.Entry{chunks(1, 1, 0, 1), entry(2, execution.EntryEnd, ""), chunks(3, 1, 1, 1)}, []string{"1:0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			trail := trail{epoch: "7"}
			var got []Event
			for _, e := range tt.log {
				got = append(got, trail.take(e)...)
			}
			if diff := cmp.Diff(tt.want, render(got)); diff != "" {
				t.Fatalf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// At the end of the log the status of the control is told where the log did not show it.
func TestTrailSettle(t *testing.T) {
	t.Parallel()
	control := execution.Control{Status: execution.Waiting, Attempt: 1, Version: 5, LogEpoch: "7"}
	tests := []struct {
		name string
		log  []execution.Entry
		want string
	}{
		{"nothing was shown", nil, `waiting 1 {"w":1}`},
		{"an older status was shown", []execution.Entry{status(1, execution.Running, 1, 2)}, `waiting 1 {"w":1}`},
		{"it was shown", []execution.Entry{status(1, execution.Waiting, 1, 3)}, ""},
		{"a newer one was shown", []execution.Entry{status(1, execution.Queued, 1, 6)}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			trail := trail{loose: true}
			rec := store.Record{Control: control, Wait: []byte(`{"w":1}`), Log: tt.log}
			trail.page(rec)
			got := ""
			if s := trail.settle(rec); s != nil {
				got = line(s)
				if _, placed := s.Cursor(); placed {
					t.Error("it has a cursor, but no place in the log")
				}
			}
			if got != tt.want {
				t.Fatalf("told %q, want %q", got, tt.want)
			}
			if s := trail.settle(rec); s != nil {
				t.Fatalf("told twice: %q", line(s))
			}
		})
	}
}

// A status that the log does not show says nothing about the output before it.
func TestTrailSettleKeepsLoose(t *testing.T) {
	t.Parallel()
	c, err := execution.ParseCursor("7-3-0-0")
	if err != nil {
		t.Fatal(err)
	}
	trail := newTrail(&c)
	rec := read("7", []execution.Entry{progress(3)}, trail.pos)
	trail.page(rec)
	trail.settle(rec)
	if diff := cmp.Diff([]string{"2:57"}, render(trail.take(chunks(4, 2, 57, 1)))); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
}

// Cursors of one log strictly grow, whatever the events are.
func TestTrailCursorsGrow(t *testing.T) {
	t.Parallel()
	var trail trail
	events, _ := trail.page(read("7", []execution.Entry{status(1, execution.Running, 1, 2), chunks(2, 1, 0, 3), progress(3), chunks(4, 1, 3, 2)}, trail.pos))
	var last execution.Cursor
	for _, e := range events {
		c, ok := e.Cursor()
		grows := last.Entry.Less(c.Entry) || last.Entry == c.Entry && last.Chunk < c.Chunk
		if !ok || c.Epoch != "7" || !grows {
			t.Fatalf("%s has cursor %s after %s", line(e), c, last)
		}
		last = c
	}
}
