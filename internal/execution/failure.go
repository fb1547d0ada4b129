package execution

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// Failure is the public error of an execution: all that a client ever sees of what went wrong.
type Failure struct {
	Type      string `json:"type"`      // class of the error, at most 256 bytes
	Code      string `json:"code"`      // stable, for programs, at most 256 bytes
	Message   string `json:"message"`   // for people, at most 2,000 bytes
	Retryable bool   `json:"retryable"` // another submission may succeed
}

// FailedText is all that clients learn of an error that its author did not make public, beyond its class.
const FailedText = "The deployment failed. The reason is in the log of the worker."

// Complete returns a copy with what its author left empty: the type Error, FailureApplication, and FailedText.
func (f Failure) Complete() Failure {
	f.Type = cmp.Or(f.Type, "Error")
	f.Code = cmp.Or(f.Code, FailureApplication)
	f.Message = cmp.Or(f.Message, FailedText)
	return f
}

// Codes of the failures that the runtime itself writes.
const (
	FailureLeaseLost        = "lease_lost"               // the budget of lost leases is spent
	FailureNoProgress       = "no_progress"              // the budget of claims without progress is spent
	FailureRetriesExhausted = "retries_exhausted"        // the budget of application retries is spent
	FailureWaitExpired      = "wait_expired"             // nobody answered in time
	FailureDeadline         = "deadline_exceeded"        // it has not ended in time
	FailureQueueExpired     = "queue_expired"            // nobody has claimed it in time
	FailureUnserved         = "revision_unserved"        // an operator ended what no worker takes up
	FailureStoredInvalid    = "stored_execution_invalid" // what is stored can't be run
	FailureApplication      = "application_error"        // the author's code failed without a public error
	FailureTooLarge         = "payload_too_large"        // the author's code returned more than may be stored
)

// Encode renders the failure as the stored error payload. Over-long texts are cut at a character boundary.
func (f Failure) Encode() []byte {
	f.Type, f.Code, f.Message = clip(f.Type, 256), clip(f.Code, 256), clip(f.Message, 2000)
	data, err := marshal(f)
	if err != nil { // three strings and a bool can't fail to encode
		panic(fmt.Sprintf("encode failure: %v", err))
	}
	return data
}

// DecodeFailure parses a stored error payload.
func DecodeFailure(data []byte) (Failure, error) {
	var f Failure
	if err := json.Unmarshal(data, &f); err != nil {
		return Failure{}, fmt.Errorf("stored error: %w", err)
	}
	return f, nil
}

func leaseLost(n int64) Failure {
	return Failure{Type: "LeaseLost", Code: FailureLeaseLost,
		Message: fmt.Sprintf("The worker was lost %d times.", n), Retryable: true}
}

func noProgress(n int64) Failure {
	return Failure{Type: "NoProgress", Code: FailureNoProgress,
		Message: fmt.Sprintf("%d attempts in a row ended without a new checkpoint.", n), Retryable: true}
}

func retriesExhausted(last Failure) Failure {
	return Failure{Type: last.Type, Code: FailureRetriesExhausted, Message: last.Message, Retryable: false}
}

func waitExpired() Failure {
	return Failure{Type: "WaitExpired", Code: FailureWaitExpired, Message: "No answer arrived before the deadline."}
}

// DeadlineExceeded is the failure of an execution that has not ended by its deadline.
func DeadlineExceeded() Failure {
	return Failure{Type: "DeadlineExceeded", Code: FailureDeadline, Message: "The work did not end before its deadline."}
}

func queueExpired() Failure {
	return Failure{Type: "QueueExpired", Code: FailureQueueExpired, Message: "No worker took the work up in time.", Retryable: true}
}

func revisionUnserved(reason string) Failure {
	f := Failure{Type: "RevisionUnserved", Code: FailureUnserved, Message: "An operator ended the work, since no worker takes it up.", Retryable: true}
	if reason != "" {
		f.Message = "An operator ended the work: " + reason
	}
	return f
}

// clip cuts s to at most n bytes without splitting a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}
