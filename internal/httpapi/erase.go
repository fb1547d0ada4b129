package httpapi

import (
	"net/http"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/auth"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/store"
)

// EraseExecution implements [route.ServerInterface].
func (a *api) EraseExecution(w http.ResponseWriter, r *http.Request, id contract.ExecutionID) {
	scope, ok := a.visible(w, r, id)
	if !ok {
		return
	}
	erased, err := a.Runtime.Erase(r.Context(), id, scope)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	a.answerJSON(w, erasedOf(erased))
}

// EraseOwner implements [route.ServerInterface].
func (a *api) EraseOwner(w http.ResponseWriter, r *http.Request, owner string) {
	if refused := mayEraseOwner(w, principalOf(r), owner); refused != nil {
		refused.Write(w)
		return
	}
	erased, err := a.Runtime.EraseOwner(r.Context(), owner)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	a.answerJSON(w, erasedOf(erased))
}

// mayEraseOwner refuses what names no owner, and who may not see all that an owner has.
func mayEraseOwner(w http.ResponseWriter, p auth.Principal, owner string) *problem.Problem {
	if !auth.ValidOwner(owner) {
		return problem.New(contract.ProblemCodeInvalidRequest, "An owner's name has 1 to 255 characters, none of them a control character.")
	}
	if len(p.Deployments) > 0 {
		challenge(w, `, error="insufficient_scope"`)
		return problem.New(contract.ProblemCodeForbidden, "The token is limited to deployments, and an owner may have executions of others.")
	}
	return nil
}

func erasedOf(e store.Erased) contract.Erased {
	return contract.Erased{Executions: e.Executions, Unfinished: e.Unfinished, Keys: e.Keys, Kept: e.Kept, More: e.More}
}
