package faultkit

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Clock is the wall clock of a server that was started with its environment:
//
//	clock := faultkit.NewClock(t)
//	server := redistest.Private(t, redistest.Options{Env: clock.Env()})
//
// It begins as the machine's. The server's monotonic clock is left alone, as it is when an operator sets the time.
type Clock struct {
	t       testing.TB
	library string
	file    string

	mu     sync.Mutex // guards the following
	offset time.Duration
}

// NewClock makes a clock. The test fails, with the remedy, where libfaketime is not installed.
func NewClock(tb testing.TB) *Clock {
	tb.Helper()
	c := &Clock{t: tb, library: libfaketime(tb), file: filepath.Join(tb.TempDir(), "offset")}
	c.Step(0)
	return c
}

// libfaketime is where the library lies.
func libfaketime(tb testing.TB) string {
	tb.Helper()
	for _, pattern := range []string{"/usr/lib/*/faketime/", "/usr/lib/faketime/", "/usr/lib64/faketime/", "/usr/local/lib/faketime/"} {
		if found, _ := filepath.Glob(pattern + "libfaketimeMT.so.1"); len(found) > 0 {
			return found[0]
		}
	}
	tb.Fatal("stepping a server's clock needs libfaketime, on Linux.\nInstall it: apt-get install faketime")
	return ""
}

// Env is the environment of a server that goes by the clock.
//
// A jemalloc that asks for the time as it starts and a libfaketime that allocates as it starts wait for each other for ever,
// so the server gets the C library's own allocator; the loader passes over it where there is none.
func (c *Clock) Env() []string {
	return []string{
		"LD_PRELOAD=libc_malloc_debug.so.0:" + c.library, "FAKETIME_TIMESTAMP_FILE=" + c.file,
		"FAKETIME_NO_CACHE=1", "DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_FAKE_MONOTONIC=1",
	}
}

// Step sets the clock forward, or back where by is negative. It holds when Step returns.
func (c *Clock) Step(by time.Duration) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += by
	text := fmt.Sprintf("%+.3f\n", c.offset.Seconds())
	next := c.file + ".next"
	err := os.WriteFile(next, []byte(text), 0o600)
	if err == nil {
		err = os.Rename(next, c.file) // the server reads it at any moment
	}
	if err != nil {
		c.t.Fatalf("step the clock: %v", err)
	}
}
