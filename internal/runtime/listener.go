package runtime

import (
	"context"
	"sync/atomic"

	"github.com/windrow-run/windrow/internal/store"
)

// listener hears the doorbells that ring when work falls due anywhere, and listens again when the connection breaks. The
// store rings for everything after each subscription, so what was missed in between is not.
type listener struct {
	store    store.Store
	registry *registry
	loop     *loop

	subscribed atomic.Bool
}

// Run listens until ctx ends.
func (l *listener) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := l.step(ctx); ctx.Err() == nil {
			sleep(ctx, l.loop.failed(err))
		}
	}
	return nil
}

// step is one subscription, until it breaks.
func (l *listener) step(ctx context.Context) error {
	defer l.subscribed.Store(false)
	return l.store.Listen(ctx, func(rev store.Revision) {
		if rev == (store.Revision{}) {
			l.loop.succeeded()
			l.subscribed.Store(true)
		}
		l.registry.ring(rev)
	})
}
