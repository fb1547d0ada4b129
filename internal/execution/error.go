package execution

import (
	"errors"
	"fmt"
)

// Code is the closed set of reasons for which an operation on executions is refused or fails. Each has one place in the
// HTTP layer that maps it to a status; nothing else of an error reaches a client.
type Code string

// The codes.
const (
	CodeNotFound          Code = "not_found"              // no such execution, or another owner's
	CodeUnknownDeployment Code = "unknown_deployment"     // no such deployment here
	CodeLeaseLost         Code = "lease_lost"             // the caller no longer owns the execution: stop at once
	CodeInvalidTransition Code = "invalid_transition"     // the command does not fit the status
	CodeNotWaiting        Code = "not_waiting"            // an answer came, but nothing waits for one
	CodeWaitMoved         Code = "wait_moved"             // the answer names another wait than the open one
	CodeNotEnded          Code = "not_ended"              // only what has ended can be resubmitted
	CodeKeyReused         Code = "key_reused"             // the idempotency key is bound to another body
	CodeInvalidInput      Code = "invalid_input"          // input or answer does not fit its schema; see Violations
	CodeInvalidOption     Code = "invalid_option"         // an option of a submission can't be met; see Violations
	CodeTooLarge          Code = "too_large"              // a payload is over its limit
	CodeCapacity          Code = "capacity_reached"       // the deployment's admission ceiling
	CodeOwnerCapacity     Code = "owner_capacity_reached" // the owner's
	CodeUnserved          Code = "revision_unserved"      // no worker serves the revision that work is to be moved to
	CodeServed            Code = "revision_served"        // the revision whose work is to fail has workers
	CodeDraining          Code = "draining"               // this process takes no more work
	CodeUnavailable       Code = "store_unavailable"      // the store did not answer, or refused for a passing reason
	CodeUnconfirmed       Code = "unconfirmed"            // it may have been applied; or it was, and was not acknowledged as it should
	CodeCorrupt           Code = "stored_state_invalid"
	CodeCursorInvalid     Code = "cursor_invalid" // a cursor that we never gave out
	CodeInternal          Code = "internal"
)

// Violation is one rule of a schema that a value breaks.
type Violation struct {
	Pointer string // RFC 6901, from the root of the value
	Rule    string // keyword of the schema, or what else is broken; for programs
	Message string // what must be, for people; never the whole value
}

// Error is an error of a known kind. Message may be shown to clients; the wrapped error never is.
type Error struct {
	Code       Code
	Message    string
	Violations []Violation
	Limit      int64 // the limit that was hit, where there is one
	Unchanged  bool  // with CodeUnavailable: for certain, nothing was carried out
	Err        error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an [Error] from a code and a message for clients.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// InvalidOption is the error of an option of a submission, by its name in the contract: what must be of it.
func InvalidOption(name, format string, args ...any) *Error {
	must := fmt.Sprintf(format, args...)
	e := Errorf(CodeInvalidOption, "the option %q %s", name, must)
	e.Violations = []Violation{{Pointer: "/" + name, Rule: "option", Message: must}}
	return e
}

// CodeOf returns the code of err: "" for nil, [CodeInternal] for an error that is not an [Error].
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

// Unknown reports whether err leaves open whether a change was made, or whether it lasts. Asking for it again, as the same
// operation, is answered as the first time.
func Unknown(err error) bool { return Is(err, CodeUnavailable) || Is(err, CodeUnconfirmed) }

// NoRoom reports whether err says that a submission was refused for a ceiling.
func NoRoom(err error) bool { return Is(err, CodeCapacity) || Is(err, CodeOwnerCapacity) }

// Is reports whether err has the code.
func Is(err error, code Code) bool { return CodeOf(err) == code }
