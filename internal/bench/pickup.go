package bench

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/windrow-run/windrow/internal/config"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/server"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/telemetry"
)

const (
	pickupCount = 500
	pickupEvery = 20 * time.Millisecond
	pickupLimit = 25 // ms
)

// pickup measures how soon another process takes work up, with little to do.
func (r *run) pickup(ctx context.Context, name string) error {
	f, err := r.fleet(ctx, 1, serveOrder{Redis: r.redis.url, Slots: r.Slots, Tell: true})
	if err != nil {
		return err
	}
	defer f.stop()
	kept, err := openStore(ctx, r.redis.url, r.redis.prefix, 1)
	if err != nil {
		return err
	}
	defer func() { _ = kept.Close() }() // nothing is under way
	submit := intoStore(kept, nil)
	var l loaded
	if _, err := drive(ctx, submit, driveOrder{Kind: workNoop, Count: 20, Submitters: 1, Every: pickupEvery}); err != nil {
		return err
	}
	if _, err := f.servers[0].tell(order{Reset: true}); err != nil {
		return err
	}
	if _, err := drive(ctx, submit, driveOrder{Kind: workNoop, Count: pickupCount, Submitters: 1, Every: pickupEvery}); err != nil {
		return err
	}
	if err := f.await(ctx, pickupCount); err != nil {
		return err
	}
	u, _, err := f.usage()
	if err != nil {
		return err
	}
	l.pickups = u.Pickups
	slices.Sort(l.pickups)
	r.report.add(name, timed("p50", "ms", percentile(l.pickups, 50), 0), timed("p99", "ms", percentile(l.pickups, 99), pickupLimit))
	return nil
}

// openStore opens a store of this process's own, which serves nothing.
func openStore(ctx context.Context, url, prefix string, partitions int) (checkedStore, error) {
	c := config.Default()
	c.Redis, c.Prefix, c.Partitions = config.Secret(url), prefix, partitions
	s, err := server.NewStore(c.Complete(), slog.New(slog.DiscardHandler), telemetry.New())
	if err != nil {
		return nil, err
	}
	kept, ok := s.(checkedStore)
	if !ok {
		return nil, errors.Join(errors.New("the store is none of Redis"), s.Close())
	}
	if err := kept.Open(ctx); err != nil {
		return nil, errors.Join(err, kept.Close())
	}
	return kept, nil
}

// tellScripts makes the server know what only comes by the clock: maintenance, and looks at controls and health.
func (r *run) tellScripts(ctx context.Context) error {
	kept, err := openStore(ctx, r.redis.url, r.redis.prefix, 1)
	if err != nil {
		return err
	}
	defer func() { _ = kept.Close() }() // nothing is under way
	_, errControls := kept.Controls(ctx, []string{kept.NewID(store.Key{})})
	_, errMaintain := kept.Maintain(ctx, 1)
	_, errCounts := kept.Counts(ctx)
	return errors.Join(errControls, errMaintain, errCounts, kept.Check(ctx))
}

// intoStore submits without a server. change, where it is not nil, may make something else of the submission.
func intoStore(kept store.Store, change func(*store.Submission)) submitter {
	return func(ctx context.Context, deployment string, input []byte) (string, error) {
		s := store.Submission{Submit: execution.Submit{Deployment: deployment, Revision: "1", Budgets: execution.DefaultBudgets(), Input: input}}
		if change != nil {
			change(&s)
		}
		s.ID = kept.NewID(s.Key)
		_, err := kept.Submit(ctx, s)
		return s.ID, err
	}
}
