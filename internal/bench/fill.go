package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// stage is how far an execution has come that is stored.
type stage int

const (
	stageQueued stage = iota
	stageRunning
	stageFinished
)

const (
	fillLanes   = 16
	fillBatch   = 50 // executions that a lane submits, claims and completes in turn
	fillPayload = 512
	fillLease   = 24 * time.Hour // nobody renews it
	fillOwner   = "tenant-1234"
)

// filler stores executions without a server.
type filler struct {
	store      store.Store
	deployment string
	stage      stage
	change     func(i int, s *store.Submission) // nil: nothing
}

// fill stores n executions of one owner, with 512 bytes of input, and of result where they are finished.
func (f filler) fill(ctx context.Context, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var lanes sync.WaitGroup
	for range fillLanes {
		lanes.Go(func() {
			poll := pollFor(f.deployment, fillBatch)
			poll.Revisions[0].Lease = fillLease
			for ctx.Err() == nil {
				from := int(next.Add(fillBatch)) - fillBatch
				if from >= n {
					return
				}
				poll.Token, poll.Number, poll.Revisions[0].Count = rand.Text(), poll.Number+1, min(fillBatch, n-from)
				if err := f.batch(ctx, from, poll); err != nil {
					cancel(err)
				}
			}
		})
	}
	lanes.Wait()
	return context.Cause(ctx)
}

// batch is as many as the poll asks for, from the number from on.
func (f filler) batch(ctx context.Context, from int, poll store.PollRequest) error {
	input := bytes.Repeat([]byte("i"), fillPayload)
	for i := from; i < from+poll.Revisions[0].Count; i++ {
		submit := intoStore(f.store, func(s *store.Submission) {
			s.Owner = fillOwner
			if f.change != nil {
				f.change(i, s)
			}
		})
		if _, err := submit(ctx, f.deployment, input); err != nil {
			return err
		}
	}
	if f.stage == stageQueued {
		return nil
	}
	out, err := f.store.Poll(ctx, poll)
	if err != nil || f.stage == stageRunning {
		return err
	}
	for _, c := range out.Claimed {
		end := completion(c.Control)
		end.Result = bytes.Repeat([]byte("r"), fillPayload)
		if _, err := f.store.Transition(ctx, c.Control, end); err != nil {
			return err
		}
	}
	return nil
}

// withKey gives every execution an idempotency key of its own.
func withKey(i int, s *store.Submission) {
	s.Key = store.Key{Owner: s.Owner, Deployment: s.Deployment, Value: "order-" + number(float64(i))}
}

// withLabel gives all the same label.
func withLabel(_ int, s *store.Submission) { s.Labels = execution.Labels("team=search") }
