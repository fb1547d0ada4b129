package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/windrow-run/windrow/internal/handler"
)

// closure is one Close, which later calls share.
type closure struct {
	done chan struct{}
	err  error
}

// Run runs all loops. It returns nil once Close was called and nothing runs any more. When ctx ends it closes without the
// first grace: contexts of attempts end at once, and what has not been committed one grace later is left to its lease. Either
// way it returns only after its goroutines have ended, and so waits for handlers that do not stop, except for those whose
// claim Close has handed over.
func (r *Runtime) Run(ctx context.Context) error {
	if err := r.begun(); err != nil {
		return err
	}
	defer r.giveUp()
	unwatch := context.AfterFunc(ctx, r.abort)
	defer unwatch()
	beats, stopBeats := context.WithCancel(context.Background())
	var beating, intake sync.WaitGroup
	beating.Go(func() { r.beating.supervise(beats) })
	for _, l := range r.loops {
		intake.Go(func() { l.supervise(r.intake) })
	}
	intake.Wait()
	r.registry.setIntake(false)
	<-r.closing.Done()
	err := r.registry.waitEmpty(context.Background())
	stopBeats()
	beating.Wait()
	return err
}

func (r *Runtime) begun() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started {
		return errors.New("runtime: it was started before")
	}
	if r.closed != nil {
		return errors.New("runtime: it is closed")
	}
	r.started = true
	r.registry.setIntake(true)
	return nil
}

// abort is Close for a caller that does not wait.
func (r *Runtime) abort() {
	r.Quiesce()
	r.close()
	r.registry.drain()
	r.registry.stop("", handler.ErrShutdown)
	if sleep(r.base, r.Settings.ShutdownGrace) {
		r.giveUp()
	}
}

// Quiesce ends the intake: submissions are refused with CodeDraining, nothing is claimed any more. What runs goes on.
func (r *Runtime) Quiesce() {
	r.registry.quiesce()
	r.stopIntake()
	r.Metrics.SetDraining(true)
}

// Close quiesces and gives up what runs, in the order that the package comment gives: a grace in which attempts may finish
// and are handed over at their next checkpoint; then the end of their contexts, and another grace. With ReleaseOnClose the
// claims of those that still run are then released at once, without the second grace. Else they keep their claim and their
// heartbeats, and Close returns an error that counts them; see WaitDrained.
//
// ctx shortens both graces. Closing again waits for the first call. A runtime that never ran is closed at once.
func (r *Runtime) Close(ctx context.Context) error {
	r.mu.Lock()
	c, first := r.closed, r.closed == nil
	if first {
		c = &closure{done: make(chan struct{})}
		r.closed = c
	}
	r.mu.Unlock()
	if first {
		c.err = r.shutDown(ctx)
		close(c.done)
		return c.err
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *Runtime) shutDown(ctx context.Context) error {
	r.Quiesce()
	r.registry.drain()
	defer r.close()
	if r.drainedWithin(ctx) {
		return nil
	}
	r.registry.stop("", handler.ErrShutdown)
	if r.Settings.ReleaseOnClose {
		r.handOver(ctx)
	}
	if r.drainedWithin(ctx) {
		return nil
	}
	return fmt.Errorf("runtime: %d attempts did not stop", len(r.registry.all()))
}

func (r *Runtime) drainedWithin(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, r.Settings.ShutdownGrace)
	defer cancel()
	return r.registry.waitEmpty(ctx) == nil
}

// handOver releases the claims of all that still runs.
func (r *Runtime) handOver(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.Settings.ShutdownGrace)
	defer cancel()
	var all sync.WaitGroup
	for _, s := range r.registry.all() {
		all.Go(func() { s.handOver(ctx) })
	}
	all.Wait()
}

// WaitDrained waits until this process holds no claim and can get none, or returns ctx's error. Call it before the store is
// closed. A runtime that is neither quiesced nor closed does not drain; one that never ran holds nothing.
func (r *Runtime) WaitDrained(ctx context.Context) error { return r.registry.waitEmpty(ctx) }
