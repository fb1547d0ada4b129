package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/auth"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
)

const (
	maxBatch = 100 // submissions of a batch
	// batchWidth is how many of them are under way at once. What they come to is written before the next are begun, so that no more
	// of it is held: the answer to a replay has its whole result.
	batchWidth = 8
)

// SubmitBatch implements [route.ServerInterface].
func (a *api) SubmitBatch(w http.ResponseWriter, r *http.Request, deployment contract.Deployment) {
	p := principalOf(r)
	items, refused := a.batchOf(w, r, p, deployment)
	if refused == nil {
		refused = a.rate.take(w.Header(), p.Account(), len(items)-1) // the request itself counts for one
	}
	if refused != nil {
		refused.Write(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.BodyTimeout) // for all: a store that does not answer holds each of them up
	defer cancel()
	w.Header().Set("Content-Type", "application/json")
	dst := []byte(`{"results":[`)
	for part := range slices.Chunk(items, batchWidth) {
		for _, result := range a.submitPart(ctx, r, w.Header().Get(problem.RequestIDHeader), deployment, part) {
			dst = append(append(dst, result...), ',')
		}
		a.writeDeadline(w)
		if _, err := w.Write(dst[:len(dst)-1]); err != nil { // the client has gone, and would not hear of the rest
			return
		}
		dst = []byte{','}
	}
	_, _ = w.Write([]byte("]}")) // fails only where the client has gone
}

// batchOf reads a batch, and refuses one that can't be taken on as a whole.
func (a *api) batchOf(w http.ResponseWriter, r *http.Request, p auth.Principal, deployment string) ([]json.RawMessage, *problem.Problem) {
	refused := impossibleName(deployment)
	switch {
	case refused != nil:
		return nil, refused
	case !p.MayUse(deployment):
		return nil, problem.New(contract.ProblemCodeUnknownDeployment, "")
	case len(r.Header.Values(keyHeader)) > 0:
		return nil, invalidKey("A batch has no key of its own: each of its items takes one, as idempotency_key.")
	}
	limits := a.limits
	limits.around = 3 // the batch, its items, and the item
	body, refused := readBody(w, r, limits)
	if refused != nil {
		return nil, refused
	}
	return parseBatch(body)
}

func parseBatch(body []byte) ([]json.RawMessage, *problem.Problem) {
	members, refused := parseMembers(body, "items")
	if refused != nil {
		return nil, refused
	}
	value, refused := members.required("items")
	if refused != nil {
		return nil, refused
	}
	var items []json.RawMessage
	if err := json.Unmarshal(value, &items); err != nil {
		return nil, invalidMember("items", "type", "must be an array")
	}
	if len(items) < 1 || len(items) > maxBatch {
		return nil, invalidMember("items", "maxItems", fmt.Sprintf("must have from 1 to %d items", maxBatch)).WithLimit(maxBatch)
	}
	return items, nil
}

// submitPart carries out some submissions at once, and returns what each came to, in order.
func (a *api) submitPart(ctx context.Context, r *http.Request, requestID, deployment string, part []json.RawMessage) [][]byte {
	results := make([][]byte, len(part))
	var all sync.WaitGroup
	for i, item := range part {
		all.Go(func() { results[i] = a.submitItem(ctx, r, requestID, deployment, item) })
	}
	all.Wait()
	return results
}

// submitItem carries out one submission of a batch: contract.BatchResult, written by hand for the sake of what is stored as JSON.
func (a *api) submitItem(ctx context.Context, r *http.Request, requestID, deployment string, item []byte) (result []byte) {
	refusal := func(err error) []byte {
		p := a.problemOf(r, requestID, err)
		return append(appendRaw(append(appendStatus(p.Status), ','), "problem", p.Document(requestID)), '}')
	}
	defer func() { // no other goroutine catches it
		if reason := recover(); reason != nil {
			result = refusal(fmt.Errorf("panic: %v\n%s", reason, debug.Stack()))
		}
	}()
	key, body, refused := parseItem(item)
	if refused != nil {
		return refusal(refused.Err())
	}
	out, err := a.submit(ctx, principalOf(r), deployment, key, traceOf(r.Header), body)
	if err != nil {
		return refusal(err)
	}
	execution, err := projectionOf(out.Record)
	if err != nil {
		return refusal(unreadableWait(err))
	}
	if key != "" {
		execution = a.promised(execution)
	}
	dst := append(append(append(appendStatus(http.StatusAccepted), `,"replayed":`...), strconv.FormatBool(out.Replayed)...), ',')
	return append(appendRaw(dst, "execution", execution), '}')
}

func appendStatus(status int) []byte { return appendNumber([]byte{'{'}, "status", int64(status)) }

// parseItem returns the key of an item and its submission, which has the bytes that it would have alone: a key is bound to them.
func parseItem(item []byte) (key string, submission []byte, refused *problem.Problem) {
	members, refused := parseMembers(item, "idempotency_key", "submission")
	if refused != nil {
		return "", nil, refused
	}
	if submission, refused = members.required("submission"); refused != nil {
		return "", nil, refused
	}
	if _, ok := members["idempotency_key"]; !ok {
		return "", submission, nil
	}
	if key, refused = members.text("idempotency_key", maxKeyBytes); refused == nil {
		key, refused = validKey(key)
	}
	return key, submission, refused
}
