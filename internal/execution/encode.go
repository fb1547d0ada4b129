package execution

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Wait is what a suspended execution waits for. Kind, message and schema are public; the default answer is not.
type Wait struct {
	Kind    string          `json:"kind,omitempty"`
	Message string          `json:"message,omitempty"`
	Schema  json.RawMessage `json:"expected_input_schema,omitempty"` // JSON Schema of the answer; nil: any JSON
	Default json.RawMessage `json:"default,omitempty"`               // taken when the wait expires; nil: the execution fails
}

// Encode renders the wait as its stored payload. Schema and default must be valid JSON; they are kept byte for byte.
func (w Wait) Encode() ([]byte, error) { return marshal(w) }

// DecodeWait parses a stored wait payload.
func DecodeWait(data []byte) (Wait, error) {
	var w Wait
	if err := json.Unmarshal(data, &w); err != nil {
		return Wait{}, fmt.Errorf("stored wait: %w", err)
	}
	return w, nil
}

// Encode renders the event with its number, as it is stored and as clients see it. Metadata is kept byte for byte.
func (e Event) Encode(sequence int64) ([]byte, error) {
	return marshal(struct {
		Sequence  int64           `json:"sequence"`
		Kind      string          `json:"kind"`
		Message   string          `json:"message"`
		Timestamp string          `json:"timestamp"`
		Metadata  json.RawMessage `json:"metadata,omitempty"`
	}{sequence, e.Kind, e.Message, FormatMillis(e.At), e.Metadata})
}

// FormatMillis renders a time as clients see it: RFC 3339 in UTC with milliseconds.
func FormatMillis(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// marshal is json.Marshal without escaping for HTML, which would change bytes of the user's JSON.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
