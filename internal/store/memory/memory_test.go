package memory_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// IDs have a fixed length, begin with the partition, and come from the given source of randomness.
func TestNewID(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Config{Rand: bytes.NewReader(append(make([]byte, 16), bytes.Repeat([]byte{255}, 16)...))})
	got := []string{s.NewID(store.Key{}), s.NewID(store.Key{Value: "k"})}
	want := []string{"00000000000000000000000", "07N42dgm5tFLK9N8MT7fHC7"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("ids (-want +got):\n%s", diff)
	}
	for _, id := range got {
		if p, ok := s.PartitionOf(id); p != 0 || !ok {
			t.Errorf("PartitionOf(%q) = %d, %v", id, p, ok)
		}
	}
	for _, text := range []string{"", "0", got[1][1:], got[1] + "0", "1" + got[1][1:], got[1][:22] + "-", got[1][:22] + "\x00"} {
		if _, ok := s.PartitionOf(text); ok {
			t.Errorf("PartitionOf(%q) takes it for an id", text)
		}
	}
}

// In a bubble the store needs no clock of its own: leases run out, and tails and doorbells wake, by virtual time.
func TestInBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := memory.New(memory.Config{})
		rev := store.Revision{Deployment: "d", Revision: "r"}
		rang := make(chan store.Revision, 8)
		listening := make(chan error)
		go func() { listening <- s.Listen(ctx, func(r store.Revision) { rang <- r }) }()
		if got := <-rang; got != (store.Revision{}) {
			t.Fatalf("first ring: %v", got)
		}
		submit(t, s, rev)
		if got := <-rang; got != rev {
			t.Fatalf("ring: %v", got)
		}
		want := []store.Want{{Revision: rev, Count: 1, Lease: 30 * time.Second}}
		if _, err := s.Poll(ctx, store.PollRequest{Worker: "w", Token: "t", Revisions: want}); err != nil {
			t.Fatal(err)
		}
		tail, err := s.Tail(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if got, err := tail.Read(ctx, nil, 31*time.Second); len(got) != 0 || err != nil {
			t.Fatalf("Read = %v, %v", got, err)
		}
		if waited := time.Since(began); waited != 31*time.Second {
			t.Fatalf("Read waited for %v", waited)
		}
		m, err := s.Maintain(ctx, 10)
		if diff := cmp.Diff(store.Maintained{Requeued: 1}, m); diff != "" || err != nil {
			t.Fatalf("Maintain: %v (-want +got):\n%s", err, diff)
		}
		if got := <-rang; got != rev {
			t.Fatalf("ring: %v", got)
		}
		cancel()
		if err := <-listening; err != nil {
			t.Fatalf("Listen: %v", err)
		}
	})
}

func submit(t *testing.T, s store.Store, rev store.Revision) execution.Control {
	t.Helper()
	r, err := s.Submit(t.Context(), store.Submission{Submit: execution.Submit{ID: s.NewID(store.Key{}), Deployment: rev.Deployment,
		Revision: rev.Revision, Budgets: execution.DefaultBudgets(), Input: []byte("{}")}})
	if err != nil {
		t.Fatal(err)
	}
	return r.Record.Control
}

// Log ids come from the clock, and count on where it stands still or steps back.
func TestLogIDs(t *testing.T) {
	t.Parallel()
	env := newEnv(t, store.Limits{})
	rev := store.Revision{Deployment: "d", Revision: "r"}
	id := submit(t, env.Store, rev).ID
	p := claim(t, env.Store, rev)
	began := uint64(p.Now.Millis())
	for i, d := range []time.Duration{0, -time.Second, 2 * time.Second} {
		env.Advance(d)
		c := p.Claimed[0].Control
		beat := store.Beat{ID: id, Ownership: execution.Ownership{Worker: c.Worker, Token: c.Token, Fence: c.Fence},
			Chunks: &execution.ChunkBatch{Attempt: 1, First: int64(i), Chunks: [][]byte{[]byte("1")}}}
		if out, err := env.Store.Beat(t.Context(), []store.Beat{beat}); err != nil || out[0].Err != nil {
			t.Fatal(err, out)
		}
	}
	r, err := env.Store.Read(t.Context(), store.ReadRequest{ID: id, Scope: store.Scope{All: true}, Log: true, LogLimit: 9})
	if err != nil {
		t.Fatal(err)
	}
	var got []execution.LogID
	for _, e := range r.Log {
		got = append(got, e.ID)
	}
	if diff := cmp.Diff([]execution.LogID{{Ms: began}, {Ms: began, Seq: 1}, {Ms: began + 1000}}, got); diff != "" {
		t.Fatalf("ids (-want +got):\n%s", diff)
	}
}

// The one that waits longest is claimed first.
func TestStrictOrder(t *testing.T) {
	t.Parallel()
	env := newEnv(t, store.Limits{})
	rev := store.Revision{Deployment: "d", Revision: "r"}
	var want, got []string
	for range 5 {
		want = append(want, submit(t, env.Store, rev).ID)
		env.Advance(time.Millisecond)
	}
	for range want {
		got = append(got, claim(t, env.Store, rev).Claimed[0].Control.ID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("order (-want +got):\n%s", diff)
	}
}

// claim takes one execution that is due.
func claim(t *testing.T, s store.Store, rev store.Revision) store.Polled {
	t.Helper()
	p, err := s.Poll(t.Context(), store.PollRequest{Worker: "w", Token: s.NewID(store.Key{}),
		Revisions: []store.Want{{Revision: rev, Count: 1, Lease: time.Hour}}})
	if err != nil || len(p.Claimed) != 1 {
		t.Fatalf("claimed %d: %v", len(p.Claimed), err)
	}
	return p
}
