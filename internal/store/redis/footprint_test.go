package redis_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// TestFootprint holds the memory of executions against what they may take.
func TestFootprint(t *testing.T) {
	t.Parallel()
	const n = 4000
	for name, test := range map[string]struct {
		key      bool
		finished bool
		labels   func(i int) execution.Labels
		most     int64 // bytes each
	}{
		"queued":              {most: 1843},
		"queued with a key":   {key: true, most: 1843 + 358},
		"finished":            {finished: true, most: 2560},
		"queued with a label": {labels: func(int) execution.Labels { return "team=search" }, most: 1440 + 154},
		"queued with a label of its own": {labels: func(i int) execution.Labels { return execution.Labels(fmt.Sprintf("order=%d", 100_000+i)) },
			most: 1440 + 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Private(t, redistest.Options{})
			k := openKit(t, redis.Config{URL: server.URL()})
			k.prefix, k.server = "windrow", server
			k.complete(k.start()) // scripts and what every namespace has
			before := k.usedMemory()
			for i := range n {
				k.fill(i, test.key, test.finished, test.labels)
			}
			each := (k.usedMemory() - before) / n
			t.Logf("%d bytes each", each)
			if each > test.most {
				t.Errorf("%d bytes each, at most %d", each, test.most)
			}
		})
	}
}

// fill adds one execution with 512 bytes of input and an owner, and a result of as much.
func (k *kit) fill(i int, key, finished bool, labels func(i int) execution.Labels) {
	k.Helper()
	sub := k.submission()
	sub.Owner, sub.Input = "tenant-1234", bytes.Repeat([]byte("i"), 512)
	if finished {
		sub.Actor = "key:ABCDEFGHIJKL"
	}
	if labels != nil {
		sub.Labels = labels(i)
	}
	if key {
		sub.Key = store.Key{Owner: sub.Owner, Deployment: sub.Deployment, Value: strconv.Itoa(i)}
	}
	_, err := k.store.Submit(k.Context(), sub)
	k.ok(err)
	if !finished {
		return
	}
	ask := k.request(1)
	ask.Worker = "ABCDEFGHIJKLMNOPQRSTUVWXYZ" // as long as a process's random name, which the history keeps
	polled, err := k.store.Poll(k.Context(), ask)
	k.ok(err)
	c := polled.Claimed[0].Control
	k.do(c, execution.Complete{Owned: k.owned(c), Result: bytes.Repeat([]byte("r"), 512)})
}

func (k *kit) usedMemory() int64 {
	k.Helper()
	info, err := k.server.Client().InfoMap(k.Context(), "memory").Result()
	k.ok(err)
	n, err := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
	k.ok(err)
	return n
}

// A control stays in the compact encoding through its whole life, whatever the owner's name, which reads back unchanged.
func TestControlsStaySmall(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	client := redistest.Client(t)
	compact := func(id string) {
		t.Helper()
		if got := client.ObjectEncoding(t.Context(), k.key("c:"+id)).Val(); got != "listpack" && got != "ziplist" {
			t.Errorf("the control is stored as %s", got)
		}
	}
	for _, owner := range []string{"", "o", strings.Repeat("o", 64), strings.Repeat("ö", 33), strings.Repeat("\x00", 5000)} {
		sub := k.submission()
		sub.Owner, sub.Key = owner, store.Key{Owner: owner, Deployment: "story", Value: "k"}
		_, err := k.store.Submit(t.Context(), sub)
		k.ok(err)
		compact(sub.ID)
		c := k.poll(1).Claimed[0].Control
		if c.Owner != owner {
			t.Errorf("owner of %d bytes reads as %d bytes", len(owner), len(c.Owner))
		}
		c = k.do(c, execution.Report{Owned: k.owned(c, k.event("x"))})
		compact(sub.ID)
		c = k.suspend(c)
		compact(sub.ID)
		r, err := k.store.Cancel(t.Context(), c.ID, store.Scope{Owner: owner}, "enough")
		k.ok(err)
		compact(sub.ID)
		if r.Control.Owner != owner {
			t.Errorf("owner of %d bytes ends as %d bytes", len(owner), len(r.Control.Owner))
		}
	}
}

// Fences at the edge of what a double holds are kept exactly, and nothing goes beyond.
func TestLargestFence(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	c := k.start()
	k.do(c, execution.Release{Owned: k.owned(c)})
	k.field(c.ID, "f", strconv.Itoa(execution.MaxInteger-1))
	c = k.poll(1).Claimed[0].Control
	if c.Fence != execution.MaxInteger {
		t.Errorf("fence %d, want %d", c.Fence, execution.MaxInteger)
	}
	out := k.stream(c, chunks(1, 0, "a"))
	k.ok(out.Err)
	c = k.do(c, execution.Release{Owned: k.owned(c)})
	if c.Fence != execution.MaxInteger {
		t.Errorf("fence %d, want %d", c.Fence, execution.MaxInteger)
	}
	if n := len(k.poll(1).Claimed); n != 0 {
		t.Errorf("%d were claimed past the largest fence", n)
	}
}

// listing are the indexes for those who look for executions. None goes by itself.
var listing = regexp.MustCompile(`^(all|of:|owner:|label:|status:)`)

// Every key of an ended execution goes by itself in the end; every key goes with maintenance; no key of an unfinished one
// ever does.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	s, clock := standing(t, 1, store.Limits{TerminalTTL: time.Hour, StreamTTL: time.Minute})
	k := &kit{T: t, store: s, prefix: clock.prefix, rev: store.Revision{Deployment: "story", Revision: "r1"}}
	client := redistest.Client(t)
	sub := k.submission()
	sub.Owner, sub.Labels = strings.Repeat("o", 100), "order=1\nteam=search"
	sub.Key = store.Key{Owner: sub.Owner, Deployment: "story", Value: "k"}
	_, err := s.Submit(t.Context(), sub)
	k.ok(err)
	c := k.poll(1).Claimed[0].Control
	k.stream(c, chunks(1, 0, "a"))
	c = k.suspend(k.do(c, execution.Report{Owned: k.owned(c, k.event("x"))}))
	_, err = s.Resume(t.Context(), store.ResumeRequest{ID: c.ID, Scope: store.Scope{All: true}, Answer: []byte("1"), Checked: c.WaitSequence, Key: "k"})
	k.ok(err)
	c = k.poll(1).Claimed[0].Control
	for _, name := range k.keys(redistest.Keys(t, k.prefix+":{0}:*")) {
		if ttl := client.PTTL(t.Context(), k.prefix+":{0}:"+name).Val(); ttl > 0 && !strings.HasPrefix(name, "batch:") {
			t.Errorf("%s of a running execution ends in %v", name, ttl)
		}
	}
	_, err = s.Cancel(t.Context(), c.ID, store.Scope{All: true, By: strings.Repeat("b", 64)}, "enough")
	k.ok(err)
	k.complete(c)
	if n := client.LLen(t.Context(), k.key("h:"+c.ID)).Val(); n == 0 {
		t.Error("the history has no list of its own")
	}
	for _, name := range k.keys(redistest.Keys(t, k.prefix+":{0}:*")) {
		ttl, root := client.PTTL(t.Context(), k.prefix+":{0}:"+name).Val(), slices.Contains([]string{"retention", "served", "workers", "lease", "clock"}, name) ||
			listing.MatchString(name)
		if (ttl > 0) == root {
			t.Errorf("%s ends in %v", name, ttl)
		}
		if strings.HasPrefix(name, "l:") && ttl > time.Minute {
			t.Errorf("the log ends in %v", ttl)
		}
	}
	clock.advance(time.Hour)
	m, err := s.Maintain(t.Context(), 10)
	k.ok(err)
	if m.Removed != 1 {
		t.Errorf("maintained %+v", m)
	}
	for _, name := range k.keys(redistest.Keys(t, k.prefix+":{0}:*")) {
		if name != "served" && name != "workers" && name != "clock" && (name != "stamp" || client.PTTL(t.Context(), k.key(name)).Val() <= 0) {
			t.Errorf("%s is left", name)
		}
	}
}

// keys are names without what all have.
func (k *kit) keys(full []string) []string {
	for i, name := range full {
		full[i] = strings.TrimPrefix(name, k.prefix+":{0}:")
	}
	return full
}

// A page of a hundred and more executions is claimed, beaten, read and recovered by several scripts, none of which does more
// than a hundred.
func TestMoreThanOneScriptMayDo(t *testing.T) {
	t.Parallel()
	k, clock := standingKit(t)
	const n = 250
	for range n {
		k.submit()
	}
	var claimed []store.Claimed
	for len(claimed) < n {
		p := k.poll(n)
		if len(p.Claimed) > 100 || p.More != (len(claimed)+len(p.Claimed) < n) {
			t.Fatalf("%d were claimed after %d, more: %t", len(p.Claimed), len(claimed), p.More)
		}
		claimed = append(claimed, p.Claimed...)
	}
	beats, ids := make([]store.Beat, n), make([]string, n)
	for i, c := range claimed {
		ids[i] = c.Control.ID
		beats[i] = store.Beat{ID: ids[i], Ownership: owner(c.Control), Chunks: chunks(1, 0, fmt.Sprint(i))}
	}
	beaten, err := k.store.Beat(t.Context(), beats)
	k.ok(err)
	controls, err := k.store.Controls(t.Context(), ids)
	k.ok(err)
	for i := range beats {
		k.ok(beaten[i].Err)
		if controls[i].ID != ids[i] || controls[i].LogEpoch == "" {
			t.Fatalf("control %d is %+v", i, controls[i])
		}
	}
	clock.advance(lease)
	m, err := k.store.Maintain(t.Context(), 1000)
	k.ok(err)
	if m != (store.Maintained{Requeued: n}) {
		t.Errorf("maintained %+v", m)
	}
}
