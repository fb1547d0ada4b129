package storetest

import (
	"context"
	"sync"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// observer tells a checker what a store acknowledged to one process.
type observer struct {
	store.Store
	checker *Checker

	mu  sync.Mutex // guards the following
	ops map[string]*Op
}

// Observe returns the store, with all that it acknowledges reported to the checker.
func Observe(s store.Store, c *Checker) store.Store {
	return &observer{Store: s, checker: c, ops: map[string]*Op{}}
}

func (o *observer) Submit(ctx context.Context, s store.Submission) (store.Submitted, error) {
	out, err := o.Store.Submit(ctx, s)
	switch {
	case err == nil:
		o.checker.Submitted(s.Key, out.Record.Control.ID)
	case execution.Is(err, execution.CodeKeyReused):
		o.checker.KeyRefused(s.Key)
	}
	return out, err
}

func (o *observer) Poll(ctx context.Context, r store.PollRequest) (store.Polled, error) {
	out, err := o.Store.Poll(ctx, r)
	for _, c := range out.Claimed {
		o.checker.Claimed(c)
	}
	return out, err
}

func (o *observer) Transition(ctx context.Context, c execution.Control, cmd execution.Command) (store.Transitioned, error) {
	owned, checkpoint := parts(cmd)
	o.mu.Lock()
	op := o.ops[owned.Operation]
	if op == nil {
		op = o.checker.Begin(c.ID, owned.Fence, checkpoint)
		o.ops[owned.Operation] = op
	}
	o.mu.Unlock()
	after, err := o.Store.Transition(ctx, c, cmd)
	if err == nil {
		op.Committed(after.Control, checkpoint)
	}
	return after, err
}

// parts are what an owned command shows of itself.
func parts(cmd execution.Command) (execution.Owned, []byte) {
	switch cmd := cmd.(type) {
	case execution.Checkpoint:
		return cmd.Owned, cmd.Data
	case execution.Suspend:
		return cmd.Owned, cmd.Checkpoint
	case execution.Report:
		return cmd.Owned, nil
	case execution.Retry:
		return cmd.Owned, nil
	case execution.Complete:
		return cmd.Owned, nil
	case execution.Fail:
		return cmd.Owned, nil
	case execution.Release:
		return cmd.Owned, nil
	}
	panic("not an owned command: " + execution.Name(cmd))
}

func (o *observer) Beat(ctx context.Context, beats []store.Beat) ([]store.Beaten, error) {
	ops := make([]*Op, len(beats))
	for i, b := range beats {
		ops[i] = o.checker.Begin(b.ID, b.Fence, nil)
	}
	out, err := o.Store.Beat(ctx, beats)
	for i, reply := range out {
		if reply.Err == nil {
			ops[i].Beaten()
		}
	}
	return out, err
}

func (o *observer) Resume(ctx context.Context, r store.ResumeRequest) (store.Resumed, error) {
	out, err := o.Store.Resume(ctx, r)
	if err == nil {
		o.checker.Resumed(r, out)
	}
	return out, err
}

func (o *observer) Cancel(ctx context.Context, id string, scope store.Scope, reason string) (store.Record, error) {
	r, err := o.Store.Cancel(ctx, id, scope, reason)
	if err == nil {
		o.checker.Canceled(r)
	}
	return r, err
}

func (o *observer) Read(ctx context.Context, r store.ReadRequest) (store.Record, error) {
	out, err := o.Store.Read(ctx, r)
	switch {
	case err == nil && r.History > 0:
		o.checker.Told(out)
	case err == nil:
		o.checker.Observed(out)
	}
	return out, err
}
