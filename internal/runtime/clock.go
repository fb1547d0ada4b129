package runtime

import (
	"sync"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
)

// clock tells the store's time, as known from its last reply plus the time that has passed here since. It lags by the time
// that the reply took and never runs ahead, so what falls due is never looked for too early.
type clock struct {
	mu      sync.Mutex // guards the following
	replied execution.Instant
	at      time.Time
}

func newClock() *clock {
	now := time.Now()
	return &clock{replied: execution.InstantOf(now), at: now}
}

// learn takes the store's time out of a reply that has just arrived.
func (c *clock) learn(now execution.Instant) {
	if now == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replied, c.at = now, time.Now()
}

func (c *clock) now() execution.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replied + execution.Instant(time.Since(c.at).Microseconds())
}

// until is how long it takes until ms, milliseconds by the store's clock; not below 0.
func (c *clock) until(ms int64) time.Duration {
	return max(time.Duration(ms*1000-int64(c.now()))*time.Microsecond, 0)
}
