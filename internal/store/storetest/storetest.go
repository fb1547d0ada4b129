// Package storetest is what every store has to pass: a conformance suite ([Run]), a model test that drives two stores side
// by side ([Model]), a search for an order of what clients saw at once ([Linearizable]), and a checker of what must always
// hold ([Checker]). Only tests import it.
package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/store"
)

// Env is a fresh store that shares nothing with any other.
type Env struct {
	Store store.Store
	// Advance moves the store's clock, back where d is negative. Between two calls the clock stands still, and every
	// deadline of the store is by this clock, also where what it keeps expires by itself; only [store.Tail.Read] waits by
	// the real one.
	Advance func(d time.Duration)
}

// Factory makes an Env, with one partition but for [RunOverPartitions], and the given limits, and sees to it that it is closed when the test ends.
type Factory func(t testing.TB, limits store.Limits) Env

// Run holds a store against its contract.
func Run(t *testing.T, f Factory) {
	hold(t, f, themes())
}

// RunOverPartitions holds a store with several partitions against what its contract promises whatever their number. Ceilings,
// keys, tails, doorbells and turns are of a partition, and left to the store's own tests.
func RunOverPartitions(t *testing.T, f Factory) {
	hold(t, f, slices.DeleteFunc(themes(), func(th theme) bool {
		return slices.Contains([]string{"Capacity", "Keys", "Tail", "Doorbell", "Solitary", "Displace"}, th.name)
	}))
}

// theme is some promises of the contract that belong together.
type theme struct {
	name  string
	tests []test
}

func themes() []theme {
	return []theme{
		{"Submit", submitTests()},
		{"Keys", keyTests()},
		{"Expiry", expiryTests()},
		{"Capacity", capacityTests()},
		{"Poll", pollTests()},
		{"Order", orderTests()},
		{"Transitions", transitionTests()},
		{"Cancel", cancelTests()},
		{"Resume", resumeTests()},
		{"Waits", waitTests()},
		{"Retry", retryTests()},
		{"Recover", recoverTests()},
		{"Solitary", solitaryTests()},
		{"Budgets", budgetTests()},
		{"Beat", beatTests()},
		{"History", historyTests()},
		{"Logs", logTests()},
		{"Told", toldTests()},
		{"Tail", tailTests()},
		{"Doorbell", doorbellTests()},
		{"Retention", retentionTests()},
		{"Counts", countTests()},
		{"List", listTests()},
		{"Displace", displaceTests()},
		{"Erase", eraseTests()},
		{"Repeats", repeatTests()},
		{"Concurrency", concurrencyTests()},
		{"Borders", borderTests()},
	}
}

func hold(t *testing.T, f Factory, themes []theme) {
	for _, theme := range themes {
		t.Run(theme.name, func(t *testing.T) {
			t.Parallel()
			for _, test := range theme.tests {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					test.run(newKit(t, f(t, test.limits), test.limits))
				})
			}
		})
	}
}

// test is one promise of the contract.
type test struct {
	name   string
	run    func(k *kit)
	limits store.Limits
}
