package durabletest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
)

const worker, token = "test", "test"

// attempt is a claimed execution in its handler's hands.
type attempt struct {
	e      *Execution
	ctx    context.Context
	stop   context.CancelCauseFunc
	info   handler.Info
	answer []byte
	read   atomic.Bool // the answer was
	fence  int64
}

// claim begins an attempt. It reports false where the execution is not queued.
func (e *Execution) claim(ctx context.Context) (*attempt, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now = max(e.now, execution.Instant(e.control.AvailableAt*1000)) // the delay of a retry passes at once
	if err := e.applyLocked(execution.Claim{Worker: worker, Token: token, Lease: lease}); err != nil {
		return nil, false
	}
	a := &attempt{e: e, answer: e.payloads[execution.PayloadAnswer], fence: e.control.Fence}
	a.ctx, a.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	a.info = handler.Info{ID: e.control.ID, Deployment: e.control.Deployment, Revision: e.control.Revision,
		Number: e.control.Attempt, Retries: e.control.Retries,
		Input: e.payloads[execution.PayloadInput], Checkpoint: e.payloads[execution.PayloadCheckpoint]}
	e.stop = a.stop
	return a, true
}

// Info is what the attempt starts from.
func (a *attempt) Info() handler.Info { return a.info }

// Save commits a checkpoint.
func (a *attempt) Save(_ context.Context, checkpoint []byte) error {
	if err := a.stopped(); err != nil {
		return err
	}
	cmd := execution.Checkpoint{Owned: a.owned(), Data: checkpoint, Consumed: a.read.Load(), Lease: lease}
	if err := a.e.apply(cmd); err != nil {
		return durable.ErrLeaseLost
	}
	return nil
}

// Report keeps a progress event.
func (a *attempt) Report(_ context.Context, kind, message string, metadata json.RawMessage, now bool) error {
	if err := a.stopped(); err != nil {
		return err
	}
	event := durable.Event{Kind: kind, Message: message, Now: now}
	if metadata != nil {
		event.Metadata = metadata
	}
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	a.e.progress = append(a.e.progress, event)
	return nil
}

// Stream keeps a chunk.
func (a *attempt) Stream(chunk []byte) error {
	if err := a.stopped(); err != nil {
		return err
	}
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	a.e.chunks = append(a.e.chunks, chunk)
	return nil
}

// Answer is the answer to the last wait.
func (a *attempt) Answer() []byte {
	a.read.Store(true)
	return a.answer
}

// Check asks whether the attempt may go on.
func (a *attempt) Check(context.Context) error { return a.stopped() }

func (a *attempt) stopped() error {
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	return nil
}

// end commits how the attempt ended. One that crashed commits nothing: its fence is not the current one any more.
func (a *attempt) end(outcome handler.Outcome) {
	a.stop(durable.ErrLeaseLost) // whatever still runs does not own the execution
	if err := a.e.apply(a.command(outcome)); err != nil && !execution.Is(err, execution.CodeLeaseLost) {
		panic(fmt.Sprintf("durabletest: end of an attempt: %v", err))
	}
}

func (a *attempt) command(outcome handler.Outcome) execution.Command {
	switch o := outcome.(type) {
	case handler.Completed:
		return execution.Complete{Owned: a.owned(), Result: o.Result}
	case handler.Failed:
		return execution.Fail{Owned: a.owned(), Error: o.Error}
	case handler.Suspended:
		wait, err := o.Wait.Encode()
		if err != nil { // schema and default were checked when the wait was made
			panic(err)
		}
		return execution.Suspend{Owned: a.owned(), Checkpoint: o.Checkpoint, Wait: wait, Timeout: o.Timeout}
	case handler.Retried:
		return execution.Retry{Owned: a.owned(), Delay: max(o.Delay, 0), Error: o.Error}
	}
	return execution.Release{Owned: a.owned()}
}

func (a *attempt) owned() execution.Owned {
	return execution.Owned{Ownership: execution.Ownership{Worker: worker, Token: token, Fence: a.fence}, Operation: "test"}
}
