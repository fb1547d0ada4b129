//go:build !race

package strictjson

// Counts of allocations. The race detector empties pools at random, so they are held without it.

import (
	"strings"
	"testing"
)

// A document that is compact already is passed on as it is.
func TestBudgetCompactInput(t *testing.T) {
	raw := []byte(`{"a":[1,2,{"b":"c d"}],"e":"` + strings.Repeat("x", 10_000) + `"}`)
	allocs := testing.AllocsPerRun(100, func() {
		out, err := Compact(raw, Limits{})
		if err != nil || &out[0] != &raw[0] {
			t.Fatal("compact input was copied or refused")
		}
	})
	if allocs > 1 {
		t.Errorf("%v allocations, want at most 1", allocs)
	}
}

// A document with white space costs the copy and nothing more.
func TestBudgetCompactCopy(t *testing.T) {
	raw := []byte(`{ "a" : [ 1, 2, { "b" : "c d" } ] }`)
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := Compact(raw, Limits{}); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 2 {
		t.Errorf("%v allocations, want at most 2", allocs)
	}
}

// What an idempotency key is bound to costs no memory.
func TestBudgetFingerprint(t *testing.T) {
	raw := []byte(`{"a":[1,2,{"b":"c d"}],"e":"` + strings.Repeat("x", 10_000) + `"}`)
	allocs := testing.AllocsPerRun(100, func() {
		if Fingerprint(raw) == [32]byte{} {
			t.Fatal("it is zero")
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
}

func BenchmarkFingerprint(b *testing.B) {
	raw := []byte(`{"e":"` + strings.Repeat("x", 512) + `"}`)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		Fingerprint(raw)
	}
}
