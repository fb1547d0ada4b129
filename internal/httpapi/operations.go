package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/runtime"
)

// GetLiveness implements [route.ServerInterface]. A loop that fails is started again by its supervisor, and a store that fails must
// not have processes killed: only a loop that hangs is a reason to start the process anew.
func (a *api) GetLiveness(w http.ResponseWriter, r *http.Request) {
	if err := a.Runtime.Alive(); err != nil {
		a.refuse(w, r, err)
		return
	}
	a.answerJSON(w, contract.Health{Status: contract.StateOk})
}

// GetReadiness implements [route.ServerInterface].
func (a *api) GetReadiness(w http.ResponseWriter, r *http.Request) {
	if err := a.Runtime.Ready(r.Context()); err != nil {
		a.refuse(w, r, err)
		return
	}
	a.answerJSON(w, contract.Health{Status: contract.StateOk})
}

// GetMetrics implements [route.ServerInterface].
func (a *api) GetMetrics(w http.ResponseWriter, r *http.Request) {
	a.writeDeadline(w)
	a.Scrape.ServeHTTP(w, r)
}

// GetContract implements [route.ServerInterface].
func (a *api) GetContract(w http.ResponseWriter, _ *http.Request) {
	a.answer(w, http.StatusOK, "application/yaml", []byte(a.Contract))
}

// GetStatus implements [route.ServerInterface].
func (a *api) GetStatus(w http.ResponseWriter, r *http.Request) {
	h := a.Runtime.Health(r.Context())
	reasons := append(reasonsOf(h), a.conditions()...)
	status := contract.Status{
		Status: stateOf(h, reasons), Reasons: reasons, Version: a.Version, CheckedAt: contract.Timestamp{Time: h.At},
		Store: a.storeStatus(h.Store), Deployments: []contract.DeploymentStatus{}, OtherRevisions: []contract.RevisionStatus{},
	}
	for _, d := range h.Deployments {
		status.Deployments = append(status.Deployments, deploymentStatus(d))
	}
	for _, o := range h.Others {
		status.OtherRevisions = append(status.OtherRevisions, contract.RevisionStatus{
			Deployment: o.Deployment, Revision: o.Revision, Nonterminal: o.Nonterminal, Served: o.Served,
		})
	}
	a.answerJSON(w, status)
}

// conditions are what is not as it should be outside the runtime.
func (a *api) conditions() []string {
	if a.Conditions == nil {
		return nil
	}
	return slices.DeleteFunc(a.Conditions(), func(reason string) bool { return reason == "" })
}

func stateOf(h runtime.Health, reasons []string) contract.State {
	switch {
	case h.Draining:
		return contract.StateDraining
	case len(reasons) > 0:
		return contract.StateDegraded
	}
	return contract.StateOk
}

// reasonsOf says what is not as it should be.
func reasonsOf(h runtime.Health) []string {
	reasons := []string{}
	if h.Draining {
		reasons = append(reasons, "The process shuts down and takes no more work.")
	}
	if h.Store.Code != "" {
		reasons = append(reasons, fmt.Sprintf("The store does not answer as it should (%s); first noticed at %s.",
			h.Store.Code, h.Store.Since.UTC().Format(time.RFC3339)))
	}
	for _, c := range h.Store.Conditions {
		if c.Severe {
			reasons = append(reasons, c.Message+".")
		}
	}
	if h.Store.Malformed > 0 {
		reasons = append(reasons, fmt.Sprintf("%d stored executions can't be read and are listed for repair.", h.Store.Malformed))
	}
	if !h.Draining && !slices.ContainsFunc(h.Loops, begun) {
		return append(reasons, "The process has not begun its work: it waits for the store, or was not started.")
	}
	for _, l := range h.Loops {
		if !l.Running && !h.Draining {
			reasons = append(reasons, fmt.Sprintf("The %s is down and about to be started again.", l.Name))
		} else if l.ErrorStreak > 0 && h.Store.Code == "" {
			reasons = append(reasons, fmt.Sprintf("The %s has failed %d times in a row.", l.Name, l.ErrorStreak))
		}
	}
	return reasons
}

// begun reports whether a loop runs, or has run before.
func begun(l runtime.LoopHealth) bool { return l.Running || l.Restarts > 0 }

func (a *api) storeStatus(s runtime.StoreHealth) contract.StoreStatus {
	out := contract.StoreStatus{Kind: a.StoreKind, State: contract.StateOk, Conditions: []contract.StoreCondition{}}
	if a.Acknowledgement != "" {
		out.Acknowledgement = &a.Acknowledgement
	}
	if s.Status != runtime.StoreOK {
		out.State = contract.StateDegraded
	}
	if s.Code != "" {
		code, _ := codeOf(s.Code)
		out.Error = &code
	}
	for _, c := range s.Conditions {
		out.Conditions = append(out.Conditions, contract.StoreCondition{Code: c.Code, Message: c.Message, Since: contract.Timestamp{Time: c.Since}})
	}
	return out
}

func deploymentStatus(d runtime.DeploymentHealth) contract.DeploymentStatus {
	out := contract.DeploymentStatus{
		Name: d.Name, Revision: d.Revision, Accepting: d.Running > 0, Slots: int64(d.Slots), ActiveExecutions: int64(d.Active),
		Draining: int64(d.Draining), ErrorStreak: d.ErrorStreak,
	}
	if c := d.Counts; c != nil {
		out.Counts = &contract.Counts{Nonterminal: c.Nonterminal, RevisionNonterminal: c.RevisionNonterminal,
			RevisionRunnable: c.RevisionRunnable, RevisionDelayed: c.RevisionDelayed, LeaseExpiry: c.LeaseExpiry}
	}
	return out
}
