package durable

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
)

// Error is a failure that clients may see. Return it, wrapped or not, to fail the execution with it.
type Error struct {
	// Type is the class of the error, such as "QuotaExceeded". Empty: "Error". At most 256 bytes are kept.
	Type string
	// Code is stable and made for programs. Empty: "application_error". At most 256 bytes are kept.
	Code string
	// Message is made for people. Empty: a constant text. At most 2,000 bytes are kept.
	Message string
	// Retryable says that another submission of the same work may succeed. It does not retry anything: see [Retry].
	Retryable bool
	// Err is the cause, for the log only. Clients never see it.
	Err error
}

// Error describes the error for a log, its cause included.
func (e Error) Error() string {
	text := strings.TrimSuffix(e.Code+": "+e.Message, ": ")
	if e.Err != nil {
		text = fmt.Sprintf("%s: %v", text, e.Err)
	}
	return strings.TrimPrefix(text, ": ")
}

// Unwrap returns the cause.
func (e Error) Unwrap() error { return e.Err }

// failureOf is what clients see of err.
func failureOf(err error) execution.Failure {
	e, ok := publicError(err)
	if !ok {
		return execution.Failure{Type: class(err)}.Complete()
	}
	return execution.Failure{Type: e.Type, Code: e.Code, Message: e.Message, Retryable: e.Retryable}.Complete()
}

// publicError finds an Error in err, whether it was returned as a value or as a pointer.
func publicError(err error) (Error, bool) {
	if value, ok := errors.AsType[Error](err); ok {
		return value, true
	}
	if pointer, ok := errors.AsType[*Error](err); ok && pointer != nil {
		return *pointer, true
	}
	return Error{}, false
}

// class names the type of err. What only adds words to another error, or joins several, is looked through.
func class(err error) string {
	for inner := plain(err); inner != nil; inner = plain(err) {
		err = inner
	}
	return strings.TrimLeft(fmt.Sprintf("%T", err), "*")
}

// plain returns the first error inside one that fmt or errors made, nil for any other.
func plain(err error) error {
	t := reflect.TypeOf(err)
	if t.Kind() != reflect.Pointer || (t.Elem().PkgPath() != "fmt" && t.Elem().PkgPath() != "errors") {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok && len(joined.Unwrap()) > 0 {
		return joined.Unwrap()[0]
	}
	return errors.Unwrap(err)
}

// outcomeOf is how an attempt ends whose function returned err.
//
// Once the attempt was told to stop, an error says nothing about the work: most likely it is that very stop, seen through
// a library that was in the middle of something. A suspension is the exception, since only the author makes one.
func outcomeOf(ctx context.Context, err error) handler.Outcome {
	if suspend, ok := errors.AsType[*suspension](err); ok {
		return suspend.outcome
	}
	if ctx.Err() != nil || mustStop(err) {
		return handler.Stopped{}
	}
	if again, ok := errors.AsType[*retrial](err); ok {
		return again.outcome
	}
	return handler.Failed{Error: failureOf(err), Cause: err}
}

func mustStop(err error) bool {
	return errors.Is(err, ErrCanceled) || errors.Is(err, ErrDeadline) || errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrShutdown)
}

// refused turns an error of the runtime into one that clients may see. Reasons to stop pass unchanged.
func refused(err error) error {
	e, ok := errors.AsType[*execution.Error](err)
	switch {
	case ok && e.Code == execution.CodeTooLarge:
		return Error{Type: "PayloadTooLarge", Code: execution.FailureTooLarge, Message: e.Message, Err: err}
	case ok && e.Code == execution.CodeInvalidInput:
		return Error{Type: "PayloadInvalid", Code: "payload_invalid", Message: e.Message, Err: err}
	}
	return err
}
