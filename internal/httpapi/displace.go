package httpapi

import (
	"net/http"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/store"
)

// MoveRevision implements [route.ServerInterface].
func (a *api) MoveRevision(w http.ResponseWriter, r *http.Request, deployment contract.Deployment, revision contract.Revision) {
	a.displace(w, r, store.Revision{Deployment: deployment, Revision: revision}, parseMove)
}

// FailRevision implements [route.ServerInterface].
func (a *api) FailRevision(w http.ResponseWriter, r *http.Request, deployment contract.Deployment, revision contract.Revision) {
	a.displace(w, r, store.Revision{Deployment: deployment, Revision: revision}, parseFail)
}

// displace carries out what the body of a request asks for with the work of a revision.
func (a *api) displace(w http.ResponseWriter, r *http.Request, from store.Revision, parse func([]byte, string) (runtime.DisplaceRequest, *problem.Problem)) {
	if impossibleName(from.Deployment) != nil || impossibleName(from.Revision) != nil || !principalOf(r).MayUse(from.Deployment) {
		problem.New(contract.ProblemCodeUnknownDeployment, "").Write(w)
		return
	}
	body, refused := readBody(w, r, a.limits)
	var ask runtime.DisplaceRequest
	if refused == nil {
		ask, refused = parse(body, principalOf(r).Name)
	}
	if refused != nil {
		refused.Write(w)
		return
	}
	ask.From = from
	out, err := a.Runtime.Displace(r.Context(), ask)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	a.answerJSON(w, contract.Displaced{Executions: out.Done, Remaining: out.Remaining, Running: out.Running})
}

func parseMove(body []byte, actor string) (ask runtime.DisplaceRequest, refused *problem.Problem) {
	found, refused := parseMembers(body, "to", "force", "dry_run")
	if refused != nil {
		return ask, refused
	}
	if _, refused := found.required("to"); refused != nil {
		return ask, refused
	}
	to, refused := found.text("to", maxRevisionLength)
	if refused != nil {
		return ask, refused
	}
	if impossibleName(to) != nil {
		return ask, invalidMember("to", "pattern", "must name a revision: a letter or digit, then up to 63 letters, digits, '_', '.' or '-'")
	}
	ask.Command = execution.Move{Revision: to, Actor: actor}
	refused = found.orders(&ask)
	return ask, refused
}

func parseFail(body []byte, actor string) (ask runtime.DisplaceRequest, refused *problem.Problem) {
	found, refused := parseMembers(body, "reason", "force", "dry_run")
	if refused != nil {
		return ask, refused
	}
	reason, refused := found.text("reason", maxReasonLength)
	if refused != nil {
		return ask, refused
	}
	ask.Command = execution.Withdraw{Reason: reason, Actor: actor}
	refused = found.orders(&ask)
	return ask, refused
}

// orders reads how a request is to be taken.
func (m members) orders(ask *runtime.DisplaceRequest) (refused *problem.Problem) {
	if ask.Force, refused = m.yes("force"); refused == nil {
		ask.DryRun, refused = m.yes("dry_run")
	}
	return refused
}

// yes is a member that is true or false, or not there.
func (m members) yes(name string) (bool, *problem.Problem) {
	value, there := m[name]
	if !there || string(value) == "false" {
		return false, nil
	}
	if string(value) != "true" {
		return false, invalidMember(name, "type", "must be true or false")
	}
	return true, nil
}
