package redis_test

import (
	"testing"

	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/storetest"
)

// TestStore holds the store against the contract, by a clock that the suite moves.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(tb testing.TB, limits store.Limits) storetest.Env {
		tb.Helper()
		s, clock := standing(tb, 1, limits)
		return storetest.Env{Store: s, Advance: clock.advance}
	})
}

// TestStoreOverPartitions does so with several partitions, which on a cluster lie on several masters.
func TestStoreOverPartitions(t *testing.T) {
	t.Parallel()
	storetest.RunOverPartitions(t, func(tb testing.TB, limits store.Limits) storetest.Env {
		tb.Helper()
		s, clock := standing(tb, 3, limits)
		return storetest.Env{Store: s, Advance: clock.advance}
	})
}
