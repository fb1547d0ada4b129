package runtime

import (
	"context"
	"slices"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// displaceTime is how long a revision's work is moved, or failed, before it is told how far that has come.
const displaceTime = 2 * time.Second

// DisplaceRequest is what an operator wants done with the work of a revision that does not run.
type DisplaceRequest struct {
	From    store.Revision
	Command execution.Command // execution.Move or execution.Withdraw
	// Force moves to a revision that nobody serves, and fails work of one that somebody does.
	Force  bool
	DryRun bool // only tells
}

// Displaced is how far that has come.
type Displaced struct {
	Done      int
	Remaining int64 // queued and waiting executions that are left
	Running   int64 // those that are left since they run
}

// Displace moves or fails what of a revision is queued or waits, until nothing is left, or its time is over. What runs is left to
// its worker, and queued again where that is lost. Errors are those of store.Store.Displace; CodeUnknownDeployment; CodeUnserved and
// CodeServed, which Force overrules; CodeUnconfirmed where the store did not answer. To ask again does nothing twice.
func (r *Runtime) Displace(ctx context.Context, req DisplaceRequest) (Displaced, error) {
	before, err := r.survey(ctx)
	if err == nil {
		err = req.allowed(before)
	}
	if err != nil {
		return Displaced{}, err
	}
	if req.DryRun {
		return left(before, req.From), nil
	}
	done := 0
	for begun := time.Now(); ; {
		round, err := r.displaceOnce(ctx, req)
		if err != nil {
			return Displaced{}, err
		}
		done += round.Done
		if round.Done == 0 || round.Remaining == 0 || time.Since(begun) >= displaceTime {
			break
		}
	}
	r.Logger.Info("an operator disposed of work of a revision", "command", execution.Name(req.Command), "deployment", req.From.Deployment,
		"revision", req.From.Revision, "executions", done)
	after, err := r.survey(ctx)
	out := left(after, req.From)
	out.Done = done
	return out, err
}

func (r *Runtime) displaceOnce(ctx context.Context, req DisplaceRequest) (store.Displaced, error) {
	ctx, cancel := r.exchange(ctx)
	defer cancel()
	out, err := r.Store.Displace(ctx, req.From, req.Command)
	return out, unconfirmed(err)
}

// allowed refuses what would leave work where it was, or end what would be done.
func (req DisplaceRequest) allowed(all []Deployment) error {
	i := slices.IndexFunc(all, func(d Deployment) bool { return d.Name == req.From.Deployment })
	if i < 0 {
		return execution.Errorf(execution.CodeUnknownDeployment, "there is no such deployment")
	}
	if err := store.Displaces(req.From, req.Command); err != nil {
		return execution.InvalidOption("to", "must name another revision")
	}
	served := func(revision string) bool {
		return slices.ContainsFunc(all[i].Revisions, func(s RevisionState) bool { return s.Revision.Revision == revision && s.Served })
	}
	switch cmd := req.Command.(type) {
	case execution.Move:
		if !req.Force && !served(cmd.Revision) {
			return execution.Errorf(execution.CodeUnserved, "no worker serves the revision %s: start one, or set force", cmd.Revision)
		}
	case execution.Withdraw:
		if !req.Force && served(req.From.Revision) {
			return execution.Errorf(execution.CodeServed, "workers serve the revision %s and take its work up: stop them, or set force", req.From.Revision)
		}
	}
	return nil
}

// left is what a revision has that is not finished.
func left(all []Deployment, of store.Revision) (out Displaced) {
	for _, d := range all {
		for _, s := range d.Revisions {
			if s.Revision == of {
				out.Remaining, out.Running = s.Ready+s.Delayed+s.Waiting, s.Running
			}
		}
	}
	return out
}
