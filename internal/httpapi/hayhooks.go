package httpapi

import (
	"net/http"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/httpapi/hayhooks"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/stream"
)

// HayhooksSubmit implements [route.ServerInterface]. The owner is the principal's, whatever the request says.
func (a *api) HayhooksSubmit(w http.ResponseWriter, r *http.Request, deployment contract.Deployment, _ contract.HayhooksSubmitParams) {
	p := principalOf(r)
	refused := impossibleName(deployment)
	if refused == nil && !p.MayUse(deployment) {
		refused = problem.New(contract.ProblemCodeUnknownDeployment, "")
	}
	if refused != nil {
		refused.Write(w)
		return
	}
	key, input, refused := a.keyedInput(w, r)
	if refused == nil && input == nil {
		refused = problem.New(contract.ProblemCodeInvalidRequest, "").WithErrors(contract.ProblemError{Rule: "missing", Message: "Field required"})
	}
	if refused != nil {
		refused.Write(w)
		return
	}
	binding, err := hayhooks.Binding(input)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	out, err := a.Runtime.Submit(r.Context(), runtime.SubmitRequest{Deployment: deployment, Owner: p.Owner, Key: key, Body: binding, Input: input,
		SubmitOptions: runtime.SubmitOptions{Trace: traceOf(r.Header)}})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	w.Header().Set("Location", hayhooks.Path(deployment, out.Record.Control.ID))
	markReplay(w, out.Replayed)
	status := http.StatusAccepted
	if out.Replayed && out.Record.Control.Status.Terminal() {
		status = http.StatusOK
	}
	a.answerHayhooks(w, r, status, out.Record)
}

// HayhooksGet implements [route.ServerInterface].
func (a *api) HayhooksGet(w http.ResponseWriter, r *http.Request, deployment contract.Deployment, id contract.HayhooksID) {
	if record, _, ok := a.hayhooksRecord(w, r, deployment, id); ok {
		a.answerHayhooks(w, r, http.StatusOK, record)
	}
}

// HayhooksCancel implements [route.ServerInterface]. A body is not read: hayhooks takes no reason.
func (a *api) HayhooksCancel(w http.ResponseWriter, r *http.Request, deployment contract.Deployment, id contract.HayhooksID) {
	_, scope, ok := a.hayhooksRecord(w, r, deployment, id)
	if !ok {
		return
	}
	record, err := a.Runtime.Cancel(r.Context(), id, scope, "")
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	status := http.StatusAccepted
	if record.Control.Status.Terminal() {
		status = http.StatusOK
	}
	a.answerHayhooks(w, r, status, record)
}

// HayhooksResume implements [route.ServerInterface]. The answer is for what is open now: where that moves on meanwhile, it is a
// conflict, as is an answer to an execution that begins to wait only now.
func (a *api) HayhooksResume(w http.ResponseWriter, r *http.Request, deployment contract.Deployment, id contract.HayhooksID,
	_ contract.HayhooksResumeParams,
) {
	record, scope, ok := a.hayhooksRecord(w, r, deployment, id)
	if !ok {
		return
	}
	key, answer, refused := a.keyedInput(w, r)
	if refused != nil {
		refused.Write(w)
		return
	}
	if answer == nil {
		answer = []byte("null")
	}
	binding, err := hayhooks.Binding(answer)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	out, err := a.Runtime.Resume(r.Context(), runtime.ResumeRequest{ID: id, Scope: scope, Key: key, Body: binding, Input: answer,
		Sequence: record.Control.Version}) // that of the wait, where it waits; no wait that opens later has it
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	markReplay(w, out.Replayed)
	a.answerHayhooks(w, r, http.StatusAccepted, out.Record)
}

// HayhooksStream implements [route.ServerInterface].
func (a *api) HayhooksStream(w http.ResponseWriter, r *http.Request, deployment contract.Deployment, id contract.HayhooksID,
	params contract.HayhooksStreamParams,
) {
	from := execution.Cursor{}
	if params.LastEventID != nil {
		var err error
		if from, err = hayhooks.ParseID(*params.LastEventID); err != nil {
			a.refuse(w, r, err)
			return
		}
	}
	record, scope, ok := a.hayhooksRecord(w, r, deployment, id)
	if !ok {
		return
	}
	request := stream.Request{ID: id, Scope: scope}
	teller := hayhooks.Teller{Resumed: !from.Entry.IsZero()}
	if teller.Resumed {
		from.Epoch = record.Control.LogEpoch
		request.Cursor = from.String()
	}
	a.follow(w, r, request, teller.Tell)
}

// keyedInput reads the idempotency key, which counts as it is spelled, and a body that is an input or an answer; nil: there is none.
func (a *api) keyedInput(w http.ResponseWriter, r *http.Request) (key string, input []byte, refused *problem.Problem) {
	if key, refused = onlyKey(r.Header, validKey); refused != nil {
		return "", nil, refused
	}
	limits := a.limits
	limits.bare = true
	input, refused = readBody(w, r, limits)
	return key, input, refused
}

// hayhooksRecord reads the execution that a path names, of that deployment. Where the principal may not see it, the request is
// answered.
func (a *api) hayhooksRecord(w http.ResponseWriter, r *http.Request, deployment, id string) (record store.Record, scope store.Scope, ok bool) {
	if !hayhooks.ValidID(id) {
		problem.New(contract.ProblemCodeInvalidRequest, "The id of an execution has 1 to 128 letters, digits, dashes and underscores.").Write(w)
		return store.Record{}, store.Scope{}, false
	}
	scope, ok = a.visible(w, r, id)
	if !ok {
		return store.Record{}, scope, false
	}
	record, err := a.Runtime.Get(r.Context(), store.ReadRequest{ID: id, Scope: scope})
	switch {
	case err != nil:
		a.refuse(w, r, err)
		return store.Record{}, scope, false
	case record.Control.Deployment != deployment:
		problem.New(contract.ProblemCodeNotFound, "").Write(w)
		return store.Record{}, scope, false
	}
	return record, scope, true
}

// answerHayhooks answers with an execution as it stands.
func (a *api) answerHayhooks(w http.ResponseWriter, r *http.Request, status int, record store.Record) {
	body, err := hayhooks.Projection(record)
	if err != nil {
		a.refuse(w, r, &execution.Error{Code: execution.CodeCorrupt, Message: "the stored wait can't be read", Err: err})
		return
	}
	a.answer(w, status, "application/json", body)
}
