package httpapi

import (
	"net/http"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/store"
)

// everyone is whose executions a request may see while there are no owners: an id is what lets its bearer in.
func everyone() store.Scope { return store.Scope{All: true} }

// SubmitExecution implements [route.ServerInterface].
func (a *api) SubmitExecution(w http.ResponseWriter, r *http.Request, deployment contract.Deployment, _ contract.SubmitExecutionParams) {
	key, body, refused := a.keyed(w, r)
	if refused != nil {
		refused.Write(w)
		return
	}
	submission, refused := parseSubmission(body)
	if refused != nil {
		refused.Write(w)
		return
	}
	out, err := a.Runtime.Submit(r.Context(), runtime.SubmitRequest{
		Deployment: deployment, Key: key, Body: body, Input: submission.input,
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	w.Header().Set("Location", pathOf(out.Record.Control.ID))
	answerExecution(w, http.StatusAccepted, out.Record, out.Replayed)
}

// GetExecution implements [route.ServerInterface].
func (a *api) GetExecution(w http.ResponseWriter, r *http.Request, id contract.ExecutionID) {
	record, err := a.Runtime.Get(r.Context(), store.ReadRequest{ID: id, Scope: everyone()})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	answerExecution(w, http.StatusOK, record, false)
}

// ResumeExecution implements [route.ServerInterface].
func (a *api) ResumeExecution(w http.ResponseWriter, r *http.Request, id contract.ExecutionID, _ contract.ResumeExecutionParams) {
	key, body, refused := a.keyed(w, r)
	if refused != nil {
		refused.Write(w)
		return
	}
	answer, refused := parseAnswer(body)
	if refused != nil {
		refused.Write(w)
		return
	}
	out, err := a.Runtime.Resume(r.Context(), runtime.ResumeRequest{
		ID: id, Scope: everyone(), Key: key, Body: body, Input: answer.input, Sequence: answer.sequence,
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	answerExecution(w, http.StatusAccepted, out.Record, out.Replayed)
}

// CancelExecution implements [route.ServerInterface].
func (a *api) CancelExecution(w http.ResponseWriter, r *http.Request, id contract.ExecutionID) {
	body, refused := readBody(w, r, a.limits)
	if refused != nil {
		refused.Write(w)
		return
	}
	reason, refused := parseCancellation(body)
	if refused != nil {
		refused.Write(w)
		return
	}
	record, err := a.Runtime.Cancel(r.Context(), id, everyone(), reason)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	status := http.StatusAccepted
	if record.Control.Status.Terminal() {
		status = http.StatusOK
	}
	answerExecution(w, status, record, false)
}

// keyed reads the idempotency key and the body of a request.
func (a *api) keyed(w http.ResponseWriter, r *http.Request) (key string, body []byte, refused *problem.Problem) {
	if key, refused = idempotencyKey(r.Header); refused != nil {
		return "", nil, refused
	}
	body, refused = readBody(w, r, a.limits)
	return key, body, refused
}

func answerExecution(w http.ResponseWriter, status int, record store.Record, replayed bool) {
	body, err := appendExecution(nil, record)
	if err != nil {
		translated(&execution.Error{Code: execution.CodeCorrupt, Err: err}).Write(w)
		return
	}
	if replayed {
		w.Header().Set("Idempotent-Replay", "true")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client has gone, and nobody else wants to know
}
