// Package problem makes and writes problem documents (RFC 9457), the form of every error that Windrow answers. The codes
// are a closed set, and each has one status and one title; what a document says beyond them is fit for a client.
package problem

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/windrow-run/windrow/api/contract"
)

// RequestIDHeader names the request; the name also ends up in the document's instance.
const RequestIDHeader = "X-Request-ID"

// MaxErrors is how many errors a document lists at most.
const MaxErrors = 20

// retryAfter is the seconds after which another try makes sense where a document says "not now".
const retryAfter = 1

// Problem is a document that is going to be written, or has been. The zero value is not a problem; [New] makes one.
type Problem struct {
	contract.Problem
	retryAfter int // seconds; 0: as the status has it
}

// New returns the problem with a code, and a detail that says what is wrong with this request; no format is no detail.
func New(code contract.ProblemCode, format string, args ...any) *Problem {
	status, title := about(code)
	return &Problem{Problem: contract.Problem{
		Type:   "https://windrow.run/problems/" + string(code),
		Title:  title,
		Status: status,
		Detail: fmt.Sprintf(format, args...),
		Code:   code,
	}}
}

// WithLimit adds the limit that was hit.
func (p *Problem) WithLimit(limit int64) *Problem {
	p.Limit = limit
	return p
}

// WithRetryAfter says after how many seconds another try makes sense.
func (p *Problem) WithRetryAfter(seconds int) *Problem {
	p.retryAfter = seconds
	return p
}

// WithErrors adds what is wrong, place by place, up to [MaxErrors] of them.
func (p *Problem) WithErrors(errors ...contract.ProblemError) *Problem {
	p.Errors = errors[:min(len(errors), MaxErrors)]
	return p
}

// Teller is a response in which problems are told in other words than a document's.
type Teller interface {
	// Tell answers with the problem through w, which is the response or wraps it.
	Tell(w http.ResponseWriter, p *Problem)
}

// tellerOf finds the teller in what a response wraps.
func tellerOf(w http.ResponseWriter) (Teller, bool) {
	for {
		if teller, ok := w.(Teller); ok {
			return teller, true
		}
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil, false
		}
		w = wrapper.Unwrap()
	}
}

// RetryAfter is the seconds after which another try makes sense; 0: it is not a question of time.
func (p *Problem) RetryAfter() int {
	switch p.Status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return max(p.retryAfter, retryAfter)
	default:
		return 0
	}
}

// Error is a problem on its way to who answers the request with it.
type Error struct{ Problem *Problem }

func (e *Error) Error() string { return string(e.Problem.Code) + ": " + e.Problem.Detail }

// Err returns the problem as an error, an [*Error].
func (p *Problem) Err() error { return &Error{p} }

// Document is the problem of the request with that id, as it is written; empty: the request has none.
func (p *Problem) Document(requestID string) []byte {
	document := p.Problem
	if requestID != "" {
		document.Instance = "urn:windrow:request:" + requestID
	}
	body, err := contract.Encode(document)
	if err != nil { // texts and numbers can always be encoded
		panic(fmt.Sprintf("problem: %v", err))
	}
	return body
}

// Write answers a request with the problem, in the place of whatever the handler would have written.
func (p *Problem) Write(w http.ResponseWriter) {
	if teller, ok := tellerOf(w); ok {
		teller.Tell(w, p)
		return
	}
	header := w.Header()
	body := p.Document(header.Get(RequestIDHeader))
	header.Set("Content-Type", "application/problem+json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if seconds := p.RetryAfter(); seconds > 0 {
		header.Set("Retry-After", strconv.Itoa(seconds))
	}
	if p.Status == http.StatusUnsupportedMediaType {
		header.Set("Accept-Post", "application/json")
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // fails only where the client has gone
}

// about returns what a code stands for. A code that is not of the contract is the server's own fault.
func about(code contract.ProblemCode) (status int, title string) {
	switch code {
	case contract.ProblemCodeInvalidJSON:
		return http.StatusBadRequest, "The body is not strict JSON"
	case contract.ProblemCodeInvalidRequest:
		return http.StatusBadRequest, "The request is not valid"
	case contract.ProblemCodeInvalidIdempotencyKey:
		return http.StatusBadRequest, "The Idempotency-Key is not valid"
	case contract.ProblemCodeInvalidCursor:
		return http.StatusBadRequest, "The cursor is not valid"
	case contract.ProblemCodeUnauthenticated:
		return http.StatusUnauthorized, "The request must be authenticated"
	case contract.ProblemCodeForbidden:
		return http.StatusForbidden, "The token does not allow this"
	case contract.ProblemCodeNotFound:
		return http.StatusNotFound, "There is no such execution"
	case contract.ProblemCodeNoResult:
		return http.StatusNotFound, "The execution has no result"
	case contract.ProblemCodeUnknownDeployment:
		return http.StatusNotFound, "There is no such deployment"
	case contract.ProblemCodeNoSuchRoute:
		return http.StatusNotFound, "There is nothing at this path"
	case contract.ProblemCodeMethodNotAllowed:
		return http.StatusMethodNotAllowed, "The path does not have this method"
	case contract.ProblemCodeRequestTimeout:
		return http.StatusRequestTimeout, "The body did not arrive in time"
	case contract.ProblemCodeNotWaiting:
		return http.StatusConflict, "The execution does not wait for an answer"
	case contract.ProblemCodeWaitMoved:
		return http.StatusConflict, "The execution waits for another answer"
	case contract.ProblemCodeNotEnded:
		return http.StatusConflict, "The execution has not ended"
	case contract.ProblemCodeMoreMatch:
		return http.StatusConflict, "More executions match than were counted"
	case contract.ProblemCodeRevisionUnserved:
		return http.StatusConflict, "No worker serves the revision"
	case contract.ProblemCodeRevisionServed:
		return http.StatusConflict, "Workers serve the revision"
	case contract.ProblemCodeTooLarge:
		return http.StatusRequestEntityTooLarge, "The payload is too large"
	case contract.ProblemCodeUnsupportedMediaType:
		return http.StatusUnsupportedMediaType, "The body is not of a media type that is read here"
	case contract.ProblemCodeInvalidInput:
		return http.StatusUnprocessableEntity, "The input does not fit its schema"
	case contract.ProblemCodeInvalidOption:
		return http.StatusUnprocessableEntity, "An option can't be met"
	case contract.ProblemCodeKeyReused:
		return http.StatusUnprocessableEntity, "The Idempotency-Key is bound to another request"
	case contract.ProblemCodeRateLimited:
		return http.StatusTooManyRequests, "Too many requests"
	case contract.ProblemCodeOwnerCapacityReached:
		return http.StatusTooManyRequests, "The owner has as much unfinished work as they may"
	case contract.ProblemCodeTooManyViewers:
		return http.StatusTooManyRequests, "Too many streams are followed"
	case contract.ProblemCodeHeadersTooLarge:
		return http.StatusRequestHeaderFieldsTooLarge, "The headers are too large"
	default:
		return aboutServer(code)
	}
}

// aboutServer is about for what is not the client's fault.
func aboutServer(code contract.ProblemCode) (status int, title string) {
	switch code {
	case contract.ProblemCodeStoredStateInvalid:
		return http.StatusInternalServerError, "What is stored can't be read"
	case contract.ProblemCodeNotConfigured:
		return http.StatusNotImplemented, "The server was not set up for this"
	case contract.ProblemCodeAuthenticationUnavailable:
		return http.StatusServiceUnavailable, "The token can't be checked now"
	case contract.ProblemCodeCapacityReached:
		return http.StatusServiceUnavailable, "The deployment has as much unfinished work as it may"
	case contract.ProblemCodeDraining:
		return http.StatusServiceUnavailable, "The server shuts down"
	case contract.ProblemCodeStoreUnavailable:
		return http.StatusServiceUnavailable, "The store does not answer"
	case contract.ProblemCodeStreamInterrupted:
		return http.StatusServiceUnavailable, "The stream broke off"
	case contract.ProblemCodeUnconfirmed:
		return http.StatusServiceUnavailable, "The request may have been applied or not"
	default:
		return http.StatusInternalServerError, "The server failed"
	}
}
