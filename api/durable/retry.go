package durable

import (
	"time"

	"github.com/windrow-run/windrow/internal/handler"
)

// Backoff is the delay of a [Retry] that leaves it to the deployment: it doubles with each retry, with jitter.
const Backoff time.Duration = -1

// Retry asks for another attempt after delay; 0 is at once, [Backoff] leaves the delay to the deployment. The function
// must return the error that it gets, wrapped or not. The next attempt starts from the last checkpoint.
//
// Cause says why. Clients see it, as they see any error that a function returns, while the retry is pending and when no
// retry is left; the rest goes to the log. A deployment grants two retries unless its [Options] say otherwise,
// so three tries; the next one fails the execution with the code "retries_exhausted".
func Retry(c Context, delay time.Duration, cause error) error {
	if err := stopped(c); err != nil {
		return err
	}
	if cause == nil {
		cause = Error{Type: "Retry", Code: "retry", Message: "The deployment asked for another attempt.", Retryable: true}
	}
	return &retrial{cause: cause, outcome: handler.Retried{
		Delay: max(delay, Backoff), Message: cause.Error(), Error: failureOf(cause),
	}}
}

// retrial is the error by which an attempt ends in favour of another one.
type retrial struct {
	cause   error
	outcome handler.Retried
}

func (*retrial) Error() string {
	return "durable: another attempt was asked for: the deployment's function must return this error"
}

func (r *retrial) Unwrap() error { return r.cause }
