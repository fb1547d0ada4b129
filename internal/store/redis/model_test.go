package redis_test

import (
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/memory"
	"github.com/windrow-run/windrow/internal/store/storetest"
)

// TestModel holds the store against the memory store, command by command.
func TestModel(t *testing.T) {
	t.Parallel()
	storetest.Model(t, func(tb testing.TB, limits store.Limits) storetest.Env {
		tb.Helper()
		now := execution.InstantOf(time.Now())
		s := memory.New(memory.Config{Limits: limits, Clock: func() execution.Instant { return now }})
		tb.Cleanup(func() { _ = s.Close() })
		return storetest.Env{Store: s, Advance: func(d time.Duration) { now += execution.Instant(d.Microseconds()) }}
	}, func(tb testing.TB, limits store.Limits) storetest.Env {
		tb.Helper()
		s, clock := standing(tb, 1, limits)
		return storetest.Env{Store: s, Advance: clock.advance}
	})
}
