package runtime

import (
	"context"
	"time"

	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/store"
)

// eraseTime is how long the erasure of an owner goes on before it tells how far it has come.
const eraseTime = 2 * time.Second

// Erase removes an execution with all that belongs to it, and ends the context of its handler at once where it runs in this
// process. Errors are those of store.Store.Erase, with CodeUnconfirmed where the store did not answer.
func (r *Runtime) Erase(ctx context.Context, id string, scope store.Scope) (store.Erased, error) {
	return r.erased(ctx, func(ctx context.Context) (store.Erased, error) { return r.Store.Erase(ctx, id, scope) })
}

// EraseOwner removes executions of an owner until there are none, or its time is over, and tells which. Errors are as those of
// Erase; what was erased before one is not told.
func (r *Runtime) EraseOwner(ctx context.Context, owner string) (store.Erased, error) {
	var all store.Erased
	for begun := time.Now(); ; {
		round, err := r.erased(ctx, func(ctx context.Context) (store.Erased, error) { return r.Store.EraseOwner(ctx, owner) })
		if err != nil {
			return store.Erased{}, err
		}
		all.More = false
		kept := all.Kept
		all.Add(round)
		all.Kept = max(kept, round.Kept) // each round passes over the same ones
		if !all.More || time.Since(begun) >= eraseTime {
			return all, nil
		}
	}
}

func (r *Runtime) erased(ctx context.Context, erase func(context.Context) (store.Erased, error)) (store.Erased, error) {
	ctx, cancel := r.exchange(ctx)
	defer cancel()
	out, err := erase(ctx)
	for _, id := range out.Ran {
		r.registry.stop(id, handler.ErrLeaseLost)
	}
	return out, unconfirmed(err)
}
