package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/stream"
)

// maxWait bounds how long an answer is kept back, in seconds.
const maxWait = 60

// GetExecution implements [route.ServerInterface].
func (a *api) GetExecution(w http.ResponseWriter, r *http.Request, id contract.ExecutionID, params contract.GetExecutionParams) {
	scope, ok := a.visible(w, r, id)
	if !ok {
		return
	}
	wait, refused := waitOf(params.Wait)
	if refused == nil && wait > 0 {
		account := principalOf(r).Account()
		if refused = a.viewers.enter(account); refused == nil {
			defer a.viewers.leave(account)
		}
	}
	if refused != nil {
		refused.Write(w)
		return
	}
	record, err := a.read(r, store.ReadRequest{ID: id, Scope: scope}, wait)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	body, err := projectionOf(record)
	if err != nil {
		a.refuse(w, r, unreadableWait(err))
		return
	}
	a.answerTagged(w, r, tagOf(record, body), body)
}

// waitOf is how long a client wants to wait.
func waitOf(seconds *int) (time.Duration, *problem.Problem) {
	switch {
	case seconds == nil:
		return 0, nil
	case *seconds < 0 || *seconds > maxWait:
		return 0, problem.New(contract.ProblemCodeInvalidRequest, "The parameter wait must be a whole number from 0 to %d.", maxWait).
			WithLimit(maxWait)
	}
	return time.Duration(*seconds) * time.Second, nil
}

// read reads an execution, at once or, where a client waits, when it has ended or, where the client knows how it was, changed.
func (a *api) read(r *http.Request, ask store.ReadRequest, wait time.Duration) (store.Record, error) {
	if wait == 0 {
		return a.Runtime.Get(r.Context(), ask)
	}
	known := r.Header.Values(knownHeader)
	if len(known) == 0 {
		return a.await(r.Context(), stream.Request{ID: ask.ID, Scope: ask.Scope, Skip: stream.Skippable}, wait, ended)
	}
	changed := func(record store.Record) bool {
		body, err := projectionOf(record)
		return err != nil || !knows(known, tagOf(record, body))
	}
	return a.await(r.Context(), stream.Request{ID: ask.ID, Scope: ask.Scope, Skip: stream.Chunks}, wait, changed)
}

func ended(record store.Record) bool { return record.Control.Status.Terminal() }

// await follows an execution until its record is as the client wants it, for at most so long, and returns it as it then stands. It
// asks the store when something has happened, never to find out whether. A server that shuts down lets everybody go at once.
func (a *api) await(ctx context.Context, ask stream.Request, wait time.Duration, done func(store.Record) bool) (store.Record, error) {
	patience, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	now := func() (store.Record, error) {
		return a.Runtime.Get(ctx, store.ReadRequest{ID: ask.ID, Scope: ask.Scope})
	}
	viewer, record, err := a.Hub.Await(ctx, ask)
	if execution.Is(err, execution.CodeDraining) {
		return now()
	}
	if err != nil {
		return record, err
	}
	defer viewer.Close()
	a.Metrics.ViewerOpened(viewer.Deployment())
	defer a.Metrics.ViewerClosed(viewer.Deployment())
	a.Runtime.SawWait(record)
	for !done(record) {
		event, broken := viewer.Next(patience)
		switch event := event.(type) {
		case *stream.Keepalive:
			continue
		case *stream.End:
			return event.Record, nil
		case *stream.Interrupted:
			return now()
		}
		if record, err = now(); err != nil || broken != nil {
			return record, err
		}
	}
	return record, nil
}

// knownHeader names what the client knows already.
const knownHeader = "If-None-Match"

// tagOf is the tag of a projection. It begins with the version, for people. That alone would not do: what is lost with the store's
// data may be written again, another way, under the same version.
func tagOf(record store.Record, projection []byte) string {
	return `"` + strconv.FormatInt(record.Control.Version, 10) + "-" + digestOf(projection) + `"`
}

// digestOf is the same for the same bytes only.
func digestOf(body []byte) string {
	const bytes = 15 // 120 bits, in 20 characters
	sum := sha256.Sum256(body)
	return base64.RawURLEncoding.EncodeToString(sum[:bytes])
}

// knows reports whether one of the tags that a client knows is the one given. Tags of other making may hold anything but quotes.
func knows(known []string, tag string) bool {
	for _, line := range known {
		for one := range strings.SplitSeq(line, ",") {
			if one = strings.Trim(one, " \t"); one == "*" || strings.TrimPrefix(one, "W/") == tag {
				return true
			}
		}
	}
	return false
}

// answerTagged answers with JSON, or with 304 where the client has it. Caches ask each time, and only the client's own may keep it.
func (a *api) answerTagged(w http.ResponseWriter, r *http.Request, tag string, body []byte) {
	w.Header().Set("Cache-Control", "no-cache, private")
	w.Header().Set("ETag", tag)
	if knows(r.Header.Values(knownHeader), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	a.answer(w, http.StatusOK, "application/json", body)
}

// GetResult implements [route.ServerInterface].
func (a *api) GetResult(w http.ResponseWriter, r *http.Request, id contract.ExecutionID, _ contract.GetResultParams) {
	record, ok := a.readFor(w, r, store.ReadRequest{ID: id})
	if !ok {
		return
	}
	if record.Control.Status != execution.Completed {
		problem.New(contract.ProblemCodeNoResult, "The execution is %s.", record.Control.Status).Write(w)
		return
	}
	a.download(w, r, id+"-result.json", record.Result)
}

// GetInput implements [route.ServerInterface].
func (a *api) GetInput(w http.ResponseWriter, r *http.Request, id contract.ExecutionID, _ contract.GetInputParams) {
	if record, ok := a.readFor(w, r, store.ReadRequest{ID: id, Input: true}); ok {
		a.download(w, r, id+"-input.json", record.Input)
	}
}

// readFor reads an execution for who may see it; false: the request is answered.
func (a *api) readFor(w http.ResponseWriter, r *http.Request, ask store.ReadRequest) (record store.Record, ok bool) {
	if ask.Scope, ok = a.visible(w, r, ask.ID); !ok {
		return record, false
	}
	record, err := a.Runtime.Get(r.Context(), ask)
	if err != nil {
		a.refuse(w, r, err)
	}
	return record, err == nil
}

// download answers with a payload, which browsers keep as a file and never show.
func (a *api) download(w http.ResponseWriter, r *http.Request, name string, payload []byte) {
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	a.answerTagged(w, r, `"`+digestOf(payload)+`"`, payload)
}
