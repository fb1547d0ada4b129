package runtime

import (
	"context"
	"errors"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
)

func failedWith(class string) execution.Failure {
	return execution.Failure{Type: class}.Complete()
}

func fail(f execution.Failure) command {
	return func(o execution.Owned) execution.Command { return execution.Fail{Owned: o, Error: f} }
}

// settle commits how the handler ended.
func (s *session) settle(outcome handler.Outcome) {
	if s.isCorrupt() {
		s.repair(true)
		return
	}
	build, err := s.ending(outcome)
	switch {
	case err != nil:
		s.log.Error("the outcome can't be stored", "error", err)
		s.finish(fail(unfit(err)))
	case build != nil:
		s.registry.idle(s)
		s.finish(build)
	}
}

// ending maps an outcome to the command that commits it; nil: there is nothing to commit any more. An error says why the
// outcome can't be stored. After the deadline every outcome comes too late.
func (s *session) ending(outcome handler.Outcome) (command, error) {
	if errors.Is(context.Cause(s.ctx), handler.ErrDeadline) {
		return fail(execution.DeadlineExceeded()), nil
	}
	switch o := outcome.(type) {
	case handler.Completed:
		return s.completed(o)
	case handler.Suspended:
		return s.suspended(o)
	case handler.Retried:
		return s.retried(o), nil
	case handler.Failed:
		if stopping(o.Cause) {
			return s.stoppedEarly(), nil
		}
		return s.failed(o), nil
	case handler.Stopped:
		return s.stoppedEarly(), nil
	}
	return s.failed(handler.Failed{Error: failedWith("NoOutcome"), Cause: errors.New("the handler returned no outcome")}), nil
}

func (s *session) completed(o handler.Completed) (command, error) {
	if o.Result == nil {
		o.Result = []byte("null")
	}
	result, err := s.payload("the result", o.Result, s.Settings.MaxPayload)
	return func(owned execution.Owned) execution.Command { return execution.Complete{Owned: owned, Result: result} }, err
}

func (s *session) suspended(o handler.Suspended) (command, error) {
	cmd := execution.Suspend{Timeout: o.Timeout}
	var err error
	if o.Checkpoint != nil {
		if cmd.Checkpoint, err = s.payload("the checkpoint", o.Checkpoint, s.Settings.MaxPayload); err != nil {
			return nil, err
		}
	}
	if cmd.Wait, err = s.wait(o.Wait); err != nil {
		return nil, err
	}
	return func(owned execution.Owned) execution.Command {
		cmd.Owned = owned
		return cmd
	}, nil
}

// wait renders what the handler waits for, after checking that an answer can ever fit, and that its default does.
func (s *session) wait(w execution.Wait) ([]byte, error) {
	var err error
	if w.Schema != nil {
		if w.Schema, err = s.payload("the wait's schema", w.Schema, s.Settings.MaxPayload); err != nil {
			return nil, err
		}
	}
	if w.Default != nil {
		if w.Default, err = s.payload("the wait's default answer", w.Default, s.Settings.MaxPayload); err != nil {
			return nil, err
		}
	}
	if err := s.schemas.check(w, w.Default); err != nil {
		return nil, err
	}
	data, err := w.Encode()
	if err != nil {
		return nil, &execution.Error{Code: execution.CodeInvalidInput, Message: "the wait is not JSON", Err: err}
	}
	return data, s.within("the wait", data, s.Settings.MaxPayload)
}

func (s *session) retried(o handler.Retried) command {
	retries, budget := s.claimed.Control.Retries, s.claimed.Control.Budgets.Retries
	if o.Delay < 0 {
		o.Delay = fullJitter(s.d.retryDelay, s.d.retryMaxDelay, retries)
	}
	s.log.Info("a retry was asked for", "retries", retries, "budget", budget, "delay", o.Delay, "message", o.Message)
	f := o.Error.Complete()
	return func(owned execution.Owned) execution.Command {
		return execution.Retry{Owned: owned, Delay: o.Delay, Error: f}
	}
}

func (s *session) failed(o handler.Failed) command {
	f := o.Error.Complete()
	s.log.Error("the work failed", "type", f.Type, "code", f.Code, "error", o.Cause)
	return fail(f)
}

// stoppedEarly ends an attempt that stopped because it was told to. A release with a cancel pending ends as canceled. An
// attempt that nobody told to stop has failed.
func (s *session) stoppedEarly() command {
	cause := s.stopped()
	switch {
	case cause == nil:
		return s.failed(handler.Failed{Error: failedWith("Stopped"), Cause: errors.New("the handler stopped without being told to")})
	case errors.Is(cause, handler.ErrLeaseLost):
		return nil
	}
	return release
}

func stopping(err error) bool {
	return errors.Is(err, handler.ErrShutdown) || errors.Is(err, handler.ErrDeadline) || errors.Is(err, handler.ErrCanceled) || errors.Is(err, handler.ErrLeaseLost)
}

// finish commits a command that leaves running, after the chunks that were streamed before it. The first call decides; a
// command that the store refuses is replaced by one that it can take.
func (s *session) finish(build command) {
	if !s.beginFinish() {
		return
	}
	s.flush()
	err := s.commit(build)
	if err != nil && !stopping(err) {
		s.log.Error("the outcome was refused", "error", err)
		err = s.commit(s.replacement(err))
	}
	if err != nil && !stopping(err) {
		s.log.Error("the execution can't be ended", "error", err)
		s.lose("the store refuses every outcome")
	}
}

func (s *session) beginFinish() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finishing || s.closed {
		return false
	}
	s.finishing = true
	return true
}

// replacement is what an attempt ends with after the store refused its outcome with err.
func (s *session) replacement(err error) command {
	if !execution.Is(err, execution.CodeCorrupt) {
		return fail(unfit(err))
	}
	return s.storedInvalid(true)
}

// repair ends an execution whose stored payloads can't be used; with dropProgress its progress neither.
func (s *session) repair(dropProgress bool) {
	s.log.Error("what is stored of the execution can't be run")
	s.finish(s.storedInvalid(dropProgress))
}

func (s *session) storedInvalid(dropProgress bool) command {
	f := execution.Failure{Type: "StoredExecutionInvalid", Code: execution.FailureStoredInvalid,
		Message: "What is stored of the execution can't be run."}
	if dropProgress {
		s.mu.Lock()
		s.events = nil
		s.mu.Unlock()
	}
	return func(o execution.Owned) execution.Command {
		return execution.Fail{Owned: o, Error: f, DropProgress: dropProgress}
	}
}

// unfit is the failure of an attempt whose outcome can't be stored.
func unfit(err error) execution.Failure {
	f := execution.Failure{Type: "InvalidOutcome", Code: execution.FailureApplication, Message: "The work ended with a value that can't be stored."}
	var e *execution.Error
	if errors.As(err, &e) && e.Code == execution.CodeTooLarge {
		f = execution.Failure{Type: "PayloadTooLarge", Code: execution.FailureTooLarge, Message: e.Message}
	}
	return f
}

func (s *session) isCorrupt() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.corrupt
}
