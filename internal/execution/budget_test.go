//go:build !race

package execution

// Allocations of what every execution passes through. The race detector changes them, so they are held without it.

import (
	"bytes"
	"testing"
)

// hotPath is something that happens for every execution or chunk, and how many allocations it may cost.
type hotPath struct {
	name string
	most float64
	run  func(t testing.TB)
}

func hotPaths() []hotPath {
	decide := func(c Control, cmd Command) func(testing.TB) {
		return func(t testing.TB) {
			p := mustDecide(t, c, cmd, late)
			if after := p.Apply(c, late); after.Version != c.Version+1 {
				t.Fatalf("version %d", after.Version)
			}
		}
	}
	running := at(Running, false)
	pairs := running.Record()
	batch := ChunkBatch{Attempt: 1, First: 10, Chunks: [][]byte{bytes.Repeat([]byte("x"), 240), bytes.Repeat([]byte("y"), 240),
		bytes.Repeat([]byte("z"), 240), bytes.Repeat([]byte("w"), 240)}}
	encoded := batch.Encode()
	return []hotPath{
		{"decide and apply a claim", 2, decide(at(Queued, false), Claim{Worker: "w2", Token: "t2", Lease: 1e9})},
		{"decide and apply a checkpoint", 5, decide(running, Checkpoint{Owned: owned(), Data: []byte("3"), Lease: 1e9})},
		{"decide and apply a completion", 7, decide(running, Complete{Owned: owned(), Result: []byte("4")})},
		{"encode a control", 4, func(t testing.TB) {
			if got := running.Record(); len(got) != len(pairs) {
				t.Fatal(got)
			}
		}},
		{"decode a control", 0, func(t testing.TB) {
			if c, err := ParseRecord("x", pairs); err != nil || c != running {
				t.Fatal(c, err)
			}
		}},
		{"encode a batch of chunks", 1, func(t testing.TB) {
			if got := batch.Encode(); len(got) != len(encoded) {
				t.Fatal(len(got))
			}
		}},
		{"decode a batch of chunks", 1, func(t testing.TB) {
			if b, err := DecodeChunkBatch(encoded); err != nil || len(b.Chunks) != 4 {
				t.Fatal(b, err)
			}
		}},
		{"write a cursor", 1, func(t testing.TB) {
			if (Cursor{Epoch: "1700000000000", Entry: LogID{Ms: 1_700_000_000_000, Seq: 3}, Chunk: 2}).String() == "" {
				t.Fatal("it is empty")
			}
		}},
	}
}

func TestBudgetHotPaths(t *testing.T) {
	for _, p := range hotPaths() {
		if got := testing.AllocsPerRun(200, func() { p.run(t) }); got > p.most {
			t.Errorf("%s: %.0f allocations, at most %.0f", p.name, got, p.most)
		}
	}
}

func BenchmarkHotPaths(b *testing.B) {
	for _, p := range hotPaths() {
		b.Run(p.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.run(b)
			}
		})
	}
}
