package faultstore_test

import (
	"sync"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
)

// clock stands still until it is advanced.
type clock struct {
	mu  sync.Mutex // guards now
	now execution.Instant
}

func (c *clock) read() execution.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += execution.Instant(d.Microseconds())
}
