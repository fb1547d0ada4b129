package hayhooks

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/strictjson"
)

// projection is contract.HayhooksExecution with what is stored as JSON left as it is.
type projection struct {
	ExecutionID             string                 `json:"execution_id"`
	Status                  execution.Status       `json:"status"`
	Attempt                 int64                  `json:"attempt"`
	Sequence                int64                  `json:"sequence"`
	Progress                []json.RawMessage      `json:"progress"`
	Result                  json.RawMessage        `json:"result"`
	Error                   json.RawMessage        `json:"error"`
	Waiting                 *contract.HayhooksWait `json:"waiting"`
	CancellationRequestedAt *string                `json:"cancellation_requested_at"`
	CreatedAt               string                 `json:"created_at"`
	UpdatedAt               string                 `json:"updated_at"`
	Links                   contract.Links         `json:"links"`
}

// Projection is an execution as the clients of hayhooks see it. An error says that what is stored can't be read.
func Projection(r store.Record) ([]byte, error) {
	c := r.Control
	self := Path(c.Deployment, c.ID)
	p := projection{
		ExecutionID: c.ID, Status: c.Status, Attempt: c.Attempt, Sequence: c.Version, Progress: progressOf(r.Progress),
		CreatedAt: execution.FormatMillis(c.CreatedAt), UpdatedAt: execution.FormatMillis(c.UpdatedAt),
		Links: contract.Links{Self: self, Cancel: self + "/cancel", Resume: self + "/resume", Stream: self + "/stream"},
	}
	if c.CanceledAt != 0 {
		at := execution.FormatMillis(c.CanceledAt)
		p.CancellationRequestedAt = &at
	}
	switch c.Status {
	case execution.Completed:
		p.Result = r.Result
	case execution.Failed, execution.Queued:
		p.Error = failureOf(c.Status, r.Error)
	case execution.Waiting:
		wait, err := execution.DecodeWait(r.Wait)
		if err != nil {
			return nil, fmt.Errorf("hayhooks: %w", err)
		}
		p.Waiting = &contract.HayhooksWait{Kind: wait.Kind, Message: wait.Message, ExpectedInputSchema: wait.Schema}
	case execution.Running, execution.Canceled:
	}
	return contract.Encode(p)
}

// progressOf adds the metadata to the events that have none: clients of hayhooks find it in each.
func progressOf(events [][]byte) []json.RawMessage {
	all := make([]json.RawMessage, len(events))
	for i, event := range events {
		all[i] = event
		fields, err := strictjson.Fields(event)
		if err == nil && !slices.ContainsFunc(fields, func(f strictjson.Field) bool { return f.Name == "metadata" }) {
			all[i] = append(slices.Clone(event[:len(event)-1]), `,"metadata":{}}`...)
		}
	}
	return all
}

// failureOf gives failures of the runtime itself the names that they have in hayhooks. Those that hayhooks does not know, and the
// author's own, stay as they are, as does an error that can't be read.
func failureOf(status execution.Status, stored []byte) []byte {
	failure, err := execution.DecodeFailure(stored)
	if err != nil {
		return stored
	}
	switch {
	case status == execution.Queued: // a retry is pending
		failure.Type, failure.Retryable = "RetryRequestedError", true
	case failure.Code == execution.FailureLeaseLost:
		failure.Type, failure.Code = "RunAttemptsExhaustedError", "run_attempts_exhausted"
	case failure.Code == execution.FailureRetriesExhausted:
		failure.Type, failure.Code = "ApplicationRetriesExhaustedError", "application_retries_exhausted"
	case failure.Code == execution.FailureStoredInvalid:
		failure.Type = "ExecutionStoreCorruptionError"
	default:
		return stored
	}
	return failure.Encode()
}
