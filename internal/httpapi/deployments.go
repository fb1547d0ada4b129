package httpapi

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/auth"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/store"
)

const (
	maxRevisionsShown = 100
	maxWorkersShown   = 20
)

// ListDeployments implements [route.ServerInterface].
func (a *api) ListDeployments(w http.ResponseWriter, r *http.Request, params contract.ListDeploymentsParams) {
	limit, after, refused := deploymentsPage(r, params)
	if refused != nil {
		refused.Write(w)
		return
	}
	all, err := a.deployments(r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	list := contract.DeploymentList{Items: []contract.DeploymentState{}}
	for _, d := range all {
		if d.Name <= after {
			continue
		}
		if len(list.Items) == limit {
			list.NextCursor = new(base64.RawURLEncoding.EncodeToString([]byte(list.Items[limit-1].Name)))
			break
		}
		list.Items = append(list.Items, deploymentOf(principalOf(r), d))
	}
	a.answerJSON(w, list)
}

// deploymentsPage is how many deployments are asked for, and the name that they come after. A cursor is the last name of a page:
// it gives nobody more than is there for them.
func deploymentsPage(r *http.Request, params contract.ListDeploymentsParams) (limit int, after string, refused *problem.Problem) {
	if refused := unknownParameters(r, "limit", "cursor"); refused != nil {
		return 0, "", refused
	}
	limit = defaultPage
	if params.Limit != nil {
		limit = *params.Limit
	}
	if limit < 1 || limit > maxPage {
		return 0, "", invalidFilter("limit", "must be from 1 to 200").WithLimit(maxPage)
	}
	if params.Cursor == nil {
		return limit, "", nil
	}
	name, err := base64.RawURLEncoding.Strict().DecodeString(*params.Cursor)
	if err != nil || impossibleName(string(name)) != nil {
		return 0, "", problem.New(contract.ProblemCodeInvalidCursor, "The cursor is not one of a listing of deployments: begin without one.")
	}
	return limit, string(name), nil
}

// GetDeployment implements [route.ServerInterface].
func (a *api) GetDeployment(w http.ResponseWriter, r *http.Request, name contract.Deployment) {
	all, err := a.deployments(r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	for _, d := range all {
		if d.Name == name {
			a.answerJSON(w, deploymentOf(principalOf(r), d))
			return
		}
	}
	problem.New(contract.ProblemCodeUnknownDeployment, "").Write(w)
}

// deployments are those that whoever asks may know of. Who is limited to an owner must not learn what others have: only what is
// served is there for them.
func (a *api) deployments(r *http.Request) ([]runtime.Deployment, error) {
	all, err := a.Runtime.Deployments(r.Context())
	p := principalOf(r)
	var known []runtime.Deployment
	for _, d := range all {
		if !p.MayUse(d.Name) {
			continue
		}
		if !p.Unlimited() {
			d.Revisions = slices.DeleteFunc(slices.Clone(d.Revisions), func(s runtime.RevisionState) bool { return !s.Served })
		}
		if p.Unlimited() || len(d.Revisions) > 0 {
			known = append(known, d)
		}
	}
	return known, err
}

func deploymentOf(p auth.Principal, d runtime.Deployment) contract.DeploymentState {
	out := contract.DeploymentState{Name: d.Name, InputSchema: d.Input, Revisions: []contract.RevisionState{},
		RevisionsTotal: int64(len(d.Revisions)), Served: slices.ContainsFunc(d.Revisions, func(s runtime.RevisionState) bool { return s.Served })}
	if d.Revision != "" {
		out.Revision, out.Limit = &d.Revision, &d.Limit
	}
	if p.Unlimited() {
		out.Nonterminal = &d.Nonterminal
	}
	for _, s := range foremost(d.Revisions) {
		out.Revisions = append(out.Revisions, revisionOf(p, s))
	}
	return out
}

// foremost are the revisions that an operator must know of first, as many as are shown.
func foremost(all []runtime.RevisionState) []runtime.RevisionState {
	rank := func(s runtime.RevisionState) int {
		switch {
		case s.Stranded():
			return 0
		case s.Served:
			return 1
		}
		return 2
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b runtime.RevisionState) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Revision.Revision, b.Revision.Revision))
	})
	return all[:min(len(all), maxRevisionsShown)]
}

func revisionOf(p auth.Principal, s runtime.RevisionState) contract.RevisionState {
	out := contract.RevisionState{Revision: s.Revision.Revision, Served: s.Served, ServedAt: momentOf(s.ServedAt)}
	if !p.Unlimited() {
		return out
	}
	out.Stranded = s.Stranded()
	out.Backlog = &contract.Backlog{Nonterminal: s.Nonterminal, Ready: s.Ready, Delayed: s.Delayed, Running: s.Running, Waiting: s.Waiting,
		OldestReadyAt: momentOf(s.OldestReady)}
	out.Workers = new(int64(len(s.Workers)))
	if p.May(auth.Admin) {
		out.Seen = new(seenOf(s.Workers))
	}
	return out
}

func seenOf(workers []store.Worker) []contract.WorkerSeen {
	out := []contract.WorkerSeen{}
	for _, w := range workers[:min(len(workers), maxWorkersShown)] {
		out = append(out, contract.WorkerSeen{Name: w.Name, SeenAt: *momentOf(w.SeenAt)})
	}
	return out
}

// momentOf is a time in milliseconds as the contract has it; nil: there is none.
func momentOf(ms int64) *contract.Timestamp {
	if ms == 0 {
		return nil
	}
	return &contract.Timestamp{Time: time.UnixMilli(ms)}
}
