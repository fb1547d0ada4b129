package redis

import (
	"context"
	"fmt"
	"slices"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// How lua/beat.lua is to append chunks.
const (
	appendNone = iota
	appendChunks
	appendUnlessThere
)

// Beat implements [store.Store].
func (s *Store) Beat(ctx context.Context, beats []store.Beat) ([]store.Beaten, error) {
	out := make([]store.Beaten, len(beats))
	ids := make([]string, len(beats))
	for i, b := range beats {
		ids[i] = b.ID
		out[i].Err = lost("the execution is gone")
	}
	var calls []call
	var places [][]int // of each call's beats
	for p, at := range s.byPartition(ids) {
		for part := range slices.Chunk(at, bound) {
			calls = append(calls, call{script: s.scripts.beat, anchor: s.keys.anchor(p), args: s.packBeats(beats, part)})
			places = append(places, part)
		}
	}
	if len(calls) == 0 {
		return out, s.usable(ctx)
	}
	var failure error
	for i, rep := range s.exchange(ctx, calls...) {
		err := rep.err
		if err == nil {
			err = s.beaten(beats, out, places[i], calls[i].args[1:], rep.value)
		}
		if err != nil {
			failure = err
			s.forgetAll(beats, places[i])
		}
	}
	if failure != nil {
		return nil, failure
	}
	return out, nil
}

// forgetAll drops what is known of logs after an unknown outcome.
func (s *Store) forgetAll(beats []store.Beat, places []int) {
	for _, at := range places {
		s.history.forget(beats[at].ID)
	}
}

// packBeats packs the beats at the places, with their chunks behind.
func (s *Store) packBeats(beats []store.Beat, places []int) []any {
	var head packer
	head.array(len(places))
	args := []any{nil}
	for _, at := range places {
		b := beats[at]
		mode, trim := appendNone, ""
		if streams(b) {
			mode, trim = appendChunks, s.history.trim(b.ID, b.Fence, len(b.Chunks.Chunks), b.Chunks.Size())
			if b.Repeat {
				mode, trim = appendUnlessThere, "?"
			}
			args = append(args, s.encode(*b.Chunks))
		}
		head.array(8).text(b.ID).text(b.Worker).text(b.Token).number(b.Fence).number(b.Margin.Milliseconds())
		head.number(millis(b.Lease)).number(int64(mode)).text(trim)
	}
	args[0] = head.bytes()
	return args
}

// encode is the batch as it stands in a log.
func (s *Store) encode(b execution.ChunkBatch) []byte {
	if s.config.Compress {
		return compressBatch(b.Encode())
	}
	return b.Encode()
}

// streams reports whether chunks go with the beat.
func streams(b store.Beat) bool { return b.Chunks != nil && len(b.Chunks.Chunks) > 0 }

// beaten reads the replies to the beats at the places. data is what went along: the batches of those that stream.
func (s *Store) beaten(beats []store.Beat, out []store.Beaten, places []int, data []any, v any) error {
	r := readPacked(v)
	now := r.instant()
	for _, at := range places {
		var batch []byte
		if streams(beats[at]) {
			batch, _ = data[0].([]byte)
			data = data[1:]
		}
		one := r.list()
		out[at] = s.beatenOne(beats[at], batch, one, now)
		r.failed(one)
	}
	return r.fault()
}

func (s *Store) beatenOne(b store.Beat, batch []byte, r *reader, now execution.Instant) store.Beaten {
	outcome := r.text()
	switch outcome {
	case "lost":
		s.history.forget(b.ID)
		return store.Beaten{Err: lost("the execution is owned by another attempt, or the lease has run out"), Now: now}
	case "malformed":
		return store.Beaten{Err: corrupt(fmt.Errorf("control of %s", b.ID)), Now: now}
	}
	out := store.Beaten{Version: r.number(), LeaseUntil: r.number(), Canceled: r.flag(), Now: now}
	if outcome == "log" {
		out.Err = corrupt(fmt.Errorf("event log of %s", b.ID))
		return out
	}
	if !r.more() {
		return out
	}
	entry, held := r.logID(), r.list()
	s.remember(b, entry, held)
	r.failed(held)
	out.Log = []execution.Entry{expandEntry(execution.Entry{ID: entry, Kind: execution.EntryChunks, Data: batch})}
	return out
}

// remember keeps up with what the log holds.
func (s *Store) remember(b store.Beat, entry execution.LogID, held *reader) {
	if !held.more() {
		s.history.appended(b.ID, b.Fence, weight{entry, len(b.Chunks.Chunks), b.Chunks.Size()})
		return
	}
	var entries []weight
	for held.more() {
		e := held.list()
		entries = append(entries, weight{e.logID(), int(e.number()), int(e.number())})
		held.failed(e)
	}
	slices.Reverse(entries) // the script tells of the newest first
	s.history.learned(b.ID, b.Fence, entries)
}
