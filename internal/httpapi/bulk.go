package httpapi

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/auth"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/store"
)

const (
	maxBulk    = 1000   // executions that something is done to in a request
	maxCounted = 10_000 // executions that a dry run counts in one
)

// bulkKind is what is done to many executions.
type bulkKind struct {
	name    string
	options []string           // members of the body that only it has
	suits   []execution.Status // what it can be done to; none: everything
	// doing reads the options and returns the operation. once names the run, for what must not happen twice.
	doing func(a *api, r *http.Request, m members, scope store.Scope, once string) (bulkDo, *problem.Problem)
}

type bulkDo func(ctx context.Context, c execution.Control) (runtime.Skip, error)

// BulkCancel implements [route.ServerInterface].
func (a *api) BulkCancel(w http.ResponseWriter, r *http.Request) {
	a.bulk(w, r, bulkKind{name: "cancel", options: []string{"reason"}, suits: []execution.Status{execution.Queued, execution.Running, execution.Waiting},
		doing: func(a *api, _ *http.Request, m members, scope store.Scope, _ string) (bulkDo, *problem.Problem) {
			reason, refused := m.text("reason", maxReasonLength)
			return a.Runtime.Canceling(scope, reason), refused
		}})
}

// BulkErase implements [route.ServerInterface].
func (a *api) BulkErase(w http.ResponseWriter, r *http.Request) {
	a.bulk(w, r, bulkKind{name: "erase",
		doing: func(a *api, _ *http.Request, _ members, scope store.Scope, _ string) (bulkDo, *problem.Problem) {
			return a.Runtime.Erasing(scope), nil
		}})
}

// BulkResubmit implements [route.ServerInterface].
func (a *api) BulkResubmit(w http.ResponseWriter, r *http.Request, _ contract.BulkResubmitParams) {
	a.bulk(w, r, bulkKind{name: "resubmit", options: []string{"revision"}, suits: []execution.Status{execution.Canceled, execution.Completed, execution.Failed},
		doing: func(a *api, r *http.Request, m members, scope store.Scope, once string) (bulkDo, *problem.Problem) {
			key, refused := idempotencyKey(r.Header)
			if refused != nil {
				return nil, refused
			}
			if key != "" {
				once = key
			}
			same, refused := m.sameRevision()
			return a.Runtime.Resubmitting(runtime.ResubmitRequest{Scope: scope, Key: once, SameRevision: same, Trace: traceOf(r.Header)}), refused
		}})
}

// ResubmitExecution implements [route.ServerInterface].
func (a *api) ResubmitExecution(w http.ResponseWriter, r *http.Request, id contract.ExecutionID, _ contract.ResubmitExecutionParams) {
	scope, ok := a.visible(w, r, id)
	if !ok {
		return
	}
	key, body, refused := a.keyed(w, r)
	var m members
	if refused == nil && body != nil {
		m, refused = parseMembers(body, "revision")
	}
	same := false
	if refused == nil {
		same, refused = m.sameRevision()
	}
	if refused != nil {
		refused.Write(w)
		return
	}
	out, err := a.Runtime.Resubmit(r.Context(), runtime.ResubmitRequest{ID: id, Scope: scope, Key: key, SameRevision: same, Trace: traceOf(r.Header)})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	w.Header().Set("Location", pathOf(out.Record.Control.ID))
	markReplay(w, out.Replayed)
	a.settle(w, r, out.Record, key != "")
}

// sameRevision reports whether the revision that an execution had is asked for, in place of that of today.
func (m members) sameRevision() (bool, *problem.Problem) {
	name, refused := m.text("revision", maxRevisionLength)
	switch {
	case refused != nil:
		return false, refused
	case m["revision"] == nil, name == "current":
		return false, nil
	case name == "same":
		return true, nil
	}
	return false, invalidMember("revision", "enum", "must be current or same")
}

// bulk answers a request that something be done to many executions. Each is the operation that the principal might ask for by itself.
func (a *api) bulk(w http.ResponseWriter, r *http.Request, kind bulkKind) {
	run, refused := a.bulkRunOf(w, r, kind)
	if refused != nil {
		a.refuse(w, r, refused.Err())
		return
	}
	out, err := a.Runtime.Bulk(r.Context(), run.BulkRequest)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	if out.Stopped == runtime.ErrMoreMatch && out.Matched == 0 { //nolint:errorlint // nothing wraps it
		moreMatch(run.counted).Write(w)
		return
	}
	a.answerJSON(w, a.bulkAnswer(r, w.Header().Get(problem.RequestIDHeader), run, out))
}

func moreMatch(counted int64) *problem.Problem {
	return problem.New(contract.ProblemCodeMoreMatch, "More than the %d executions match that the dry run counted: none of those left was touched. "+
		"Begin again with a dry run.", counted).WithLimit(counted)
}

// bulkAnswer says how far a run has come.
func (a *api) bulkAnswer(r *http.Request, requestID string, run bulkRun, out runtime.Bulk) contract.BulkAnswer {
	total := run.total + int64(out.Matched)
	answer := contract.BulkAnswer{
		DryRun: run.Do == nil, AsOf: contract.Timestamp{Time: time.UnixMilli(run.asOf)}, Matched: int64(out.Matched), Total: total, Done: int64(out.Done),
		Skipped: map[string]int64{}, Failed: int64(out.Failed), Failures: []contract.BulkFailure{},
	}
	for why, n := range out.Skipped {
		answer.Skipped[string(why)] = int64(n)
	}
	for _, f := range out.Failures {
		answer.Failures = append(answer.Failures, contract.BulkFailure{ExecutionID: f.ID, Problem: a.told(r, requestID, f.Err)})
	}
	switch {
	case out.Stopped == runtime.ErrMoreMatch: //nolint:errorlint // nothing wraps it
		stopped := moreMatch(run.counted).Problem
		answer.Stopped = &stopped
	case out.Stopped != nil:
		stopped := a.told(r, requestID, out.Stopped)
		answer.Stopped = &stopped
	}
	switch {
	case !out.Ended:
		cursor := run.cursor(total, out.Next)
		answer.Cursor = &cursor
	case answer.DryRun:
		confirmation := run.confirmation(total)
		answer.Confirmation = &confirmation
	}
	return answer
}

func (a *api) told(r *http.Request, requestID string, err error) contract.Problem {
	p := a.problemOf(r, requestID, err).Problem
	if requestID != "" {
		p.Instance = "urn:windrow:request:" + requestID
	}
	return p
}

// bulkRunOf reads a request. What it asks for never goes beyond what the principal may see.
func (a *api) bulkRunOf(w http.ResponseWriter, r *http.Request, kind bulkKind) (run bulkRun, refused *problem.Problem) {
	body, refused := readBody(w, r, a.limits)
	if refused != nil {
		return run, refused
	}
	m, refused := parseMembers(body, append([]string{"filter", "all", "dry_run", "confirmation", "limit", "cursor"}, kind.options...)...)
	if refused != nil {
		return run, refused
	}
	run = bulkRun{kind: kind.name, total: 0, counted: math.MaxInt64}
	if run.List, refused = m.bulkFilter(principalOf(r), kind.suits); refused != nil {
		return run, refused
	}
	dry, refused := m.flag("dry_run")
	if refused != nil {
		return run, refused
	}
	most := int64(maxBulk)
	if dry {
		most = maxCounted
	}
	limit, refused := m.number("limit", most, 1, most)
	if refused != nil {
		return run, refused
	}
	run.Most = int(limit)
	do, refused := kind.doing(a, r, m, run.List.Scope, string(m["confirmation"]))
	if refused != nil {
		return run, refused
	}
	if !dry {
		run.Do = do
	}
	refused = run.place(m, dry, a.Runtime.Now())
	return run, refused
}

// bulkFilter returns which executions are meant: those of a listing with the same filters, of the statuses that suit.
func (m members) bulkFilter(p auth.Principal, suits []execution.Status) (store.ListRequest, *problem.Problem) {
	ask := store.ListRequest{Scope: scopeOf(p), Deployments: p.Deployments}
	all, refused := m.flag("all")
	if refused != nil {
		return ask, refused
	}
	filter := members{}
	if value, ok := m["filter"]; ok {
		if filter, refused = parseMembers(value, "deployment", "revision", "status", "owner", "labels", "created_from", "created_before"); refused != nil {
			return ask, within("filter", refused)
		}
	}
	switch {
	case len(filter) == 0 && !all:
		return ask, invalidMember("filter", "required", "must have at least one member; all executions are meant with \"all\": true")
	case len(filter) > 0 && all:
		return ask, invalidMember("all", "not", "must not be given together with a filter")
	}
	if refused = filter.narrow(&ask, p); refused != nil {
		return ask, within("filter", refused)
	}
	ask.Scope.By = p.Name // for the histories
	refused = suited(&ask, suits)
	return ask, refused
}
