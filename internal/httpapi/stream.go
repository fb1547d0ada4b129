package httpapi

import (
	"errors"
	"io"
	"net/http"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/sse"
	"github.com/windrow-run/windrow/internal/stream"
)

// StreamExecution implements [route.ServerInterface].
func (a *api) StreamExecution(w http.ResponseWriter, r *http.Request, id contract.ExecutionID, params contract.StreamExecutionParams) {
	viewer, err := a.Hub.Subscribe(r.Context(), stream.Request{ID: id, Scope: everyone(), Cursor: cursorOf(params)})
	switch {
	case errors.Is(err, stream.ErrNothingMore):
		w.WriteHeader(http.StatusNoContent)
		return
	case err != nil:
		a.refuse(w, r, err)
		return
	}
	defer viewer.Close()
	deployment := viewer.Deployment()
	a.Metrics.ViewerOpened(deployment)
	defer a.Metrics.ViewerClosed(deployment)
	writer, err := sse.NewWriter(w, a.SendTimeout)
	if err != nil {
		return
	}
	a.send(r, viewer, writer)
}

// cursorOf is where the client wants to go on. The header comes first: a browser that reconnects sends its newest id there,
// while the query still has the one that the page began with.
func cursorOf(params contract.StreamExecutionParams) string {
	if params.LastEventID != nil && *params.LastEventID != "" {
		return *params.LastEventID
	}
	if params.Cursor != nil {
		return *params.Cursor
	}
	return ""
}

// send writes events until the stream ends or the client has gone.
func (a *api) send(r *http.Request, viewer *stream.Viewer, writer *sse.Writer) {
	for {
		event, err := viewer.Next(r.Context())
		if err != nil {
			if !errors.Is(err, io.EOF) && r.Context().Err() == nil {
				a.Logger.Error("a stream failed", "error", err)
			}
			return
		}
		if err := writer.Send(a.frame(event)); err != nil {
			return
		}
		a.Metrics.StreamEvent(kindOf(event))
	}
}

// frame renders an event. Live events are shared, and so is what was made of them.
func (a *api) frame(event stream.Event) []byte {
	if opened, ok := event.(*stream.Opened); ok { // each viewer has a time of its own for coming back
		return appendOpened(sse.AppendRetry(nil, sse.Jitter(a.Reconnect)), opened)
	}
	return event.Frame(func() []byte { return render(event) })
}

func appendOpened(dst []byte, opened *stream.Opened) []byte {
	cursor, ok := opened.Cursor()
	if !ok {
		return dst
	}
	dst, _ = sse.AppendID(dst, cursor.String()) // a cursor has no line breaks
	return dst
}

func render(event stream.Event) []byte {
	if _, ok := event.(*stream.Keepalive); ok {
		return sse.AppendComment(nil, "keepalive")
	}
	id := ""
	if cursor, ok := event.Cursor(); ok {
		id = cursor.String()
	}
	frame, err := sse.AppendEvent(nil, sse.Event{ID: id, Name: kindOf(event), Data: string(dataOf(event))})
	if err != nil { // neither cursors nor kinds have line breaks
		panic(err)
	}
	return frame
}

// kindOf is the name of the event in the stream.
func kindOf(event stream.Event) string {
	switch event := event.(type) {
	case *stream.Opened:
		return "opened"
	case *stream.Keepalive:
		return "keepalive"
	case *stream.Status:
		return "status"
	case *stream.Progress:
		return "progress"
	case *stream.Chunk:
		return "chunk"
	case *stream.Gap:
		return "gap"
	case *stream.End:
		return string(event.Record.Control.Status)
	}
	return "error"
}

// dataOf is the data of the event: JSON.
func dataOf(event stream.Event) []byte {
	switch event := event.(type) {
	case *stream.Status:
		return statusData(event.StatusEntry)
	case *stream.Progress:
		return event.Data
	case *stream.Chunk:
		return append(appendRaw(append(appendNumber([]byte{'{'}, "attempt", event.Attempt), ','), "payload", event.Payload), '}')
	case *stream.Gap:
		return encode(contract.GapEvent{Detail: event.Detail})
	case *stream.End:
		if data, err := appendExecution(nil, event.Record); err == nil {
			return data
		}
		return encode(problem.New(contract.ProblemCodeStoredStateInvalid, "").Problem)
	case *stream.Interrupted:
		return encode(problem.New(interruption(event.Reason), "%s", event.Reason.Detail()).Problem)
	}
	return nil
}

func statusData(e execution.StatusEntry) []byte {
	dst := appendText([]byte{'{'}, "status", string(e.Status))
	dst = appendNumber(append(dst, ','), "attempt", e.Attempt)
	dst = appendNumber(append(dst, ','), "sequence", e.Version)
	if wait, err := waitingOf(e.Status, e.Wait, e.WaitUntil); err == nil && e.Wait != nil {
		dst = appendRaw(append(dst, ','), "waiting", wait)
	}
	if e.AvailableAt != 0 {
		dst = appendTime(append(dst, ','), "available_at", e.AvailableAt)
	}
	return append(dst, '}')
}

// interruption is the problem that a reason stands for.
func interruption(reason stream.Reason) contract.ProblemCode {
	switch reason {
	case stream.ReasonShutdown:
		return contract.ProblemCodeDraining
	case stream.ReasonSlow:
		return contract.ProblemCodeStreamInterrupted
	case stream.ReasonUnreadable:
		return contract.ProblemCodeStoredStateInvalid
	case stream.ReasonErased:
		return contract.ProblemCodeNotFound
	}
	return contract.ProblemCodeInternal
}

func encode(v any) []byte {
	data, err := contract.Encode(v)
	if err != nil { // texts and numbers have no way to fail
		panic(err)
	}
	return data
}
