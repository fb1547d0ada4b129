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
	backoff backoff
	run     func(ctx context.Context) error

	running  atomic.Bool
	restarts atomic.Int64
	streak   atomic.Int64 // failed exchanges in a row, as the component counts them
}

// supervise runs the component until ctx ends. One that returns an error, or panics, is started again after a delay.
func (l *loop) supervise(ctx context.Context) {
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
	streak := l.streak.Add(1)
	level := slog.LevelWarn
	if streak > 1 {
		level = slog.LevelDebug // one line an outage
	}
	l.log.Log(context.Background(), level, "the store did not answer", "loop", l.name, "streak", streak, "error", err)
	return l.backoff.delay(int(streak))
}

// rests ends a streak since the component wants nothing of the store any more: whether it answers is for others to tell.
func (l *loop) rests() { l.streak.Store(0) }

// succeeded ends a streak.
func (l *loop) succeeded() {
	if n := l.streak.Swap(0); n > 0 {
		l.log.Info("the store answers again", "loop", l.name, "after", n)
	}
}
