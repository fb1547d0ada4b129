// Package handler is the border between the runtime and the code that does the work, whatever language it is written in:
// what a deployment is, what an attempt may do, and how it ends.
//
// The runtime owns the lease, the store and the clock; a [Handler] sees an [Attempt] and returns an [Outcome]. Everything
// that crosses the border is strict, compact JSON as bytes.
package handler

import (
	"context"
	"encoding/json"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
)

// Schema checks JSON values. A nil Schema admits every value.
type Schema interface {
	// Validate returns the rules that the value breaks; none: it fits.
	Validate(value []byte) []execution.Violation
	// JSON is the schema itself.
	JSON() []byte
}

// Deployment is a named kind of work in one immutable revision.
type Deployment struct {
	Name     string // 1 to 64 bytes: a letter or digit, then letters, digits, '_', '.' or '-'
	Revision string // as Name
	Input    Schema // enforced on submission; nil: any JSON
	Handler  Handler
	Options  Options
}

// Options are the settings of a deployment. A zero value takes the runtime's default; so says each field what zero means.
type Options struct {
	Slots          int               // attempts at once in this process; 0: the runtime's default, one a CPU
	Lease          time.Duration     // 0: the runtime's default
	Budgets        execution.Budgets // zero: execution.DefaultBudgets
	MaxNonterminal *int64            // admission ceiling; nil: the runtime's default; 0: none
	RetryDelay     time.Duration     // first delay of a retry that names none; 0: the runtime's default
	RetryMaxDelay  time.Duration     // longest such delay; 0: the runtime's default
	DropChunks     bool              // streamed chunks are not kept; streams still end
}

// Handler runs attempts.
type Handler interface {
	// Run runs one attempt and says how it ended. ctx ends when the attempt must stop: its lease was lost, cancellation was
	// asked for, its deadline passed, or the process shuts down; context.Cause tells which: [ErrLeaseLost], [ErrCanceled], [ErrDeadline] or
	// [ErrShutdown].
	// Several attempts run at the same time. A panic ends the attempt as failed.
	Run(ctx context.Context, a Attempt) Outcome
}

// Func is a function as a Handler.
type Func func(ctx context.Context, a Attempt) Outcome

// Run calls f.
func (f Func) Run(ctx context.Context, a Attempt) Outcome { return f(ctx, a) }

// Attempt is one claimed execution in its handler's hands. Methods are safe for concurrent use. Those that reach the store
// return [ErrLeaseLost], [ErrCanceled], [ErrDeadline] or [ErrShutdown] when the attempt must stop, and an execution.Error with
// CodeTooLarge or CodeInvalidInput for a payload that is refused, after which the attempt may go on.
type Attempt interface {
	Info() Info
	// Save commits a checkpoint and the progress reported so far. The answer of the last wait goes with it once it was read.
	Save(ctx context.Context, checkpoint []byte) error
	// Report adds a progress event to the next commit, or commits it at once.
	Report(ctx context.Context, kind, message string, metadata json.RawMessage, now bool) error
	// Stream appends a chunk of output. It never waits for the store. Best effort: a chunk can be lost with its worker.
	Stream(chunk []byte) error
	// Answer is the answer to the last wait, nil where there is none. Reading it marks it as consumed: the next checkpoint
	// takes its place.
	Answer() []byte
	// Check asks whether the attempt may go on. It may answer from what was confirmed in the last half second.
	Check(ctx context.Context) error
}

// Info is what an attempt starts from. The bytes must not be changed.
type Info struct {
	ID         string
	Deployment string
	Revision   string
	Owner      string // empty: none
	Labels     execution.Labels
	Trace      execution.Trace
	Number     int64 // of the attempt, from 1
	Retries    int64 // application retries before this attempt
	Input      []byte
	Checkpoint []byte // nil: none yet
}

// Outcome is how an attempt ended. The set is closed.
type Outcome interface{ outcome() }

// Completed ends the execution with a result.
type Completed struct{ Result []byte }

// Failed ends the execution with a public error. Cause goes to the log only.
type Failed struct {
	Error execution.Failure
	Cause error
}

// Suspended stores a checkpoint and waits for an answer. A nil Checkpoint keeps the last one.
type Suspended struct {
	Checkpoint []byte
	Wait       execution.Wait
	Timeout    time.Duration // 0: the wait never expires
}

// Retried asks for another attempt. A negative Delay takes the deployment's backoff. Message goes to the log only.
type Retried struct {
	Delay   time.Duration
	Message string
	Error   execution.Failure // shown while the retry is pending, and kept where the budget is spent
}

// Stopped says that the handler stopped because its context ended.
type Stopped struct{}

func (Completed) outcome() {}
func (Failed) outcome()    {}
func (Suspended) outcome() {}
func (Retried) outcome()   {}
func (Stopped) outcome()   {}

type stopError string

func (e stopError) Error() string { return string(e) }

// Why an attempt must stop.
const (
	ErrLeaseLost = stopError("the lease was lost: another attempt may own the execution")
	ErrCanceled  = stopError("cancellation was asked for")
	ErrDeadline  = stopError("the deadline of the execution has passed")
	ErrShutdown  = stopError("the process shuts down: the execution is handed over")
)
