package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// gate keeps a store from being used before it was checked: a server that listens while Redis is still away must not write to
// a namespace that may turn out to be another's. Until it is open every call fails with CodeUnavailable, and has changed
// nothing.
type gate struct {
	to   store.Store
	open atomic.Bool
}

var (
	_ store.Store    = (*gate)(nil)
	_ store.Reporter = (*gate)(nil)
)

// pass carries out a call where the gate is open.
func pass[T any](g *gate, call func() (T, error)) (T, error) {
	if !g.open.Load() {
		var none T
		return none, &execution.Error{Code: execution.CodeUnavailable, Message: "the store has not answered yet", Unchanged: true}
	}
	return call()
}

func (g *gate) NewID(key store.Key) string { return g.to.NewID(key) }

func (g *gate) Partitions() int { return g.to.Partitions() }

func (g *gate) PartitionOf(id string) (int, bool) { return g.to.PartitionOf(id) }

func (g *gate) Submit(ctx context.Context, s store.Submission) (store.Submitted, error) {
	return pass(g, func() (store.Submitted, error) { return g.to.Submit(ctx, s) })
}

func (g *gate) FindKey(ctx context.Context, key store.Key) (store.Submitted, error) {
	return pass(g, func() (store.Submitted, error) { return g.to.FindKey(ctx, key) })
}

func (g *gate) Poll(ctx context.Context, r store.PollRequest) (store.Polled, error) {
	return pass(g, func() (store.Polled, error) { return g.to.Poll(ctx, r) })
}

func (g *gate) Transition(ctx context.Context, c execution.Control, cmd execution.Command) (store.Transitioned, error) {
	return pass(g, func() (store.Transitioned, error) { return g.to.Transition(ctx, c, cmd) })
}

func (g *gate) Beat(ctx context.Context, beats []store.Beat) ([]store.Beaten, error) {
	return pass(g, func() ([]store.Beaten, error) { return g.to.Beat(ctx, beats) })
}

func (g *gate) Resume(ctx context.Context, r store.ResumeRequest) (store.Resumed, error) {
	return pass(g, func() (store.Resumed, error) { return g.to.Resume(ctx, r) })
}

func (g *gate) Cancel(ctx context.Context, id string, scope store.Scope, reason string) (store.Record, error) {
	return pass(g, func() (store.Record, error) { return g.to.Cancel(ctx, id, scope, reason) })
}

func (g *gate) Maintain(ctx context.Context, limit int) (store.Maintained, error) {
	return pass(g, func() (store.Maintained, error) { return g.to.Maintain(ctx, limit) })
}

func (g *gate) Displace(ctx context.Context, rev store.Revision, cmd execution.Command) (store.Displaced, error) {
	return pass(g, func() (store.Displaced, error) { return g.to.Displace(ctx, rev, cmd) })
}

func (g *gate) Erase(ctx context.Context, id string, scope store.Scope) (store.Erased, error) {
	return pass(g, func() (store.Erased, error) { return g.to.Erase(ctx, id, scope) })
}

func (g *gate) EraseOwner(ctx context.Context, owner string) (store.Erased, error) {
	return pass(g, func() (store.Erased, error) { return g.to.EraseOwner(ctx, owner) })
}

func (g *gate) Read(ctx context.Context, r store.ReadRequest) (store.Record, error) {
	return pass(g, func() (store.Record, error) { return g.to.Read(ctx, r) })
}

func (g *gate) List(ctx context.Context, r store.ListRequest) (store.Listed, error) {
	return pass(g, func() (store.Listed, error) { return g.to.List(ctx, r) })
}

func (g *gate) Controls(ctx context.Context, ids []string) ([]execution.Control, error) {
	return pass(g, func() ([]execution.Control, error) { return g.to.Controls(ctx, ids) })
}

func (g *gate) Tail(ctx context.Context, partition int) (store.Tail, error) {
	return pass(g, func() (store.Tail, error) { return g.to.Tail(ctx, partition) })
}

func (g *gate) Listen(ctx context.Context, ring func(store.Revision)) error {
	_, err := pass(g, func() (struct{}, error) { return struct{}{}, g.to.Listen(ctx, ring) })
	return err
}

func (g *gate) Counts(ctx context.Context) (store.Counts, error) {
	return pass(g, func() (store.Counts, error) { return g.to.Counts(ctx) })
}

func (g *gate) Workers(ctx context.Context) (store.Workers, error) {
	return pass(g, func() (store.Workers, error) { return g.to.Workers(ctx) })
}

func (g *gate) Check(ctx context.Context) error {
	_, err := pass(g, func() (struct{}, error) { return struct{}{}, g.to.Check(ctx) })
	return err
}

// Conditions implements [store.Reporter] for a store that does.
func (g *gate) Conditions() []store.Condition {
	if r, ok := g.to.(store.Reporter); ok {
		return r.Conditions()
	}
	return nil
}

func (g *gate) Close() error { return g.to.Close() }

// opener is a store that checks what it stands on before it is used.
type opener interface {
	// Open returns an error of CodeUnavailable where trying again may help.
	Open(ctx context.Context) error
}

const (
	openPause  = time.Second // between two tries to open the store
	openLogged = 30          // the first try is logged, and then one of that many
)

// openStore opens the gate once the store is there, and waits for one that does not answer. One that answers but can't be used
// ends the server.
func (a *App) openStore(ctx context.Context) error {
	for tries := 1; ; tries++ {
		err := a.tryStore(ctx)
		if err == nil {
			a.Metrics.SetStoreErrorStreak(0)
			a.store.open.Store(true)
			return nil
		}
		if !execution.Is(err, execution.CodeUnavailable) {
			return err
		}
		a.Metrics.SetStoreErrorStreak(tries)
		if tries%openLogged == 1 {
			a.Logger.Warn("the store can't be used yet; trying again", "every", openPause.String(), "tries", tries, "error", err)
		}
		select {
		case <-time.After(openPause):
		case <-ctx.Done():
			return nil
		}
	}
}

func (a *App) tryStore(ctx context.Context) error {
	if s, ok := a.store.to.(opener); ok {
		return s.Open(ctx)
	}
	return nil
}
