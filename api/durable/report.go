package durable

import (
	"encoding/json"
	"fmt"
)

// Event is a progress event: small, durable, and kept in order.
type Event struct {
	// Kind groups events for programs. Empty: "progress".
	Kind string
	// Message is for people.
	Message string
	// Metadata is anything that can be written as JSON. nil: none.
	Metadata any
	// Now commits the event at once, with an exchange of its own. Otherwise it is committed with the next checkpoint, or
	// with the end of the attempt.
	Now bool
}

// Progress reports that something was reached. The event is committed with the next checkpoint or the end of the attempt.
// It returns an error where the message is larger than the runtime allows, or when the attempt must stop.
func Progress(c Context, message string) error { return Report(c, Event{Message: message}) }

// Report is [Progress] with all that an event can have. It also returns an error where the metadata can't be written as
// JSON.
func Report(c Context, e Event) error {
	var metadata json.RawMessage
	if e.Metadata != nil {
		data, err := encode(e.Metadata)
		if err != nil {
			return fmt.Errorf("durable: write progress metadata: %w", err)
		}
		metadata = data
	}
	if e.Kind == "" {
		e.Kind = "progress"
	}
	return refused(c.attempt().Report(c, e.Kind, e.Message, metadata, e.Now))
}

// Stream sends a chunk of output, any value that can be written as JSON, to whoever follows the execution. It never waits
// for the store. Chunks are best effort: those that were not flushed yet are lost with their worker, the next attempt
// streams its own, and only the newest are kept for viewers who come late.
//
// It returns an error where the chunk can't be written as JSON or is larger than the runtime allows, or when the attempt
// must stop.
func Stream(c Context, chunk any) error {
	data, err := encode(chunk)
	if err != nil {
		return fmt.Errorf("durable: write chunk: %w", err)
	}
	return refused(c.attempt().Stream(data))
}

// Check returns nil while the attempt may go on, and [ErrCanceled], [ErrLeaseLost] or [ErrShutdown] when it must stop.
// Call it before expensive or irreversible work. It asks the store, but not more often than every half second.
func Check(c Context) error { return refused(c.attempt().Check(c)) }
