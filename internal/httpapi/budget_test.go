//go:build !race

package httpapi

// Counts of allocations. The race detector changes them, so they are held without it.

import (
	"bytes"
	"testing"

	"github.com/windrow-run/windrow/internal/stream"
)

// frameOf is what all viewers of a chunk are sent.
func frameOf(t testing.TB, c *stream.Chunk) {
	if frame := render(c); !bytes.HasSuffix(frame, []byte("}\n\n")) {
		t.Fatalf("%s", frame)
	}
}

func chunkOf(size int) *stream.Chunk {
	return &stream.Chunk{Attempt: 1, Payload: append(append([]byte{'"'}, bytes.Repeat([]byte("x"), size-2)...), '"')}
}

// A chunk is made into a frame once, however many see it, and grows nothing on the way. Not parallel: it counts allocations.
func TestBudgetFrame(t *testing.T) {
	for _, size := range []int{16, 240, 60_000} {
		c := chunkOf(size)
		if got := testing.AllocsPerRun(100, func() { frameOf(t, c) }); got > 3 {
			t.Errorf("%d bytes: %.0f allocations, at most 3", size, got)
		}
	}
}

func BenchmarkFrame(b *testing.B) {
	c := chunkOf(240)
	b.ReportAllocs()
	for b.Loop() {
		frameOf(b, c)
	}
}
