package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
)

// refuse answers a request that could not be carried out. What is the server's own fault is logged; a client learns no
// more than the code.
func (a *api) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := a.problemOf(r, w.Header().Get(problem.RequestIDHeader), err)
	if p.Code == contract.ProblemCodeForbidden {
		challenge(w, `, error="insufficient_scope"`)
	}
	if p.Code == contract.ProblemCodeOwnerCapacityReached {
		tellOwned(w.Header(), p.Limit)
	}
	p.Write(w)
}

// problemOf is the problem that an error is to the client of a request.
func (a *api) problemOf(r *http.Request, requestID string, err error) *problem.Problem {
	p := translated(err)
	if p.Status == http.StatusInternalServerError {
		a.Logger.LogAttrs(r.Context(), slog.LevelError, "a request failed", slog.String("code", string(p.Code)),
			slog.String("request_id", requestID), slog.Any("error", err))
	}
	return p
}

// translated is the one place where errors of the domain become answers. Only the message of an [execution.Error] of a kind
// that is meant for clients is repeated, and none of an execution that is not found: an answer must not tell one that is not
// there from one that is another's.
func translated(err error) *problem.Problem {
	if refused, ok := errors.AsType[*problem.Error](err); ok {
		return refused.Problem
	}
	code, ok := codeOf(execution.CodeOf(err))
	var known *execution.Error
	if !ok || code == contract.ProblemCodeNotFound || !errors.As(err, &known) {
		return problem.New(code, "")
	}
	part := "/input"
	if known.Code == execution.CodeInvalidOption {
		part = ""
	}
	p := problem.New(code, "%s", sentence(known.Message)).WithErrors(broken(part, known.Violations)...)
	if known.Limit > 0 {
		p.WithLimit(known.Limit)
	}
	return p
}

// broken are the rules that a part of a request breaks, by their place in the body.
func broken(part string, violations []execution.Violation) []contract.ProblemError {
	var errors []contract.ProblemError
	for _, v := range violations {
		errors = append(errors, contract.ProblemError{Pointer: part + v.Pointer, Rule: v.Rule, Message: v.Message})
	}
	return errors
}

// sentence is the text of an error as people are told it.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(text[size:], ".") + "."
}

// codeOf maps a code of the domain to the contract's; false: its message is not for clients.
func codeOf(code execution.Code) (contract.ProblemCode, bool) {
	switch code {
	case execution.CodeNotFound, execution.CodeUnknownDeployment, execution.CodeNotWaiting, execution.CodeWaitMoved, execution.CodeNotEnded,
		execution.CodeUnserved, execution.CodeServed,
		execution.CodeKeyReused, execution.CodeInvalidInput, execution.CodeInvalidOption, execution.CodeTooLarge, execution.CodeCapacity,
		execution.CodeOwnerCapacity, execution.CodeDraining, execution.CodeUnavailable, execution.CodeUnconfirmed:
		return contract.ProblemCode(code), true
	case execution.CodeCursorInvalid:
		return contract.ProblemCodeInvalidCursor, true
	case execution.CodeCorrupt:
		return contract.ProblemCodeStoredStateInvalid, false
	case execution.CodeLeaseLost, execution.CodeInvalidTransition, execution.CodeInternal:
	}
	return contract.ProblemCodeInternal, false
}
