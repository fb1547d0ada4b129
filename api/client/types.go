package client

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/windrow-run/windrow/api/contract"
)

// Execution is an execution as the server shows it.
type Execution struct {
	contract.Execution
	// Raw is the whole answer as the server sent it.
	Raw json.RawMessage
	// ETag names this state of the execution, for [Client.Refresh]. Empty: it came with no answer of its own.
	ETag string
}

// Ended reports whether the execution's status is final.
func (e Execution) Ended() bool { return terminal(string(e.Status)) }

func terminal(status string) bool {
	s := contract.ExecutionStatus(status)
	return s == contract.ExecutionStatusCompleted || s == contract.ExecutionStatusFailed || s == contract.ExecutionStatusCanceled
}

// parseExecution reads an execution and keeps the bytes.
func parseExecution(data []byte) (Execution, error) {
	e := Execution{Raw: data}
	if err := json.Unmarshal(data, &e.Execution); err != nil {
		return Execution{}, fmt.Errorf("client: the answer is no execution: %w", err)
	}
	if e.ExecutionID == "" {
		return Execution{}, fmt.Errorf("client: the answer is no execution: is this a Windrow server?")
	}
	return e, nil
}

// parseOutcomes reads the answer to a batch of so many items.
func parseOutcomes(data []byte, items int) ([]Outcome, error) {
	var answer struct {
		Results []struct {
			Replayed  bool
			Execution json.RawMessage
			Problem   *contract.Problem
		}
	}
	if err := json.Unmarshal(data, &answer); err != nil || len(answer.Results) != items {
		return nil, fmt.Errorf("client: the answer is none to a batch of %d: is this a Windrow server?", items)
	}
	outcomes := make([]Outcome, items)
	for i, result := range answer.Results {
		if result.Problem != nil {
			outcomes[i].Problem = &Problem{Problem: *result.Problem}
			continue
		}
		e, err := parseExecution(result.Execution)
		if err != nil {
			return nil, err
		}
		outcomes[i] = Outcome{Execution: e, Replayed: result.Replayed}
	}
	return outcomes, nil
}

// Problem is a refusal by the server. Where something else than Windrow answered, only its title and status are known.
type Problem struct {
	contract.Problem
	// RetryAfter is how long the server asks to be left alone. 0: it did not say.
	RetryAfter time.Duration
}

func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	var lines strings.Builder
	fmt.Fprintf(&lines, "%s (%s)", text, strings.TrimSpace(fmt.Sprint(p.Status, " ", p.Code)))
	for _, e := range p.Errors {
		fmt.Fprintf(&lines, "\n  %q %s", e.Pointer, e.Message)
	}
	return lines.String()
}

// Kind says what an event of a stream is.
type Kind string

// The kinds of event, with the type of their data. Nothing follows one of the last three.
const (
	EventStatus    Kind = "status"    // contract.StatusEvent
	EventProgress  Kind = "progress"  // contract.ProgressEvent
	EventChunk     Kind = "chunk"     // contract.ChunkEvent; a higher attempt than before begins the output anew
	EventGap       Kind = "gap"       // contract.GapEvent: something before this point can't be shown any more
	EventCompleted Kind = "completed" // contract.Execution
	EventFailed    Kind = "failed"    // contract.Execution
	EventCanceled  Kind = "canceled"  // contract.Execution

	eventError Kind = "error" // the stream breaks off; a new connection follows
)

// Event is one event of a stream.
type Event struct {
	// ID is the cursor after this event, for [StreamOptions].
	ID   string
	Kind Kind
	Data json.RawMessage
}

// Terminal reports whether the event is the last one.
func (e Event) Terminal() bool { return terminal(string(e.Kind)) }

// Execution reads the data of a terminal event.
func (e Event) Execution() (Execution, error) { return parseExecution(e.Data) }

// Decode reads the event's data, whose type its kind tells.
func (e Event) Decode(into any) error {
	if err := json.Unmarshal(e.Data, into); err != nil {
		return fmt.Errorf("client: data of a %s event: %w", e.Kind, err)
	}
	return nil
}
