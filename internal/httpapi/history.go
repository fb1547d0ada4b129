package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/auth"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/store"
)

// The entries of an answer, the submission included.
const (
	minEntries = 2
	maxEntries = execution.MaxHistory + 1
)

// GetHistory implements [route.ServerInterface].
func (a *api) GetHistory(w http.ResponseWriter, r *http.Request, id contract.ExecutionID, params contract.GetHistoryParams) {
	limit := maxEntries
	if params.Limit != nil {
		limit = *params.Limit
	}
	scope, ok := a.visible(w, r, id)
	if !ok {
		return
	}
	if limit < minEntries || limit > maxEntries {
		problem.New(contract.ProblemCodeInvalidRequest, "The parameter limit must be a whole number from %d to %d.", minEntries, maxEntries).
			WithLimit(maxEntries).Write(w)
		return
	}
	record, err := a.Runtime.Get(r.Context(), store.ReadRequest{ID: id, Scope: scope, History: limit - 1})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	body, err := json.Marshal(historyOf(record, principalOf(r).May(auth.Admin)))
	if err != nil {
		a.refuse(w, r, fmt.Errorf("history: %w", err))
		return
	}
	a.answerTagged(w, r, tagOf(record, body), body)
}

// historyOf is a history as its readers see it; names says whether they may know who clients and workers are.
func historyOf(record store.Record, names bool) contract.History {
	c := record.Control
	out := contract.History{ExecutionID: c.ID, Status: contract.ExecutionStatus(c.Status), Attempt: c.Attempt, Sequence: c.Version,
		Omitted: record.History.Omitted, Entries: []contract.HistoryEntry{}}
	for _, e := range record.History.All(c) {
		entry := contract.HistoryEntry{At: contract.Timestamp{Time: time.UnixMilli(e.At)}, Cause: contract.HistoryEntryCause(e.Cause.Name()),
			Status: contract.ExecutionStatus(e.Cause.Status()), Attempt: e.Attempt, Actor: contract.Actor{Kind: contract.ActorKind(e.Cause.By())},
			Times: e.Times}
		if names && e.Actor != "" {
			entry.Actor.Name = &e.Actor
		}
		if e.Code != "" {
			entry.Code = &e.Code
		}
		out.Entries = append(out.Entries, entry)
	}
	return out
}
