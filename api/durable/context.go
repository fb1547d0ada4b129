package durable

import (
	"context"
	"maps"

	"github.com/windrow-run/windrow/internal/handler"
)

// Context is what a deployment's function gets: the context of its attempt, which also names the execution. It ends when the attempt
// must stop; [context.Cause] then is [ErrCanceled], [ErrDeadline], [ErrLeaseLost] or [ErrShutdown].
//
// It can be passed on wherever a [context.Context] is taken. Only this package makes one; package durabletest runs a
// deployment in a test.
type Context interface {
	context.Context

	// ExecutionID names the execution. It stays the same over all attempts, which makes it a good idempotency key for
	// calls to other systems.
	ExecutionID() string
	// Deployment and Revision name what runs. An execution is pinned to the revision that it was submitted under.
	Deployment() string
	Revision() string
	// Owner is the tenant or user that the execution belongs to; empty where there is none.
	Owner() string
	// Labels are what the execution was submitted with to be found by.
	Labels() map[string]string
	// Attempt is the number of this attempt, from 1.
	Attempt() int64
	// Retries is how many attempts before this one ended with [Retry]. Crashes and handovers don't count.
	Retries() int64

	// Trace is where the submission stands in a distributed trace: the headers traceparent and tracestate of W3C Trace Context,
	// as the client sent them. Empty: none.
	Trace() (parent, state string)

	attempt() handler.Attempt
}

// Why an attempt must stop. They are also recognised when they are wrapped.
const (
	// ErrCanceled says that somebody asked for the execution to be canceled.
	ErrCanceled = handler.ErrCanceled
	// ErrLeaseLost says that the worker was away too long: another attempt may run already.
	ErrLeaseLost = handler.ErrLeaseLost
	// ErrDeadline says that the execution should have ended by now. It ends as failed, whatever the function returns.
	ErrDeadline = handler.ErrDeadline
	// ErrShutdown says that the process shuts down. The execution goes on elsewhere from its last checkpoint.
	ErrShutdown = handler.ErrShutdown
)

// running is the Context of one attempt.
type running struct {
	context.Context
	info handler.Info
	a    handler.Attempt
}

func newContext(ctx context.Context, a handler.Attempt) *running {
	return &running{Context: ctx, info: a.Info(), a: a}
}

func (r *running) ExecutionID() string           { return r.info.ID }
func (r *running) Deployment() string            { return r.info.Deployment }
func (r *running) Revision() string              { return r.info.Revision }
func (r *running) Owner() string                 { return r.info.Owner }
func (r *running) Labels() map[string]string     { return maps.Collect(r.info.Labels.All()) }
func (r *running) Attempt() int64                { return r.info.Number }
func (r *running) Retries() int64                { return r.info.Retries }
func (r *running) Trace() (parent, state string) { return r.info.Trace.Parent, r.info.Trace.State }

func (r *running) attempt() handler.Attempt { return r.a }

// stopped returns why the attempt must stop, nil while it may go on. It does not ask the store.
func stopped(c Context) error {
	if c.Err() == nil {
		return nil
	}
	return context.Cause(c)
}
