package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/windrow-run/windrow/api/client"
	"github.com/windrow-run/windrow/api/contract"
)

func (m *Main) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "watch ID", Short: "Follow an execution until it ends", Args: arguments(1, 1, "an id"),
		Long: "Follow an execution until it ends. Its output and its result go to standard output, what happens to it to " +
			"standard error. A lost connection is made again, and nothing is shown twice.\n\n" +
			"Exit code: 0 completed, 3 failed, 4 canceled, 1 it could not be followed.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := m.clientOf(cmd)
			if err != nil {
				return err
			}
			return m.follow(cmd.Context(), c, args[0], false)
		},
	}
}

// follow shows an execution until it ends; quiet: only its end.
func (m *Main) follow(ctx context.Context, c *client.Client, id string, quiet bool) error {
	v := &viewer{program: m.program(), id: id, out: m.Stdout, sayf: m.sayf, quiet: quiet}
	opts := &client.StreamOptions{OnReconnect: v.reconnecting}
	if quiet {
		opts.Only = []client.Kind{} // none but the end
	}
	for event, err := range c.Stream(ctx, id, opts) {
		if err != nil {
			v.breakLine()
			return err
		}
		if event.Terminal() {
			return v.end(event)
		}
		if err := v.show(event); err != nil {
			return err
		}
	}
	return fmt.Errorf("the stream of %s ended without an outcome", id)
}

// viewer prints the events of one execution.
type viewer struct {
	program string
	id      string
	out     io.Writer
	sayf    func(format string, args ...any) // writes a line about the execution
	quiet   bool
	midLine bool  // the last output did not end a line, and nothing was said since
	openOut bool  // standard output, taken for itself, is in the middle of a line
	attempt int64 // that the last output came from
}

func (v *viewer) show(event client.Event) error {
	if v.quiet {
		return nil
	}
	switch event.Kind { //nolint:exhaustive // the last event goes elsewhere, and a newer server may send more
	case client.EventChunk:
		return v.chunk(event)
	case client.EventProgress:
		var p contract.ProgressEvent
		err := event.Decode(&p)
		v.notef("· %s", p.Message)
		return err
	case client.EventStatus:
		return v.status(event)
	case client.EventGap:
		var g contract.GapEvent
		err := event.Decode(&g)
		v.notef("some output can't be shown any more: %s", g.Detail)
		return err
	}
	return nil
}

// chunk prints the text of a chunk: a string, the member "text" of an object, or else the JSON as a line.
func (v *viewer) chunk(event client.Event) error {
	var c contract.ChunkEvent
	if err := event.Decode(&c); err != nil {
		return err
	}
	if v.attempt != 0 && c.Attempt > v.attempt {
		v.notef("attempt %d goes on from the last checkpoint", c.Attempt)
	}
	v.attempt = c.Attempt
	text := textOf(c.Payload)
	if text == "" {
		return nil
	}
	v.openOut = text[len(text)-1] != '\n'
	v.midLine = v.openOut
	_, err := io.WriteString(v.out, text)
	return err
}

func textOf(payload json.RawMessage) string {
	var text string
	if json.Unmarshal(payload, &text) == nil {
		return text
	}
	var object struct {
		Text *string `json:"text"`
	}
	if json.Unmarshal(payload, &object) == nil && object.Text != nil {
		return *object.Text
	}
	return string(payload) + "\n"
}

func (v *viewer) status(event client.Event) error {
	var s contract.StatusEvent
	if err := event.Decode(&s); err != nil {
		return err
	}
	switch {
	case s.Status == contract.ExecutionStatusWaiting && s.Waiting != nil:
		v.notef("waiting: %s\n  answer with: %s resume %s JSON", s.Waiting.Message, v.program, v.id)
	case s.Status == contract.ExecutionStatusRunning:
		v.notef("running, attempt %d", s.Attempt)
	case s.AvailableAt != nil:
		v.notef("%s until %s", s.Status, s.AvailableAt.Local().Format(time.TimeOnly))
	default:
		v.notef("%s", s.Status)
	}
	return nil
}

// end prints the outcome and turns it into an exit code.
func (v *viewer) end(event client.Event) error {
	e, err := event.Execution()
	if err != nil {
		return err
	}
	if err := v.endOutput(); err != nil {
		return err
	}
	switch e.Status { //nolint:exhaustive // all others are told by outcome
	case contract.ExecutionStatusCompleted:
		v.notef("completed at attempt %d", e.Attempt)
		_, err := fmt.Fprintf(v.out, "%s\n", e.Result)
		return err
	case contract.ExecutionStatusCanceled:
		v.notef("canceled")
	}
	return outcome(e)
}

// outcome turns how an execution ended into an exit code.
func outcome(e client.Execution) error {
	switch {
	case e.Status == contract.ExecutionStatusCompleted:
		return nil
	case e.Status == contract.ExecutionStatusFailed && e.Error != nil:
		return &codedError{exitFailed, fmt.Errorf("failed: %s: %s (%s)", e.Error.Type, e.Error.Message, e.Error.Code)}
	case e.Status == contract.ExecutionStatusCanceled:
		return &codedError{exitCanceled, nil}
	}
	return fmt.Errorf("the execution ended as %q, which this version does not know", e.Status)
}

func (v *viewer) reconnecting(lost error, in time.Duration) {
	if request, ok := errors.AsType[*url.Error](lost); ok {
		lost = request.Err // which server it was is known
	}
	if errors.Is(lost, io.ErrUnexpectedEOF) {
		lost = errWentAway
	}
	v.notef("connection lost (%v), trying again in %v", lost, in.Round(10*time.Millisecond))
}

var errWentAway = errors.New("the server went away")

// notef says something about the execution on a line of its own.
func (v *viewer) notef(format string, args ...any) {
	if v.quiet {
		return
	}
	v.breakLine()
	v.sayf(format, args...)
}

// endOutput ends the last line of the output, so that the result stands on a line of its own also where only standard output is
// looked at.
func (v *viewer) endOutput() error {
	if !v.openOut {
		return nil
	}
	v.openOut, v.midLine = false, false
	_, err := io.WriteString(v.out, "\n")
	return err
}

// breakLine keeps notes off the lines of the output, which is usually the same terminal.
func (v *viewer) breakLine() {
	if v.midLine {
		v.sayf("")
		v.midLine = false
	}
}
