package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/auth"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/store"
)

// SubmitExecution implements [route.ServerInterface].
func (a *api) SubmitExecution(w http.ResponseWriter, r *http.Request, deployment contract.Deployment, _ contract.SubmitExecutionParams) {
	p := principalOf(r)
	refused := impossibleName(deployment)
	if refused == nil && !p.MayUse(deployment) {
		refused = problem.New(contract.ProblemCodeUnknownDeployment, "")
	}
	if refused != nil {
		refused.Write(w)
		return
	}
	key, body, refused := a.keyed(w, r)
	if refused != nil {
		refused.Write(w)
		return
	}
	out, err := a.submit(r.Context(), p, deployment, key, traceOf(r.Header), body)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	w.Header().Set("Location", pathOf(out.Record.Control.ID))
	markReplay(w, out.Replayed)
	a.settle(w, r, out.Record, key != "")
}

// submit carries out a submission, whose body is strict JSON. What is wrong with it is a [problem.Error].
func (a *api) submit(ctx context.Context, p auth.Principal, deployment, key string, trace execution.Trace, body []byte) (store.Submitted, error) {
	submission, refused := parseSubmission(body)
	if refused == nil {
		submission.owner, refused = ownerOf(p, submission.owner)
	}
	if refused != nil {
		return store.Submitted{}, refused.Err()
	}
	submission.Trace = trace
	req := submission.request(deployment, key, body)
	req.Actor = p.Name
	return a.Runtime.Submit(ctx, req)
}

// ResumeExecution implements [route.ServerInterface].
func (a *api) ResumeExecution(w http.ResponseWriter, r *http.Request, id contract.ExecutionID, _ contract.ResumeExecutionParams) {
	scope, ok := a.visible(w, r, id)
	if !ok {
		return
	}
	key, body, refused := a.keyed(w, r)
	if refused != nil {
		refused.Write(w)
		return
	}
	resumption, refused := parseResumption(body)
	if refused != nil {
		refused.Write(w)
		return
	}
	out, err := a.Runtime.Resume(r.Context(), runtime.ResumeRequest{
		ID: id, Scope: scope, Key: key, Body: body, Input: resumption.input, Sequence: resumption.sequence,
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	markReplay(w, out.Replayed)
	a.answerExecution(w, r, http.StatusAccepted, out.Record)
}

// CancelExecution implements [route.ServerInterface].
func (a *api) CancelExecution(w http.ResponseWriter, r *http.Request, id contract.ExecutionID) {
	scope, ok := a.visible(w, r, id)
	if !ok {
		return
	}
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
	record, err := a.Runtime.Cancel(r.Context(), id, scope, reason)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	status := http.StatusAccepted
	if record.Control.Status.Terminal() {
		status = http.StatusOK
	}
	a.answerExecution(w, r, status, record)
}

// keyed reads the idempotency key and the body of a request.
func (a *api) keyed(w http.ResponseWriter, r *http.Request) (key string, body []byte, refused *problem.Problem) {
	if key, refused = idempotencyKey(r.Header); refused != nil {
		return "", nil, refused
	}
	body, refused = readBody(w, r, a.limits)
	return key, body, refused
}

const (
	maxIDBytes   = 24
	maxNameBytes = 64
)

// impossibleID refuses what no execution can be called, before anybody is asked for it: an id becomes part of keys.
func impossibleID(id string) *problem.Problem {
	if id == "" || len(id) > maxIDBytes || strings.ContainsFunc(id, notAlphanumeric) {
		return problem.New(contract.ProblemCodeNotFound, "")
	}
	return nil
}

// impossibleName refuses what no deployment can be called.
func impossibleName(name string) *problem.Problem {
	odd := func(r rune) bool { return notAlphanumeric(r) && !strings.ContainsRune("_.-", r) }
	if name == "" || len(name) > maxNameBytes || strings.ContainsFunc(name[:1], notAlphanumeric) || strings.ContainsFunc(name, odd) {
		return problem.New(contract.ProblemCodeUnknownDeployment, "")
	}
	return nil
}

func notAlphanumeric(r rune) bool {
	return (r < '0' || '9' < r) && (r < 'a' || 'z' < r) && (r < 'A' || 'Z' < r)
}
