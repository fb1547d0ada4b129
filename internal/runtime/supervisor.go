package runtime

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// steadyAfter is how long a loop must have run for its earlier failures to be forgotten.
const steadyAfter = time.Minute

// loop is one supervised background component.
type loop struct {
	name    string
	log     *slog.Logger
	metrics Metrics
	outages *outages // of the store, over all loops
	backoff backoff
	run     func(ctx context.Context) error

	running  atomic.Bool
	restarts atomic.Int64
	streak   atomic.Int64 // failed exchanges in a row, as the component counts them
}

// supervise runs the component until ctx ends. One that returns an error, or panics, is started again after a delay.
func (l *loop) supervise(ctx context.Context) {
	defer l.outages.rests(l.name)
	for failures := 1; ; failures++ {
		began := time.Now()
		err := l.attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > steadyAfter {
			failures = 1
		}
		l.restarts.Add(1)
		l.metrics.LoopRestarted(l.name)
		delay := l.backoff.delay(failures)
		l.log.Error("a loop stopped and is started again", "loop", l.name, "delay", delay, "error", err)
		if !sleep(ctx, delay) {
			return
		}
	}
}

func (l *loop) attempt(ctx context.Context) (err error) {
	l.running.Store(true)
	defer l.running.Store(false)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return l.run(ctx)
}

// failed counts a failed exchange and returns the delay before the next one.
func (l *loop) failed(err error) time.Duration {
	streak := int(l.streak.Add(1))
	l.log.Debug("an exchange failed", "loop", l.name, "streak", streak, "error", err)
	l.outages.failed(l.name, streak, err)
	return l.backoff.delay(streak)
}

// rests ends a streak since the component wants nothing of the store any more: whether it answers is for others to tell.
func (l *loop) rests() {
	l.streak.Store(0)
	l.outages.rests(l.name)
}

// succeeded ends a streak.
func (l *loop) succeeded() {
	l.streak.Store(0)
	l.outages.succeeded(l.name)
}
