package redis

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// bound is the most executions that one run of a script handles.
const bound = 100

// Read implements [store.Store].
func (s *Store) Read(ctx context.Context, r store.ReadRequest) (store.Record, error) {
	partition, err := s.locate(r.ID)
	if err != nil {
		return store.Record{}, err
	}
	limit := 0
	switch {
	case r.LogNewest:
		limit = -1
	case r.Log:
		limit = r.LogLimit
	}
	var head packer
	head.array(8).text(r.ID).flag(r.Scope.All).text(r.Scope.Owner).flag(r.Watch).flag(r.Input).number(int64(limit)).text(r.LogFrom.String()).number(int64(r.History))
	v, err := s.run(ctx, s.scripts.read, partition, head.bytes())
	if err != nil {
		return store.Record{}, err
	}
	rec, err := decodeRecord(v)
	if err != nil {
		return rec, err
	}
	items, _ := v.([]any)
	more := &reader{items: items, at: 3}
	rec.Log = more.log()
	rec.Input = more.expanded()
	if r.History > 0 {
		rec.History = more.history(rec.Control, r.History)
	}
	return rec, more.fault()
}

// Controls implements [store.Store].
func (s *Store) Controls(ctx context.Context, ids []string) ([]execution.Control, error) {
	out := make([]execution.Control, len(ids))
	var calls []call
	var places [][]int // of each call's ids in out
	for p, at := range s.byPartition(ids) {
		for part := range slices.Chunk(at, bound) {
			args := make([]any, len(part))
			for i, place := range part {
				args[i] = ids[place]
			}
			calls = append(calls, call{script: s.scripts.controls, anchor: s.keys.anchor(p), args: args})
			places = append(places, part)
		}
	}
	for i, id := range ids {
		out[i].ID = id
	}
	if len(calls) == 0 {
		return out, s.usable(ctx)
	}
	for i, rep := range s.exchange(ctx, calls...) {
		if rep.err != nil {
			return nil, rep.err
		}
		r := read(rep.value)
		for _, place := range places[i] {
			if c, err := decodeControl(r.text()); err == nil {
				out[place] = c
			}
		}
		if r.err != nil {
			return nil, r.fault()
		}
	}
	return out, nil
}

// byPartition sorts ids into partitions, by their place. What can't be an id is in none.
func (s *Store) byPartition(ids []string) [][]int {
	places := make([][]int, s.config.Partitions)
	for i, id := range ids {
		if p, ok := s.PartitionOf(id); ok {
			places[p] = append(places[p], i)
		}
	}
	return places
}

// Counts implements [store.Store].
func (s *Store) Counts(ctx context.Context) (store.Counts, error) {
	calls := make([]call, s.config.Partitions)
	for p := range calls {
		calls[p] = call{script: s.scripts.counts, anchor: s.keys.anchor(p)}
	}
	var out store.Counts
	byName := map[string]store.RevisionCount{}
	refusal := ""
	for _, rep := range s.exchange(ctx, calls...) {
		if rep.err != nil {
			return store.Counts{}, rep.err
		}
		r := readPacked(rep.value)
		out.Now = max(out.Now, r.instant())
		out.Leases += r.number()
		out.Malformed += r.number()
		refusal = cmp.Or(refusal, r.text())
		for rows := r.list(); rows.more(); {
			addCount(byName, rows.list())
		}
		if r.err != nil {
			return store.Counts{}, r.fault()
		}
	}
	s.room(refusal)
	for _, c := range byName {
		out.Revisions = append(out.Revisions, c)
	}
	slices.SortFunc(out.Revisions, func(a, b store.RevisionCount) int {
		return cmp.Or(cmp.Compare(a.Deployment, b.Deployment), cmp.Compare(a.Revision.Revision, b.Revision.Revision))
	})
	return out, nil
}

// addCount adds what one partition holds of a revision.
func addCount(byName map[string]store.RevisionCount, row *reader) {
	name := row.text()
	c := byName[name]
	c.Deployment, c.Revision.Revision, _ = strings.Cut(name, "@")
	c.Nonterminal += row.number()
	c.Ready += row.number()
	c.Delayed += row.number()
	c.Waiting += row.number()
	if oldest := row.number(); oldest != 0 && (c.OldestReady == 0 || oldest < c.OldestReady) {
		c.OldestReady = oldest
	}
	c.ServedAt = max(c.ServedAt, row.number())
	byName[name] = c
}
