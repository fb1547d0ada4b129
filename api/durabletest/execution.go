package durabletest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
)

// The statuses of an execution. The last three are final.
const (
	Queued    = string(execution.Queued)
	Running   = string(execution.Running)
	Waiting   = string(execution.Waiting)
	Completed = string(execution.Completed)
	Failed    = string(execution.Failed)
	Canceled  = string(execution.Canceled)
)

// lease is never renewed: the clock of an Execution only moves between attempts.
const lease = time.Hour

// Execution is one execution of a deployment. Methods are safe for concurrent use, but attempts run one at a time.
type Execution struct {
	deployment handler.Deployment
	turn       sync.Mutex // held by the running attempt

	mu       sync.Mutex // guards the following
	now      execution.Instant
	control  execution.Control
	payloads map[execution.PayloadKind][]byte
	progress []durable.Event
	chunks   []json.RawMessage
	stop     context.CancelCauseFunc // of the running attempt; nil: none runs
}

// Submit begins an execution, queued. It returns an error where the input does not fit the deployment, as a server would
// refuse it.
func Submit(d durable.Deployment, input any) (*Execution, error) {
	definition := d.Definition()
	data, err := encode(input)
	if err != nil {
		return nil, fmt.Errorf("durabletest: write input: %w", err)
	}
	if broken := definition.Input.Validate(data); len(broken) > 0 {
		return nil, fmt.Errorf("durabletest: input refused: %q %s", broken[0].Pointer, broken[0].Message)
	}
	e := &Execution{deployment: definition, payloads: map[execution.PayloadKind][]byte{}, now: 1_000_000}
	e.control.ID = "test"
	budgets := definition.Options.Budgets
	if budgets == (execution.Budgets{}) {
		budgets = execution.DefaultBudgets()
	}
	submit := execution.Submit{Deployment: definition.Name, Revision: definition.Revision, Budgets: budgets, Input: data}
	if err := e.apply(submit); err != nil {
		return nil, fmt.Errorf("durabletest: submit: %w", err)
	}
	return e, nil
}

// Run runs attempts until the execution ends or waits, or until ctx ends, and returns the status.
func (e *Execution) Run(ctx context.Context) string {
	for ctx.Err() == nil && e.Status() == Queued {
		e.Attempt(ctx)
	}
	return e.Status()
}

// Attempt runs one attempt of a queued execution and returns the status. When ctx ends, the attempt is told that the
// process shuts down, and the execution is queued again with its last checkpoint.
func (e *Execution) Attempt(ctx context.Context) string {
	e.turn.Lock()
	defer e.turn.Unlock()
	a, ok := e.claim(ctx)
	if !ok {
		return e.Status()
	}
	defer context.AfterFunc(ctx, func() { a.stop(durable.ErrShutdown) })()
	outcome := e.deployment.Handler.Run(a.ctx, a)
	a.end(outcome)
	return e.Status()
}

// Resume answers the open wait. It returns an error where nothing waits, or where the answer does not fit.
func (e *Execution) Resume(answer any) error {
	data, err := encode(answer)
	if err != nil {
		return fmt.Errorf("durabletest: write answer: %w", err)
	}
	if err := e.checkAnswer(data); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.applyLocked(execution.Resume{Sequence: e.control.WaitSequence, Answer: data})
}

// Expire ends the open wait as if its timeout had passed: with the default answer where there is one.
func (e *Execution) Expire() error {
	wait, err := e.wait()
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.control.WaitUntil == 0 {
		return fmt.Errorf("durabletest: nothing waits with a timeout")
	}
	e.now = max(e.now, execution.Instant(e.control.WaitUntil*1000))
	return e.applyLocked(execution.ExpireWait{Sequence: e.control.WaitSequence, Default: wait.Default})
}

// Cancel asks for the execution to stop. A running attempt is told.
func (e *Execution) Cancel() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.applyLocked(execution.Cancel{}); err != nil { // cancel fits every status
		panic(err)
	}
	if e.stop != nil {
		e.stop(durable.ErrCanceled)
	}
}

// Crash ends the running attempt as a dead worker does, from inside its function or from elsewhere: the attempt commits
// nothing any more, its context ends with [durable.ErrLeaseLost], and the execution is queued again with its last
// checkpoint, or failed where that was one lost lease too many.
func (e *Execution) Crash() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.control.Status != execution.Running {
		return
	}
	e.now = max(e.now, execution.Instant(e.control.LeaseUntil*1000))
	if err := e.applyLocked(execution.Recover{Fence: e.control.Fence}); err != nil { // the lease has run out
		panic(err)
	}
	e.stop(durable.ErrLeaseLost)
}

// apply carries out a command, as a store does.
func (e *Execution) apply(cmd execution.Command) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.applyLocked(cmd)
}

func (e *Execution) applyLocked(cmd execution.Command) error {
	e.now++
	plan, err := execution.Decide(e.control, cmd, e.now)
	if err != nil {
		return err
	}
	for _, p := range plan.Payloads {
		e.payloads[p.Kind] = p.Data
	}
	e.control = plan.Apply(e.control, e.now)
	return nil
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
