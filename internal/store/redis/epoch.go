package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/execution"
)

// namespace is what the root tells.
type namespace struct {
	epoch, before int64 // before: as it stood there; 0: the root was created
	created       bool
}

// ran notes which run of a server answers.
func (i *inspection) ran(addr, run string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if run != "" {
		i.runs[addr] = run
	}
}

// attach compares the namespace with what this process was told, creates it where there is none, and counts a new epoch where
// other server runs answer. It sends the text of its script, which runs seldom, and is safe to repeat.
func (s *Store) attach(ctx context.Context, seen *inspection) error {
	runs, err := s.runsOf(ctx, seen)
	if err != nil {
		return err
	}
	v, err := s.client.Eval(ctx, s.scripts.attach.source, []string{s.keys.namespace()}, execution.SchemaVersion, s.config.Partitions,
		runs, s.standing.known()).Result()
	if err != nil {
		return translate(err)
	}
	r := read(v)
	schema, errSchema := strconv.Atoi(r.text())
	partitions, errPartitions := strconv.Atoi(r.text())
	seen.root = namespace{epoch: r.number(), before: r.number(), created: r.flag()}
	switch {
	case r.err != nil || errSchema != nil || errPartitions != nil:
		return corrupt(fmt.Errorf("namespace %s can't be read", s.keys.namespace()))
	case schema > execution.SchemaVersion:
		seen.addf(conditionNamespace, true, "namespace %q is of storage schema %d and this release knows %d: run a newer release, "+
			"or use another key prefix with --key-prefix (WINDROW_KEY_PREFIX)", s.config.Prefix, schema, execution.SchemaVersion)
	case partitions != s.config.Partitions:
		seen.addf(conditionNamespace, true, "namespace %q was created with %d partitions and the setting says %d: set --partitions "+
			"(WINDROW_PARTITIONS) to %d, or use another key prefix with --key-prefix (WINDROW_KEY_PREFIX)",
			s.config.Prefix, partitions, s.config.Partitions, partitions)
	}
	return nil
}

// runsOf names the server runs that hold a partition, the same way whichever partition each of them holds; empty where one of
// them is not told.
func (s *Store) runsOf(ctx context.Context, seen *inspection) (string, error) {
	runs := map[string]bool{}
	for p := range s.config.Partitions {
		o, err := s.nodeOptions(ctx, s.keys.anchor(p))
		if err != nil {
			return "", err
		}
		run := seen.runs[o.Addr]
		if run == "" {
			return "", nil
		}
		runs[run] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(runs)), " "), nil
}

// countLocked notes a new epoch.
func (st *standing) countLocked(root namespace) {
	known := st.epoch
	if known == 0 {
		known = root.before
	}
	st.epoch = root.epoch
	now := time.Now().UTC().Format(time.RFC3339)
	switch {
	case root.epoch == known || known == 0:
	case root.created:
		st.store.conditions.hold(conditionDataLost, fmt.Sprintf("The namespace in Redis was empty at %s and was created anew, "+
			"in epoch %d after %d: everything that was stored before is gone", now, root.epoch, known), false)
	default:
		st.store.conditions.hold(conditionRestarted, fmt.Sprintf("Redis was restarted or replaced, which was noticed at %s: the namespace "+
			"is in epoch %d after %d. Work that it had not yet written to disk, or to its replica, may be gone", now, root.epoch, known), false)
	}
}

// known is the epoch that this process knows; 0: none.
func (st *standing) known() int64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.epoch
}

// stamps are what maintenance last left in each partition, to see whether a server came back without its newest writes.
type stamps struct {
	mu   sync.Mutex    // guards the following
	last map[int]int64 // milliseconds of Redis TIME, by partition; none: nothing is known
}

func (s *stamps) of(partition int) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[partition]
}

func (s *stamps) set(partition int, to int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[partition] = to
}

// window is a time whose writes are gone, in milliseconds of Redis TIME.
type window struct{ from, until int64 }

// stamped takes in the stamp that a partition held, against the one that was known before. An older one, or none, is that of a
// server that came back with older data, or was emptied.
func (w *window) stamped(held, known int64) {
	if held >= known {
		return
	}
	if w.until == 0 || held < w.from {
		w.from = held
	}
	w.until = max(w.until, known)
}

// lost tells of a loss that stamps showed. Where executions may be evicted, so may be a stamp: its absence proves nothing.
func (s *Store) lost(w window) {
	if w.until == 0 || w.from == 0 && s.config.AllowEviction {
		return
	}
	s.standing.doubt()
	until := time.UnixMilli(w.until).UTC().Format(time.RFC3339)
	if w.from == 0 {
		s.conditions.hold(conditionDataLost, "Redis was emptied: what was stored until "+until+" is gone", false)
		return
	}
	s.conditions.hold(conditionDataLost, fmt.Sprintf("Redis came back with older data: what was stored between %s and %s is gone, "+
		"and maybe what came right after", time.UnixMilli(w.from).UTC().Format(time.RFC3339), until), false)
}

// suspicious reports whether an error may mean that another server answers next.
func suspicious(err error) bool {
	var said goredis.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, goredis.ErrPoolTimeout), errors.Is(err, goredis.ErrClosed):
		return false
	case !errors.As(err, &said):
		return execution.Is(err, execution.CodeUnavailable)
	}
	for word := range strings.FieldsSeq(said.Error()) {
		switch strings.Trim(word, "-:") {
		case "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "MOVED", "ASK":
			return true
		}
	}
	return false
}
