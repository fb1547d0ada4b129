package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

func partitioned(t *testing.T, n int) *kit {
	t.Helper()
	return openKit(t, redis.Config{URL: redistest.URL(t), Prefix: redistest.Prefix(t), Partitions: n})
}

// spread submits n executions to each partition in turn.
func (k *kit) spread(n int) map[string]bool {
	k.Helper()
	ids := map[string]bool{}
	held := make([]int, k.store.Partitions())
	for len(ids) < n*len(held) {
		sub := k.submission()
		p, _ := k.store.PartitionOf(sub.ID)
		if held[p] == n {
			continue
		}
		held[p]++
		_, err := k.store.Submit(k.Context(), sub)
		k.ok(err)
		ids[sub.ID] = true
	}
	return ids
}

// A poll takes exactly as much as it asks for, from wherever there is some, and everything in the end.
func TestPollOverPartitions(t *testing.T) {
	t.Parallel()
	k := partitioned(t, 4)
	ids := k.spread(5)
	for _, count := range []int{1, 1, 3, 5, 10} {
		p := k.poll(count)
		want := min(count, len(ids))
		if len(p.Claimed) != want {
			t.Fatalf("%d were claimed, want %d", len(p.Claimed), want)
		}
		for _, c := range p.Claimed {
			if !ids[c.Control.ID] {
				t.Errorf("%s was claimed twice or never submitted", c.Control.ID)
			}
			delete(ids, c.Control.ID)
		}
	}
	if p := k.poll(5); len(ids) != 0 || len(p.Claimed) != 0 {
		t.Errorf("%d are left, %d were claimed", len(ids), len(p.Claimed))
	}
}

// All work in one partition is found by a poll that asks for less than there are partitions.
func TestPollFindsTheOnePartition(t *testing.T) {
	t.Parallel()
	k := partitioned(t, 8)
	for range 20 {
		k.submit()
		if n := len(k.poll(1).Claimed); n != 1 {
			t.Fatalf("%d were claimed, want 1", n)
		}
	}
}

// A repeated poll hands out what the first one did, in whichever rounds that was, and nothing more.
func TestRepeatedPollOverPartitions(t *testing.T) {
	t.Parallel()
	k := partitioned(t, 4)
	k.spread(1)
	request := k.request(3)
	first, err := k.store.Poll(t.Context(), request)
	k.ok(err)
	k.spread(2)
	again, err := k.store.Poll(t.Context(), request)
	k.ok(err)
	batch := map[string]int64{}
	for _, c := range first.Claimed {
		batch[c.Control.ID] = c.Control.Fence
	}
	if len(batch) != 3 || len(again.Claimed) != 3 {
		t.Fatalf("%d were claimed, then %d, want 3", len(batch), len(again.Claimed))
	}
	for _, c := range again.Claimed {
		if batch[c.Control.ID] != c.Control.Fence {
			t.Errorf("%s was handed out anew", c.Control.ID)
		}
	}
}

// The ceiling holds over all partitions, and a submission without a key finds the place that is left nearly always: it tries
// four partitions of four.
func TestCeilingOverPartitions(t *testing.T) {
	t.Parallel()
	k := partitioned(t, 4)
	admitted := map[string]bool{}
	for range 50 {
		sub := k.submission()
		sub.MaxNonterminal = 10
		out, err := k.store.Submit(t.Context(), sub)
		if err == nil {
			if out.Record.Control.ID[1:] != sub.ID[1:] {
				t.Errorf("%s was admitted as %s", sub.ID, out.Record.Control.ID)
			}
			admitted[out.Record.Control.ID] = true
			continue
		}
		k.refused(err, execution.CodeCapacity)
	}
	if len(admitted) != 10 || k.nonterminal() != 10 {
		t.Errorf("%d were admitted, %d are unfinished, want 10", len(admitted), k.nonterminal())
	}
	for id := range admitted {
		if got := k.read(id).Control.ID; got != id {
			t.Errorf("%s reads as %s", id, got)
		}
	}
}

// A submission whose reply was lost in the second partition that it tried is found there, though the first has room again.
func TestLostReplyElsewhere(t *testing.T) {
	t.Parallel()
	p := &proxy{}
	k := openKit(t, p.between(redis.Config{URL: redistest.URL(t), Prefix: redistest.Prefix(t), Partitions: 2}))
	k.ok(k.store.TellScripts(t.Context()))
	first := k.submission()
	home, _ := k.store.PartitionOf(first.ID)
	first.MaxNonterminal = 2
	_, err := k.store.Submit(t.Context(), first)
	k.ok(err)

	sub := k.submission()
	for at, _ := k.store.PartitionOf(sub.ID); at != home; at, _ = k.store.PartitionOf(sub.ID) {
		sub = k.submission()
	}
	sub.MaxNonterminal = 2
	p.skip.Store(1) // the refusal of the first partition arrives
	p.lose.Store(true)
	_, err = k.store.Submit(t.Context(), sub)
	k.refused(err, execution.CodeUnavailable)
	_, err = k.store.Cancel(t.Context(), first.ID, store.Scope{All: true}, "")
	k.ok(err)
	out, err := k.store.Submit(t.Context(), sub)
	k.ok(err)
	if at, _ := k.store.PartitionOf(out.Record.Control.ID); at == home || !out.Replayed || k.nonterminal() != 1 {
		t.Errorf("%+v in partition %d, %d unfinished", out, at, k.nonterminal())
	}
}

// Binding and execution lie in the partition of the key.
func TestKeysOverPartitions(t *testing.T) {
	t.Parallel()
	k := partitioned(t, 8)
	for value := range strings.SplitSeq("a b c d e f g h", " ") {
		key := store.Key{Owner: "o", Deployment: "story", Value: value, Fingerprint: [32]byte{1}}
		var ids [2]string
		for i := range ids {
			sub := k.submission()
			sub.Key, sub.ID = key, k.store.NewID(key)
			out, err := k.store.Submit(t.Context(), sub)
			k.ok(err)
			ids[i] = out.Record.Control.ID
		}
		found, err := k.store.FindKey(t.Context(), key)
		k.ok(err)
		if ids[0] != ids[1] || found.Record.Control.ID != ids[0] {
			t.Errorf("key %s leads to %v and %s", value, ids, found.Record.Control.ID)
		}
	}
}

// Beats, batch reads, maintenance, counts and the doorbell reach all partitions.
func TestAllPartitionsAreReached(t *testing.T) {
	t.Parallel()
	s, clock := standing(t, 5, store.Limits{TerminalTTL: time.Hour})
	k := &kit{T: t, store: s, rev: store.Revision{Deployment: "story", Revision: "r1"}}
	k.spread(2)
	claimed := k.poll(10).Claimed
	var beats []store.Beat
	ids := []string{"nonsense"}
	for _, c := range claimed {
		beats = append(beats, store.Beat{ID: c.Control.ID, Ownership: owner(c.Control), Lease: lease, Chunks: chunks(1, 0, c.Control.ID)})
		ids = append(ids, c.Control.ID)
	}
	beaten, err := s.Beat(t.Context(), append(beats, store.Beat{ID: "nonsense"}))
	k.ok(err)
	k.refused(beaten[10].Err, execution.CodeLeaseLost)
	controls, err := s.Controls(t.Context(), ids)
	k.ok(err)
	for i, id := range ids[1:] {
		k.ok(beaten[i].Err)
		if c := controls[i+1]; c.ID != id || c.Status != execution.Running || c.WatchedUntil == 0 {
			t.Errorf("%s reads as %+v", id, c)
		}
		if log := k.read(id).Log; len(log) != 1 || !strings.HasSuffix(string(log[0].Data), id) {
			t.Errorf("log of %s is %v", id, log)
		}
	}
	if controls[0] != (execution.Control{ID: "nonsense"}) {
		t.Errorf("nonsense reads as %+v", controls[0])
	}
	clock.advance(lease)
	for _, want := range []store.Maintained{{Requeued: 7, More: true}, {Requeued: 3}, {}} {
		got, err := s.Maintain(t.Context(), 7)
		k.ok(err)
		if got != want {
			t.Errorf("maintained %+v, want %+v", got, want)
		}
	}
	counts, err := s.Counts(t.Context())
	k.ok(err)
	if len(counts.Revisions) != 1 || counts.Revisions[0].Ready != 10 || counts.Revisions[0].Nonterminal != 10 || counts.Leases != 0 {
		t.Errorf("counts %+v", counts)
	}
}

// A solitary poll hands out one execution, whichever partition it is in, and a repeat the same one.
func TestSolitaryOverPartitions(t *testing.T) {
	t.Parallel()
	s, clock := standing(t, 4, store.Limits{})
	k := &kit{T: t, store: s, rev: store.Revision{Deployment: "story", Revision: "r1"}}
	ids := k.spread(3)
	for range 2 {
		if n := len(k.poll(len(ids)).Claimed); n != len(ids) {
			t.Fatalf("%d were claimed, want %d", n, len(ids))
		}
		clock.advance(lease)
		m, err := s.Maintain(t.Context(), 100)
		k.ok(err)
		if m.Requeued != len(ids) {
			t.Fatalf("%+v, want %d requeued", m, len(ids))
		}
	}
	poll := func(r store.PollRequest) []store.Claimed {
		t.Helper()
		p, err := s.Poll(t.Context(), r)
		k.ok(err)
		return p.Claimed
	}
	for len(ids) > 0 {
		if p := k.poll(20); len(p.Claimed) != 0 || !p.Held {
			t.Fatalf("%d were claimed beside others, held: %v", len(p.Claimed), p.Held)
		}
		r := k.request(1)
		r.Solitary = true
		first, again := poll(r), poll(r)
		if diff := cmp.Diff(first, again); diff != "" || len(first) != 1 || !ids[first[0].Control.ID] {
			t.Fatalf("%d were claimed; the repeat (-first +again):\n%s", len(first), diff)
		}
		delete(ids, first[0].Control.ID)
	}
	r := k.request(1)
	r.Solitary = true
	if n := len(poll(r)); n != 0 || k.poll(20).Held {
		t.Errorf("%d were claimed when none was left", n)
	}
}

// A repeat of a solitary poll does not begin where the first try found nothing and there is something by now.
func TestSolitaryRepeatOverPartitions(t *testing.T) {
	t.Parallel()
	s, clock := standing(t, 2, store.Limits{})
	k := &kit{T: t, store: s, rev: store.Revision{Deployment: "story", Revision: "r1"}}
	held := func(partition int) string {
		t.Helper()
		sub := k.submission()
		for p := -1; p != partition; p, _ = s.PartitionOf(sub.ID) {
			sub.ID = s.NewID(store.Key{})
		}
		_, err := s.Submit(t.Context(), sub)
		k.ok(err)
		for range 2 {
			k.poll(9)
			clock.advance(lease)
			_, err := s.Maintain(t.Context(), 100)
			k.ok(err)
		}
		return sub.ID
	}
	for range 8 { // whichever partition the token begins with
		one := held(1)
		r := k.request(1)
		r.Worker, r.Solitary = "alone", true
		r.Revisions[0].Lease = time.Hour
		first, err := s.Poll(t.Context(), r)
		k.ok(err)
		zero := held(0)
		again, err := s.Poll(t.Context(), r)
		k.ok(err)
		if diff := cmp.Diff(first.Claimed, again.Claimed); diff != "" || len(first.Claimed) != 1 || first.Claimed[0].Control.ID != one {
			t.Fatalf("%d were claimed; the repeat (-first +again):\n%s", len(first.Claimed), diff)
		}
		k.complete(first.Claimed[0].Control)
		r.Token = k.token()
		next, err := s.Poll(t.Context(), r)
		k.ok(err)
		if len(next.Claimed) != 1 || next.Claimed[0].Control.ID != zero {
			t.Fatalf("%d were claimed, want the other one", len(next.Claimed))
		}
		k.complete(next.Claimed[0].Control)
	}
}
