package client

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Status is where an execution stands.
type Status string

// The statuses. The last three are final.
const (
	Queued    Status = "queued"
	Running   Status = "running"
	Waiting   Status = "waiting"
	Completed Status = "completed"
	Failed    Status = "failed"
	Canceled  Status = "canceled"
)

// Terminal reports whether the status is final.
func (s Status) Terminal() bool { return s == Completed || s == Failed || s == Canceled }

// Execution is an execution as the server shows it.
type Execution struct {
	ID         string `json:"execution_id"`
	Deployment string `json:"deployment"`
	Revision   string `json:"revision"`
	Status     Status `json:"status"`
	Attempt    int64  `json:"attempt"`
	// Sequence grows with every change. That of a waiting execution names its wait.
	Sequence int64           `json:"sequence"`
	Progress []Progress      `json:"progress,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
	Error    *Failure        `json:"error,omitempty"`
	Waiting  *Wait           `json:"waiting,omitempty"`
	// CancelRequested is when cancellation was asked for, nil if it never was.
	CancelRequested *time.Time `json:"cancellation_requested_at,omitempty"`
	// Available is when a queued execution falls due, nil if it is due.
	Available *time.Time `json:"available_at,omitempty"`
	Created   time.Time  `json:"created_at"`
	Updated   time.Time  `json:"updated_at"`
	// Raw is the whole answer as the server sent it.
	Raw json.RawMessage `json:"-"`
}

// parseExecution reads an execution and keeps the bytes.
func parseExecution(data []byte) (Execution, error) {
	e := Execution{Raw: data}
	if err := json.Unmarshal(data, &e); err != nil {
		return Execution{}, fmt.Errorf("client: the answer is no execution: %w", err)
	}
	if e.ID == "" {
		return Execution{}, fmt.Errorf("client: the answer is no execution: is this a Windrow server?")
	}
	return e, nil
}

// Progress is one event that the deployment reported.
type Progress struct {
	Sequence int64           `json:"sequence"`
	Kind     string          `json:"kind"`
	Message  string          `json:"message"`
	Time     time.Time       `json:"timestamp"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// Failure is why an execution failed.
type Failure struct {
	Type      string `json:"type"`
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

// Wait is what a waiting execution waits for.
type Wait struct {
	Kind     string          `json:"kind,omitempty"`
	Message  string          `json:"message,omitempty"`
	Schema   json.RawMessage `json:"expected_input_schema,omitempty"`
	Deadline *time.Time      `json:"deadline,omitempty"`
}

// Problem is a refusal by the server: a problem document (RFC 9457).
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Code is stable and made for programs. Empty where the answer came from something else than Windrow.
	Code string `json:"code,omitempty"`
	// Violations are the rules that an input or an answer breaks.
	Violations []Violation `json:"errors,omitempty"`
	// RetryAfter is how long the server asks to be left alone. 0: it did not say.
	RetryAfter time.Duration `json:"-"`
}

// Violation is one rule of a schema that a value breaks.
type Violation struct {
	Pointer string `json:"pointer"` // JSON Pointer (RFC 6901) of the value
	Detail  string `json:"detail"`
}

func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	var lines strings.Builder
	fmt.Fprintf(&lines, "%s (%d", text, p.Status)
	if p.Code != "" {
		fmt.Fprintf(&lines, " %s", p.Code)
	}
	lines.WriteByte(')')
	for _, v := range p.Violations {
		fmt.Fprintf(&lines, "\n  %q: %s", v.Pointer, v.Detail)
	}
	return lines.String()
}

// Kind says what an event of a stream is.
type Kind string

// The kinds of event. Data of the last three is the whole [Execution], and nothing follows them.
const (
	EventStatus    Kind = "status"    // data is a StatusChange
	EventProgress  Kind = "progress"  // data is a Progress
	EventChunk     Kind = "chunk"     // data is a Chunk
	EventGap       Kind = "gap"       // data is a Gap: something before this point can't be shown any more
	EventCompleted Kind = "completed" // data is an Execution
	EventFailed    Kind = "failed"
	EventCanceled  Kind = "canceled"

	eventError Kind = "error" // the stream breaks off; it is followed by a reconnect
)

// Event is one event of a stream.
type Event struct {
	// ID is the cursor after this event, for [StreamOptions].
	ID   string
	Kind Kind
	Data json.RawMessage
}

// Terminal reports whether the event is the last one.
func (e Event) Terminal() bool { return Status(e.Kind).Terminal() }

// Execution reads the data of a terminal event.
func (e Event) Execution() (Execution, error) { return parseExecution(e.Data) }

// Decode reads the event's data, whose type its kind tells.
func (e Event) Decode(into any) error {
	if err := json.Unmarshal(e.Data, into); err != nil {
		return fmt.Errorf("client: data of a %s event: %w", e.Kind, err)
	}
	return nil
}

// StatusChange is the data of a status event.
type StatusChange struct {
	Status    Status     `json:"status"`
	Attempt   int64      `json:"attempt"`
	Sequence  int64      `json:"sequence"`
	Waiting   *Wait      `json:"waiting,omitempty"`
	Available *time.Time `json:"available_at,omitempty"`
}

// Chunk is the data of a chunk event.
type Chunk struct {
	Attempt int64           `json:"attempt"`
	Payload json.RawMessage `json:"payload"`
}

// Gap is the data of a gap event.
type Gap struct {
	Detail string `json:"detail"`
}
