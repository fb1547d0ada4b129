package durabletest

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/schema"
)

// Status is where the execution stands: one of the constants of this package.
func (e *Execution) Status() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return string(e.control.Status)
}

// Attempts is the number of attempts so far.
func (e *Execution) Attempts() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return int(e.control.Attempt)
}

// Result is what a completed execution returned, nil for any other.
func (e *Execution) Result() json.RawMessage { return e.payload(execution.PayloadResult) }

// Failure is the error of a failed execution, or of one that waits for a retry, as clients see it.
func (e *Execution) Failure() durable.Error {
	data := e.payload(execution.PayloadError)
	if data == nil {
		return durable.Error{}
	}
	f, err := execution.DecodeFailure(data)
	if err != nil { // it was encoded by the same package
		panic(err)
	}
	return durable.Error{Type: f.Type, Code: f.Code, Message: f.Message, Retryable: f.Retryable}
}

// Question is what a waiting execution asks, as clients see it: empty for any other.
func (e *Execution) Question() string {
	wait, err := e.wait()
	if err != nil {
		return ""
	}
	return wait.Message
}

// Progress returns the events reported so far, committed or not.
func (e *Execution) Progress() []durable.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.progress)
}

// Chunks returns what was streamed so far, by all attempts.
func (e *Execution) Chunks() []json.RawMessage {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.chunks)
}

func (e *Execution) payload(kind execution.PayloadKind) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.payloads[kind]
}

// wait returns the open wait.
func (e *Execution) wait() (execution.Wait, error) {
	data := e.payload(execution.PayloadWait)
	if data == nil {
		return execution.Wait{}, fmt.Errorf("durabletest: the execution is %s and waits for no answer", e.Status())
	}
	return execution.DecodeWait(data)
}

// checkAnswer holds an answer against the schema of the open wait.
func (e *Execution) checkAnswer(data []byte) error {
	wait, err := e.wait()
	if err != nil {
		return err
	}
	expected, err := schema.Compile(wait.Schema, schema.Limits{})
	if err != nil {
		return fmt.Errorf("durabletest: schema of the answer: %w", err)
	}
	if broken := expected.Validate(data); len(broken) > 0 {
		return fmt.Errorf("durabletest: answer refused: %q %s", broken[0].Pointer, broken[0].Message)
	}
	return nil
}
