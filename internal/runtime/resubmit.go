package runtime

import (
	"context"
	"maps"
	"strings"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// ResubmittedFrom is the label of an execution that was made from another one's input, with the id of that one.
const ResubmittedFrom = "windrow/resubmitted-from"

// ResubmitRequest asks for what an ended execution was submitted with to be done once more.
type ResubmitRequest struct {
	ID    string
	Scope store.Scope
	Key   string // makes it happen once for this execution; empty: nothing does
	// SameRevision asks for the revision that the execution had, in place of the one that this process serves. Its input is then
	// not checked again.
	SameRevision bool
	Trace        execution.Trace
}

// Resubmit submits the input of an ended execution again, with its owner, labels and priority, and without its times, which
// have passed. Errors: those of store.Store.Read and of Submit; CodeNotEnded.
func (r *Runtime) Resubmit(ctx context.Context, req ResubmitRequest) (store.Submitted, error) {
	record, err := r.Get(ctx, store.ReadRequest{ID: req.ID, Scope: req.Scope, Input: true})
	if err != nil {
		return store.Submitted{}, err
	}
	c := record.Control
	if !c.Status.Terminal() {
		return store.Submitted{}, execution.Errorf(execution.CodeNotEnded, "the execution is %s", c.Status)
	}
	again := SubmitRequest{Deployment: c.Deployment, Owner: c.Owner, Labels: labelsFrom(c), Key: resubmissionKey(req), Input: record.Input, Actor: req.Scope.By,
		Body: []byte("resubmit"), SubmitOptions: SubmitOptions{Priority: c.Priority, Trace: req.Trace}}
	if req.SameRevision {
		again.Revision, again.Body = c.Revision, []byte("resubmit same")
	}
	return r.Submit(ctx, again)
}

// resubmissionKey is a key that no client can name, since it has control characters: one of a client for one execution has nothing to
// do with the same one for another, or with that of a submission.
func resubmissionKey(req ResubmitRequest) string {
	if req.Key == "" {
		return ""
	}
	return strings.Join([]string{"\x01resubmit", req.ID, req.Key}, "\x01")
}

// labelsFrom are the labels of an execution, and where the new one came from if there is room for one more.
func labelsFrom(c execution.Control) execution.Labels {
	all := maps.Collect(c.Labels.All())
	all[ResubmittedFrom] = c.ID
	labels, err := execution.NewLabels(all)
	if err != nil {
		return c.Labels
	}
	return labels
}
