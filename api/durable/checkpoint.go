package durable

import (
	"encoding/json"
	"fmt"

	"github.com/windrow-run/windrow/internal/execution"
)

// envelopeVersion is the storage schema of checkpoint envelopes that this release writes, and the newest that it reads.
const envelopeVersion = 1

// envelope is a checkpoint as it is stored. The author's bytes stand in it unchanged.
type envelope struct {
	Version int             `json:"v"`
	State   json.RawMessage `json:"state"`
}

// Save commits a checkpoint: state, as JSON, and the progress reported so far. It takes the place of the one before.
// When Save returns nil, every later attempt starts from this state or a newer one.
//
// It returns [ErrCanceled] (the state was stored all the same), [ErrLeaseLost] or [ErrShutdown] when the attempt must
// stop, and another error where state can't be written as JSON or is larger than the runtime allows; nothing was stored
// then, and the function may go on.
func Save(c Context, state any) error {
	data, err := seal(state)
	if err != nil {
		return err
	}
	return refused(c.attempt().Save(c, data))
}

// Restore reads the last checkpoint into state and reports whether there was one. Without one state is left alone.
func Restore[S any](c Context, state *S) (bool, error) {
	data := c.attempt().Info().Checkpoint
	if data == nil {
		return false, nil
	}
	var e envelope
	if err := decode(data, &e, false); err != nil {
		return false, unreadable(err)
	}
	if e.Version < 1 || e.Version > envelopeVersion {
		return false, unreadable(fmt.Errorf("envelope version %d", e.Version))
	}
	var read S
	if err := decode(e.State, &read, false); err != nil {
		return false, unreadable(err)
	}
	*state = read
	return true, nil
}

// seal renders state in its envelope.
func seal(state any) ([]byte, error) {
	data, err := encode(state)
	if err != nil {
		return nil, fmt.Errorf("durable: write checkpoint: %w", err)
	}
	return encode(envelope{Version: envelopeVersion, State: data})
}

// unreadable fails the execution: no later attempt of this revision could read the state either.
func unreadable(err error) error {
	return Error{Type: "CheckpointUnreadable", Code: execution.FailureStoredInvalid,
		Message: "The stored checkpoint can't be read by this revision.", Err: err}
}
