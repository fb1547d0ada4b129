package redis

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/store"
)

// healthInterval is how long the doorbell's connection may be silent before it is asked for a sign of life, and then before
// it is given up. It is all that an idle subscription costs.
const healthInterval = 15 * time.Second

// Listen implements [store.Store]. It returns nil when ctx ends.
func (s *Store) Listen(ctx context.Context, ring func(store.Revision)) error {
	if !s.enter() {
		return unavailable(goredis.ErrClosed)
	}
	defer s.calls.Done()
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()

	channels := make([]string, s.config.Partitions)
	for p := range channels {
		channels[p] = s.keys.bell(p)
	}
	sub := s.client.Subscribe(both, channels...)
	defer context.AfterFunc(both, func() { _ = sub.Close() })()
	defer func() { _ = sub.Close() }() // what it said stands in err
	err := receive(both, sub, len(channels), ring)
	if ctx.Err() != nil {
		return nil
	}
	s.standing.doubt()
	return s.failed(err)
}

// receive rings for each message, and once when all channels are subscribed. It returns the first error.
func receive(ctx context.Context, sub *goredis.PubSub, channels int, ring func(store.Revision)) error {
	confirmed, asked := 0, false
	for {
		m, err := sub.ReceiveTimeout(ctx, healthInterval)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() && !asked && ctx.Err() == nil {
			asked = true
			if err := sub.Ping(ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		asked = false
		switch m := m.(type) {
		case *goredis.Subscription:
			if confirmed++; confirmed == channels {
				ring(store.Revision{})
			}
		case *goredis.Message:
			ring(revisionOf(m.Payload))
		}
	}
}

// revisionOf is what a doorbell names: any revision where it can't be read, so that no work is missed.
func revisionOf(name string) store.Revision {
	deployment, revision, ok := strings.Cut(name, "@")
	if !ok {
		return store.Revision{}
	}
	return store.Revision{Deployment: deployment, Revision: revision}
}
