package httpapi

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/sse"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/stream"
)

// StreamExecution implements [route.ServerInterface].
func (a *api) StreamExecution(w http.ResponseWriter, r *http.Request, id contract.ExecutionID, params contract.StreamExecutionParams) {
	scope, ok := a.visible(w, r, id)
	if !ok {
		return
	}
	skip, refused := skipped(params.Events)
	if refused != nil {
		refused.Write(w)
		return
	}
	request := stream.Request{ID: id, Scope: scope, Cursor: cursorOf(params), Skip: skip}
	a.follow(w, r, request, func(event stream.Event) ([]byte, string) {
		return a.frame(id, event), nameOf(event)
	})
}

// follow streams what tell makes of an execution's events; see send.
func (a *api) follow(w http.ResponseWriter, r *http.Request, request stream.Request, tell func(stream.Event) ([]byte, string)) {
	account := principalOf(r).Account()
	if refused := a.viewers.enter(account); refused != nil {
		refused.Write(w)
		return
	}
	leave := func() { a.viewers.leave(account) }
	defer func() { leave() }()
	viewer, err := a.Hub.Subscribe(r.Context(), request)
	switch {
	case errors.Is(err, stream.ErrNothingMore):
		w.WriteHeader(http.StatusNoContent)
		return
	case err != nil:
		a.refuse(w, r, err)
		return
	}
	leave = func() { viewer.Close(); a.viewers.leave(account) }
	writer, err := sse.NewWriter(w, a.SendTimeout)
	if err != nil || r.Method == http.MethodHead { // HEAD is told how GET begins, and is no viewer
		return
	}
	ctx, seated := r.Context(), leave
	leave = func() {}
	linger(r, func() {
		defer seated()
		deployment := viewer.Deployment()
		a.Metrics.ViewerOpened(deployment)
		defer a.Metrics.ViewerClosed(deployment)
		a.send(ctx, viewer, writer, tell)
	})
}

// maxEventNames is how many names there are.
const maxEventNames = 8

// skipped are the kinds of events that a viewer does without; nil: none.
func skipped(events *[]contract.StreamExecutionParamsEvents) (stream.Kinds, *problem.Problem) {
	if events == nil {
		return 0, nil
	}
	if len(*events) > maxEventNames {
		return 0, problem.New(contract.ProblemCodeInvalidRequest, "The parameter events must name at most %d events.", maxEventNames).
			WithLimit(maxEventNames)
	}
	skip := stream.Skippable
	if slices.Equal(*events, []contract.StreamExecutionParamsEvents{""}) { // an empty list, as it stands in a query
		return skip, nil
	}
	for _, name := range *events {
		switch name {
		case contract.StreamExecutionParamsEventsStatus:
			skip &^= stream.Statuses
		case contract.StreamExecutionParamsEventsProgress:
			skip &^= stream.Progresses
		case contract.StreamExecutionParamsEventsChunk:
			skip &^= stream.Chunks
		default:
			if !name.Valid() {
				return 0, problem.New(contract.ProblemCodeInvalidRequest, "The parameter events names %q, and no event has that name.", clip(string(name)))
			}
		}
	}
	return skip, nil
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

// burstBytes is how much may be gathered before it is written.
const burstBytes = 32 << 10

// send writes what tell makes of events until the stream ends or the client has gone, and counts them by the name it gives. What is at
// hand goes out in one write; nothing waits for more.
func (a *api) send(ctx context.Context, viewer *stream.Viewer, writer *sse.Writer, tell func(stream.Event) ([]byte, string)) {
	for {
		event, err := viewer.Next(ctx)
		if err != nil {
			return
		}
		frames, name := tell(event)
		names := []string{name}
		frames = slices.Clip(frames) // shared: the first event that is added moves it
		for len(frames) < burstBytes {
			next, ok := viewer.More()
			if !ok {
				break
			}
			more, name := tell(next)
			names, frames = append(names, name), append(frames, more...)
		}
		if err := writer.Send(frames); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				a.Metrics.ViewerCut()
			}
			return
		}
		for _, name := range names {
			if name != "" {
				a.Metrics.StreamEvent(name)
			}
		}
	}
}

// frame renders an event. Live events are shared, and so is what was made of them.
func (a *api) frame(id string, event stream.Event) []byte {
	if opened, ok := event.(*stream.Opened); ok { // each viewer has a time of its own for coming back
		return opening(opened, sse.AppendRetry(nil, sse.Jitter(a.Reconnect)))
	}
	return event.Frame(func() []byte {
		a.remember(id, event)
		return render(event)
	})
}

// remember has the runtime keep a wait that viewers are shown: one of them is about to answer it.
func (a *api) remember(id string, event stream.Event) {
	status, ok := event.(*stream.Status)
	if !ok || status.Status != execution.Waiting {
		return
	}
	a.Runtime.SawWait(store.Record{Wait: status.Wait, // an execution keeps its version while it waits
		Control: execution.Control{ID: id, Status: status.Status, WaitSequence: status.Version}})
}

// opening is the first frame: no event, but the place to come back to.
func opening(opened *stream.Opened, dst []byte) []byte {
	dst, err := sse.AppendID(dst, cursorText(opened))
	if err != nil { // a cursor has no line breaks
		panic(err)
	}
	return dst
}

func render(event stream.Event) []byte {
	name := nameOf(event)
	if name == "" {
		return keepalive(event)
	}
	e := sse.Event{ID: cursorText(event), Name: name, Data: string(dataOf(event))}
	frame, err := sse.AppendEvent(make([]byte, 0, len(e.ID)+len(e.Name)+len(e.Data)+32), e)
	if err != nil { // neither cursors nor names have line breaks
		panic(err)
	}
	return frame
}

// keepalive is a comment, with the place to come back to where the viewer has passed what it is not told of.
func keepalive(event stream.Event) []byte {
	var dst []byte
	if cursor := cursorText(event); cursor != "" {
		dst, _ = sse.AppendID(nil, cursor) // a cursor has no line breaks
	}
	return sse.AppendComment(dst, "keepalive")
}

// cursorText is the id of an event; empty where it is no place of its own.
func cursorText(event stream.Event) string {
	if cursor, ok := event.Cursor(); ok {
		return cursor.String()
	}
	return ""
}

// nameOf is the event's name in the stream; empty for what is no event to clients.
func nameOf(event stream.Event) string {
	switch event := event.(type) {
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
	case *stream.Interrupted:
		return "error"
	}
	return ""
}

// dataOf is the data of what has a name: JSON.
func dataOf(event stream.Event) []byte {
	switch event := event.(type) {
	case *stream.Status:
		return statusData(event.StatusEntry)
	case *stream.Progress:
		return event.Data
	case *stream.Chunk:
		dst := append(make([]byte, 0, len(event.Payload)+48), '{')
		return append(appendRaw(append(appendNumber(dst, "attempt", event.Attempt), ','), "payload", event.Payload), '}')
	case *stream.Gap:
		return encode(contract.GapEvent{Detail: sentence(event.Detail)})
	case *stream.End:
		data, _ := projectionOf(event.Record) // only a wait can be unreadable, and what has ended has none
		return data
	case *stream.Interrupted:
		return encode(problem.New(interruption(event.Reason), "%s", sentence(event.Reason.Detail())).Problem)
	}
	return nil
}

// statusData leaves out a wait that can't be read: whoever asks for the execution is told of it.
func statusData(e execution.StatusEntry) []byte {
	dst := appendText([]byte{'{'}, "status", string(e.Status))
	dst = appendNumber(append(dst, ','), "attempt", e.Attempt)
	dst = appendNumber(append(dst, ','), "sequence", e.Version)
	if wait, err := waitingOf(e.Status, e.Wait, e.WaitUntil); err == nil && wait != nil {
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
