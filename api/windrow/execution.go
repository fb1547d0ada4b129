package windrow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/httpapi"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/stream"
)

// SubmitOptions are the options of a submission. They have the limits that they have over HTTP.
type SubmitOptions struct {
	// Key makes the submission idempotent, 1 to 512 bytes: the same key with the same input and options gives the same execution, also
	// where one of the two came over HTTP. Empty: none.
	Key string
	// Owner is whose execution it is. Empty: nobody's.
	Owner string
	// Labels are what the execution is to be found by: up to 8.
	Labels map[string]string
	// Priority is from 0 to 9; work of a higher one is started earlier.
	Priority int64
	// RunAt is the time before which the work is not started; Delay is after how long it is at the earliest. Not both.
	RunAt time.Time
	Delay time.Duration
	// QueueTTL is after how long the execution fails if no worker has taken it up. 0: never.
	QueueTTL time.Duration
	// Deadline is by when the execution must have ended, else it fails. Zero: never.
	Deadline time.Time
	// TraceParent and TraceState, of W3C Trace Context, go along to who does the work. Empty, or not as the standard has them: none.
	TraceParent, TraceState string
}

// body is the one that an HTTP client would send: a key is bound to its bytes.
func (o *SubmitOptions) body(input json.RawMessage) contract.SubmitRequest {
	body := contract.SubmitRequest{Input: input, Owner: o.Owner, Labels: o.Labels, Priority: o.Priority, Delay: o.Delay.Seconds(),
		QueueTTL: o.QueueTTL.Seconds()}
	if at := o.RunAt.UTC(); !at.IsZero() {
		body.RunAt = &at
	}
	if at := o.Deadline.UTC(); !at.IsZero() {
		body.Deadline = &at
	}
	return body
}

// Submit hands in work for a deployment of this server and returns the execution's id as soon as it is accepted. Input is
// anything that can be written as JSON; a [json.RawMessage] goes as it is. A nil opts takes every default.
//
// Errors are of type [*Error]. With the code unconfirmed the work may or may not have been accepted: only a submission
// with a key is safe to repeat then.
func (s *Server) Submit(ctx context.Context, deployment string, input any, opts *SubmitOptions) (id string, err error) {
	if opts == nil {
		opts = &SubmitOptions{}
	}
	data, _, err := s.document(input)
	if err != nil {
		return "", err
	}
	body, err := contract.Encode(opts.body(data))
	if err != nil {
		return "", public(err)
	}
	trace := execution.Trace{Parent: opts.TraceParent, State: opts.TraceState}
	req, err := httpapi.Submission(deployment, opts.Key, trace, body)
	if err != nil {
		return "", public(err)
	}
	out, err := s.app.Runtime.Submit(ctx, req)
	if err != nil {
		return "", public(err)
	}
	return out.Record.Control.ID, nil
}

// document writes a value as strict, compact JSON, and as the body that an HTTP client would have sent it in.
func (s *Server) document(value any) (data, body []byte, err error) {
	data, err = contract.Encode(value)
	if err == nil {
		data, err = s.app.Compact(data)
	}
	if err != nil {
		return nil, nil, &Error{Code: contract.ProblemCodeInvalidJSON, Message: "the value can't be written as JSON", Err: err}
	}
	return data, slices.Concat([]byte(`{"input":`), data, []byte("}")), nil
}

// everyone is whose executions a host sees: whoever knows an id may see its execution.
func everyone() store.Scope { return store.Scope{All: true} }

// Get returns an execution as HTTP clients see it. Errors are of type [*Error].
func (s *Server) Get(ctx context.Context, id string) (contract.Execution, error) {
	return projected(s.app.Runtime.Get(ctx, store.ReadRequest{ID: id, Scope: everyone()}))
}

// ResumeOptions are the options of an answer.
type ResumeOptions struct {
	Key      string // makes the answer idempotent; empty: none
	Sequence int64  // the wait that is answered; 0: whichever is open
}

// Resume answers a waiting execution with anything that can be written as JSON. Errors are of type [*Error].
func (s *Server) Resume(ctx context.Context, id string, answer any, opts *ResumeOptions) (contract.Execution, error) {
	if opts == nil {
		opts = &ResumeOptions{}
	}
	data, body, err := s.document(answer)
	if err != nil {
		return contract.Execution{}, err
	}
	if opts.Sequence != 0 {
		body = fmt.Appendf(nil, `{"input":%s,"sequence":%d}`, data, opts.Sequence)
	}
	out, err := s.app.Runtime.Resume(ctx, runtime.ResumeRequest{ID: id, Scope: everyone(), Key: opts.Key, Body: body, Input: data,
		Sequence: opts.Sequence})
	return projected(out.Record, err)
}

// Cancel asks for an execution to stop; the reason, if any, goes with it. Asking again changes nothing. Errors are of type
// [*Error].
func (s *Server) Cancel(ctx context.Context, id, reason string) (contract.Execution, error) {
	return projected(s.app.Runtime.Cancel(ctx, id, everyone(), reason))
}

// Wait returns an execution once it has ended, whichever process runs it. It costs no polling. Errors are of type [*Error],
// except that of ctx.
func (s *Server) Wait(ctx context.Context, id string) (contract.Execution, error) {
	for {
		record, err := s.end(ctx, id)
		switch {
		case ctx.Err() != nil:
			return contract.Execution{}, context.Cause(ctx)
		case errors.Is(err, errSlow):
			continue
		}
		return projected(record, err)
	}
}

// errSlow says that the viewer was cut because others were faster, and may come back.
var errSlow = errors.New("the viewer fell behind")

// end follows an execution to its end.
func (s *Server) end(ctx context.Context, id string) (store.Record, error) {
	viewer, err := s.app.Hub.Subscribe(ctx, stream.Request{ID: id, Scope: everyone()})
	if err != nil {
		return store.Record{}, err
	}
	defer viewer.Close()
	for {
		event, err := viewer.Next(ctx)
		if err != nil {
			return store.Record{}, err
		}
		switch e := event.(type) {
		case *stream.End:
			return e.Record, nil
		case *stream.Interrupted:
			return store.Record{}, interrupted(e.Reason)
		}
	}
}

func interrupted(r stream.Reason) error {
	switch r {
	case stream.ReasonSlow:
		return errSlow
	case stream.ReasonShutdown:
		return execution.Errorf(execution.CodeDraining, "the server shuts down")
	case stream.ReasonErased:
		return execution.Errorf(execution.CodeNotFound, "%s", r.Detail())
	case stream.ReasonUnreadable:
	}
	return execution.Errorf(execution.CodeCorrupt, "%s", r.Detail())
}

// projected is a record as HTTP clients see it.
func projected(r store.Record, err error) (contract.Execution, error) {
	var e contract.Execution
	if err != nil {
		return e, public(err)
	}
	body, err := httpapi.Projection(r)
	if err == nil {
		err = json.Unmarshal(body, &e)
	}
	if err != nil {
		return e, public(&execution.Error{Code: execution.CodeCorrupt, Message: "what is stored can't be read", Err: err})
	}
	return e, nil
}
