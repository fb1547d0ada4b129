package memory_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/memory"
	"github.com/windrow-run/windrow/internal/store/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, newEnv)
}

// newEnv is a store whose clock stands still until it is advanced.
func newEnv(t testing.TB, limits store.Limits) storetest.Env {
	var now atomic.Int64
	now.Store(int64(execution.InstantOf(time.Date(2026, 5, 1, 12, 0, 0, 123_456_000, time.UTC))))
	s := memory.New(memory.Config{Limits: limits, Clock: func() execution.Instant { return execution.Instant(now.Load()) }})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return storetest.Env{Store: s, Advance: func(d time.Duration) { now.Add(d.Microseconds()) }}
}

// The store against itself: what the model says of it must at least not depend on chance.
func TestModel(t *testing.T) {
	t.Parallel()
	storetest.Model(t, newEnv, newEnv)
}

// What clients see of the store at once has an order.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	storetest.Linearizable(t, newEnv)
}
