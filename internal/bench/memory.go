package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windrow-run/windrow/internal/store"
)

const memoryLong = `Bytes in Redis of an execution that is queued, running, or finished, with 512 bytes of input and as many of result, of one owner,
without a stream; and what an idempotency key and a label add. It is what used_memory grew by, over the executions stored.

--stored says how many are stored at once; --short stores 4,000.`

// Budgets of memory in Redis, in bytes an execution.
const (
	memoryQueued   = 1843 // 1.8 KB
	memoryFinished = 2560 // 2.5 KB
	memoryKey      = 358  // 0.35 KB
	memoryLabel    = 154  // 0.15 KB
)

// Memory measures what is stored.
func Memory(ctx context.Context, p Params) (*Report, error) {
	if p.Stored == 0 {
		p.Stored = 100_000
		if p.Short {
			p.Stored = 4000
		}
	}
	r, err := begin(ctx, "memory", p)
	if err != nil {
		return nil, err
	}
	defer r.end()
	name := fmt.Sprintf("%d stored", p.Stored)
	return r.report, r.repeatedly(ctx, name, func() error { return r.memory(ctx, name) })
}

func (r *run) memory(ctx context.Context, name string) error {
	var queued float64
	for _, m := range []struct {
		what   string
		stage  stage
		change func(int, *store.Submission)
		limit  float64
		more   bool // than one that is queued
	}{
		{"queued", stageQueued, nil, memoryQueued, false}, {"running", stageRunning, nil, 0, false}, {"finished", stageFinished, nil, memoryFinished, false},
		{"more with a key", stageQueued, withKey, memoryKey, true}, {"more with a label", stageQueued, withLabel, memoryLabel, true},
	} {
		each, err := r.bytesEach(ctx, filler{deployment: workHeld, stage: m.stage, change: m.change})
		if err != nil {
			return err
		}
		if m.what == "queued" {
			queued = each
		}
		if m.more {
			each -= queued
		}
		r.Progress("%s: %s bytes", m.what, number(each))
		r.report.add(name, count(m.what, "B", each, m.limit))
	}
	return nil
}

// bytesEach fills an empty server. Connections take memory of it too, so it looks when none is open but its own.
func (r *run) bytesEach(ctx context.Context, f filler) (float64, error) {
	if err := r.redis.empty(ctx); err != nil {
		return 0, err
	}
	before, err := r.memoryAfter(ctx, func(kept store.Store) error { return r.warm(ctx, kept) })
	if err != nil {
		return 0, err
	}
	after, err := r.memoryAfter(ctx, func(kept store.Store) error {
		f.store = kept
		return f.fill(ctx, r.Stored)
	})
	return float64(after-before) / float64(r.Stored), err
}

// memoryAfter is what the server holds after something was done to it.
func (r *run) memoryAfter(ctx context.Context, do func(kept store.Store) error) (int64, error) {
	kept, err := openStore(ctx, r.redis.url, r.redis.prefix, 1)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(do(kept), kept.Close()); err != nil {
		return 0, err
	}
	pause(ctx, closing)
	l, err := r.redis.load(ctx)
	return l.memory, err
}

// closing is how long a server may take to notice that connections are gone.
const closing = 200 * time.Millisecond
