package durable

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
)

// Wait says what a suspended execution waits for.
type Wait struct {
	// Kind tells programs what sort of answer is wanted. Empty: "input".
	Kind string
	// Message tells people.
	Message string
	// Timeout ends the wait. 0: it never ends. It must not be negative.
	Timeout time.Duration
	// Default is the answer that is taken when the wait times out. nil: the execution then fails with "wait_expired".
	Default any
}

// Suspend stops the execution until somebody answers. The function must return the error that it gets, wrapped or not;
// the attempt then ends and frees its slot. With the answer another attempt begins, and reads it with [Answer].
//
// State is saved as a checkpoint; nil keeps the last one. An answer must fit the JSON Schema that is derived from A, and a
// wrong one is refused without waking the execution. It returns another error where state can't be written as JSON, or
// where the wait is wrong in itself.
func Suspend[A any](c Context, state any, w Wait) error {
	expected, err := shapeOf[A](nil)
	if err != nil {
		return fmt.Errorf("durable: schema of the answer: %w", err)
	}
	return suspend(c, expected, state, w)
}

// SuspendSchema is [Suspend] with a JSON Schema of the author's own.
func SuspendSchema(c Context, schema json.RawMessage, state any, w Wait) error {
	if schema == nil {
		schema = json.RawMessage("true")
	}
	expected, err := shapeOf[json.RawMessage](schema)
	if err != nil {
		return fmt.Errorf("durable: schema of the answer: %w", err)
	}
	return suspend(c, expected, state, w)
}

// Answer reads the answer to the last wait into A and reports whether there is one. It stays readable, by later attempts
// too, until the next checkpoint takes its place: save what you make of it.
func Answer[A any](c Context) (A, bool, error) {
	var answer A
	data := c.attempt().Answer()
	if data == nil {
		return answer, false, nil
	}
	if err := decode(data, &answer, false); err != nil {
		return answer, false, Error{Type: "AnswerUnreadable", Code: "answer_unreadable",
			Message: "The answer does not fit the type that the deployment reads.", Err: err}
	}
	return answer, true, nil
}

// suspension is the error by which an attempt ends in a wait.
type suspension struct{ outcome handler.Suspended }

func (*suspension) Error() string {
	return "durable: suspended: the deployment's function must return this error"
}

// suspend checks the wait before anything ends: an attempt that can't be suspended as it asks should learn so at once.
func suspend(c Context, expected handler.Schema, state any, w Wait) error {
	if err := stopped(c); err != nil {
		return err
	}
	if w.Timeout < 0 {
		return fmt.Errorf("durable: the timeout of a wait is negative: %v", w.Timeout)
	}
	answer, err := defaultAnswer(expected, w.Default)
	if err != nil {
		return err
	}
	var checkpoint []byte
	if state != nil {
		if checkpoint, err = seal(state); err != nil {
			return err
		}
	}
	if w.Kind == "" {
		w.Kind = "input"
	}
	wait := execution.Wait{Kind: w.Kind, Message: w.Message, Schema: expected.JSON(), Default: answer}
	return &suspension{handler.Suspended{Checkpoint: checkpoint, Wait: wait, Timeout: w.Timeout}}
}

// defaultAnswer renders the default and holds it against the schema, as any other answer.
func defaultAnswer(expected handler.Schema, v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	data, err := encode(v)
	if err != nil {
		return nil, fmt.Errorf("durable: write default answer: %w", err)
	}
	if broken := expected.Validate(data); len(broken) > 0 {
		return nil, fmt.Errorf("durable: default answer: %q %s", broken[0].Pointer, broken[0].Message)
	}
	return data, nil
}
