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
