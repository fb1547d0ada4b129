package windrow

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
)

// Error says why an operation on executions was refused or failed.
type Error struct {
	// Code is the one that HTTP clients get for the same reason: contract.ProblemCodeCapacityReached, say.
	Code    contract.ProblemCode
	Message string
	// Errors are the rules that an input or an answer breaks, with pointers from its root.
	Errors []contract.ProblemError
	// Err is the cause, for the log of the host; nil: there is none.
	Err error
}

func (e *Error) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "windrow: %s (%s)", e.Message, e.Code)
	for _, broken := range e.Errors {
		fmt.Fprintf(&text, "\n  %q %s", broken.Pointer, broken.Message)
	}
	return text.String()
}

func (e *Error) Unwrap() error { return e.Err }

// public is an error of the floors below as the host sees it.
func public(err error) error {
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*problem.Error](err); ok {
		p := refused.Problem
		return &Error{Code: p.Code, Message: cmp.Or(p.Detail, p.Title), Errors: p.Errors}
	}
	e := &Error{Code: contract.ProblemCode(execution.CodeOf(err)), Err: err}
	if !e.Code.Valid() {
		e.Code = contract.ProblemCodeInternal
	}
	var known *execution.Error
	if !errors.As(err, &known) {
		e.Message = "something is wrong inside Windrow"
		return e
	}
	e.Message, e.Err = known.Message, known.Err
	for _, v := range known.Violations {
		e.Errors = append(e.Errors, contract.ProblemError{Pointer: v.Pointer, Rule: v.Rule, Message: v.Message})
	}
	return e
}
