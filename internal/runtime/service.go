package runtime

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/store"
)

// SubmitRequest is work that a client hands in. Body and Input are strict, compact JSON.
type SubmitRequest struct {
	Deployment string
	Owner      string // empty: none
	Labels     execution.Labels
	Key        string // idempotency key; empty: none
	Body       []byte // the whole request; its SHA-256 is what a key is bound to
	Input      []byte // the part of it that the handler gets
	Actor      string // who submits, for the history; empty: not told
	Revision   string // empty: the one that this process serves. The input is not checked for any other
	SubmitOptions
}

// SubmitOptions are how work is to be done. The zero value is that of work that says nothing of it.
type SubmitOptions struct {
	Priority int64         // 0 to execution.MaxPriority; higher is claimed earlier
	Delay    time.Duration // not to be started before now plus this, at most execution.MaxDelay; 0: at once
	RunAt    int64         // not to be started before, in milliseconds; 0: at once. Not together with Delay
	QueueTTL time.Duration // to be taken up by now plus this, at most execution.MaxDelay; 0: whenever
	Deadline int64         // to have ended by then, in milliseconds; 0: whenever
	Trace    execution.Trace
}

// possible refuses what names a time that is too far ahead or too late.
func (o SubmitOptions) possible(now execution.Instant) error {
	const days = execution.MaxDelay / (24 * time.Hour)
	last := now.Millis() + execution.MaxDelay.Milliseconds()
	switch {
	case o.RunAt > last:
		return execution.InvalidOption("run_at", "must be at most %d days ahead", days)
	case o.Deadline > last:
		return execution.InvalidOption("deadline", "must be at most %d days ahead", days)
	case o.Deadline != 0 && o.Deadline <= now.Millis():
		return execution.InvalidOption("deadline", "has passed")
	}
	return nil
}

// Submit admits work to a deployment of this process, in one exchange where nothing is wrong with it. What a key is bound to
// wins over everything else: the same request is answered the same also after the deployment, its schema, or a limit has
// changed. Errors: CodeUnknownDeployment, CodeTooLarge, CodeInvalidInput and CodeInvalidOption with violations, CodeDraining,
// CodeKeyReused, CodeCapacity, CodeOwnerCapacity; CodeUnavailable where the store could not be asked or refused,
// CodeUnconfirmed where it did not answer, also not when it was asked again.
func (r *Runtime) Submit(ctx context.Context, req SubmitRequest) (store.Submitted, error) {
	d := r.registry.find(req.Deployment)
	key := store.Key{Owner: req.Owner, Deployment: req.Deployment, Value: req.Key, Fingerprint: sha256.Sum256(req.Body)}
	if err := r.admissible(d, req); err != nil {
		return r.replay(ctx, d, key, err)
	}
	s := store.Submission{Key: key, MaxNonterminal: d.maxNonterminal, MaxOwned: r.Settings.MaxOwned, Submit: execution.Submit{
		ID: r.Store.NewID(key), Deployment: d.Name, Revision: cmp.Or(req.Revision, d.Revision), Owner: req.Owner, Labels: req.Labels, Budgets: d.budgets,
		Priority: req.Priority, Delay: req.Delay, RunAt: req.RunAt, QueueTTL: req.QueueTTL, Deadline: req.Deadline, Trace: req.Trace,
		Input: req.Input, Actor: req.Actor}}
	// The same id both times: what was applied is replayed, which only a key makes worth telling.
	out, err := twice(ctx, func() (store.Submitted, error) { return r.admit(ctx, s) })
	out.Replayed = out.Replayed && req.Key != ""
	r.submitted(d, out, err)
	return out, err
}

func (r *Runtime) admissible(d *deployment, req SubmitRequest) error {
	switch {
	case d == nil:
		return execution.Errorf(execution.CodeUnknownDeployment, "there is no deployment of this name here")
	case len(req.Input) > r.Settings.MaxPayload:
		e := execution.Errorf(execution.CodeTooLarge, "the input has %d bytes, the limit is %d", len(req.Input), r.Settings.MaxPayload)
		e.Limit = int64(r.Settings.MaxPayload)
		return e
	}
	if err := req.possible(r.clock.now()); err != nil {
		return err
	}
	if req.Revision == "" || req.Revision == d.Revision {
		if err := violated("the input", d.Input, req.Input); err != nil {
			return err
		}
	}
	if r.registry.isQuiesced() {
		return execution.Errorf(execution.CodeDraining, "this process shuts down and takes no more work")
	}
	return nil
}

// replay answers a submission that is refused: with what its key is bound to, else with the refusal.
func (r *Runtime) replay(ctx context.Context, d *deployment, key store.Key, refusal error) (store.Submitted, error) {
	out, err := store.Submitted{}, refusal
	if key.Value != "" {
		ctx, cancel := r.exchange(ctx)
		defer cancel()
		if out, err = r.Store.FindKey(ctx, key); execution.Is(err, execution.CodeNotFound) {
			err = refusal
		}
	}
	r.submitted(d, out, err)
	return out, err
}

func (r *Runtime) admit(ctx context.Context, s store.Submission) (store.Submitted, error) {
	ctx, cancel := r.exchange(ctx)
	defer cancel()
	return r.Store.Submit(ctx, s)
}

func (r *Runtime) submitted(d *deployment, out store.Submitted, err error) {
	name := "" // a client can invent names; a label must not hold them
	if d != nil {
		name = d.Name
	}
	switch {
	case err != nil:
		r.Metrics.Submitted(name, string(execution.CodeOf(err)))
		return
	case out.Replayed:
		r.Metrics.Submitted(name, outcomeReplayed)
	default:
		r.Metrics.Submitted(name, outcomeAccepted)
	}
	r.SawWait(out.Record)
	r.wakeFor(out.Record.Control)
}

// twice asks for a change, and once more where the store did not answer or did not confirm it: asking again must change nothing
// where it was carried out. An error of CodeUnavailable says that it was not, for certain; one of CodeUnconfirmed that it may have
// been, or may yet be: the first may arrive later than the second, which was refused for want of room.
func twice[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	out, err := ask()
	if !execution.Unknown(err) || ctx.Err() != nil {
		return out, unconfirmed(err)
	}
	first := unconfirmed(err)
	out, err = ask()
	passing := execution.Unknown(err) || execution.NoRoom(err)
	if passing && execution.Is(first, execution.CodeUnconfirmed) {
		return out, first
	}
	return out, unconfirmed(err)
}

// unconfirmed says of a change whose exchange failed that it may have been made, unless it is known not to have been.
func unconfirmed(err error) error {
	var e *execution.Error
	if !errors.As(err, &e) || e.Code != execution.CodeUnavailable || e.Unchanged {
		return err
	}
	return &execution.Error{Code: execution.CodeUnconfirmed, Err: err,
		Message: "the store did not answer: the request may or may not have been carried out"}
}

// Now is about the store's time.
func (r *Runtime) Now() execution.Instant { return r.clock.now() }

// Get reads an execution. Errors are those of store.Store.Read.
func (r *Runtime) Get(ctx context.Context, req store.ReadRequest) (store.Record, error) {
	ctx, cancel := r.exchange(ctx)
	defer cancel()
	record, err := r.Store.Read(ctx, req)
	if err == nil {
		r.SawWait(record)
	}
	return record, err
}

// List returns a page of executions. Errors are those of store.Store.List.
func (r *Runtime) List(ctx context.Context, req store.ListRequest) (store.Listed, error) {
	ctx, cancel := r.exchange(ctx)
	defer cancel()
	return r.Store.List(ctx, req)
}

// SawWait remembers the wait of a record that was read elsewhere, so that its answer costs one exchange.
func (r *Runtime) SawWait(record store.Record) { r.waits.saw(record) }

// Cancel asks for an execution to stop, and ends the context of its handler at once where it runs in this process. Errors are
// those of store.Store.Cancel, with CodeUnconfirmed where the store did not answer, also not when it was asked again.
func (r *Runtime) Cancel(ctx context.Context, id string, scope store.Scope, reason string) (store.Record, error) {
	record, err := twice(ctx, func() (store.Record, error) { return r.cancelOnce(ctx, id, scope, reason) })
	if err == nil && record.Control.Status == execution.Running {
		r.registry.stop(id, handler.ErrCanceled)
	}
	return record, err
}

func (r *Runtime) cancelOnce(ctx context.Context, id string, scope store.Scope, reason string) (store.Record, error) {
	ctx, cancel := r.exchange(ctx)
	defer cancel()
	return r.Store.Cancel(ctx, id, scope, reason)
}

// ResumeRequest is an answer to a wait. Body and Input are strict, compact JSON.
type ResumeRequest struct {
	ID       string
	Scope    store.Scope
	Key      string // idempotency key; empty: none
	Body     []byte // the whole request; its SHA-256 is what a key is bound to
	Input    []byte // the answer
	Sequence int64  // the wait that the answer is for; 0: the open one
}

// resumeTries bounds how often an answer follows a wait that moves on between two exchanges.
const resumeTries = 4

// Resume answers the open wait after checking the answer against the schema of that very wait: in one exchange where this
// process has seen the wait, else in two. Errors: those of store.Store.Resume, CodeInvalidInput with violations, CodeTooLarge,
// and CodeUnconfirmed where the store did not answer; a request with a key is asked again first.
func (r *Runtime) Resume(ctx context.Context, req ResumeRequest) (store.Resumed, error) {
	ask := store.ResumeRequest{ID: req.ID, Scope: req.Scope, Answer: req.Input, Sequence: req.Sequence, Key: req.Key,
		Digest: sha256.Sum256(req.Body)}
	if open, ok := r.waits.get(req.ID); ok && r.fits(open, req.Input) == nil {
		ask.Checked = open.sequence
	}
	for range resumeTries {
		out, err := r.answer(ctx, ask)
		if err != nil {
			return store.Resumed{}, err
		}
		if !out.Unchecked {
			r.wakeFor(out.Record.Control)
			return out, nil
		}
		open, err := openWaitOf(out.Record)
		if err == nil {
			err = r.fits(open, req.Input)
		}
		if err != nil {
			return store.Resumed{}, err
		}
		r.SawWait(out.Record)
		ask.Checked = open.sequence
	}
	return store.Resumed{}, execution.Errorf(execution.CodeWaitMoved, "the execution waits for something else each time it is asked")
}

func (r *Runtime) answer(ctx context.Context, ask store.ResumeRequest) (store.Resumed, error) {
	once := func() (store.Resumed, error) { return r.answerOnce(ctx, ask) }
	if ask.Key != "" {
		return twice(ctx, once)
	}
	out, err := once()
	return out, unconfirmed(err)
}

func (r *Runtime) answerOnce(ctx context.Context, ask store.ResumeRequest) (store.Resumed, error) {
	ctx, cancel := r.exchange(ctx)
	defer cancel()
	return r.Store.Resume(ctx, ask)
}

// fits reports why an answer can't be given to a wait; nil: it can.
func (r *Runtime) fits(open openWait, answer []byte) error {
	if n := r.Settings.MaxPayload; len(answer) > n {
		e := execution.Errorf(execution.CodeTooLarge, "the answer has %d bytes, the limit is %d", len(answer), n)
		e.Limit = int64(n)
		return e
	}
	return r.schemas.check(open.wait, answer)
}
