package bench

import (
	"context"
	"sync"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// tally is what a process has counted of its work.
type tally struct {
	mu      sync.Mutex // guards the following
	done    int64
	last    time.Time       // when the last one was committed
	pickups []time.Duration // from the submission to the handler
}

func (t *tally) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done, t.pickups = 0, nil
}

func (t *tally) pickedUp(submitted int64) {
	if submitted == 0 {
		return
	}
	took := time.Since(time.Unix(0, submitted))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pickups = append(t.pickups, took)
}

func (t *tally) completed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done++
	t.last = time.Now()
}

func (t *tally) completions() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done
}

func (t *tally) usage() usage {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := usage{Completed: t.done, Pickups: t.pickups}
	if t.done > 0 {
		u.LastCompleted = t.last.UnixNano()
	}
	return u
}

// checkedStore is what the Redis store can do.
type checkedStore interface {
	store.Store
	store.Reporter
	Open(ctx context.Context) error
}

// told is a store that tells of what it has completed.
type told struct {
	checkedStore
	tally *tally
}

// Transition implements [store.Store].
func (t told) Transition(ctx context.Context, c execution.Control, cmd execution.Command) (store.Transitioned, error) {
	after, err := t.checkedStore.Transition(ctx, c, cmd)
	if _, ends := cmd.(execution.Complete); ends && err == nil {
		t.tally.completed()
	}
	return after, err
}
