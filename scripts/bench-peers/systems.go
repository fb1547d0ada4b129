package main

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/hibiken/asynq"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/api/windrow"
)

// windrowQueue is a server of Windrow within this process.
type windrowQueue struct {
	server *windrow.Server
	cancel context.CancelFunc
	ended  chan error
}

func startWindrow(ctx context.Context, url string, slots int, ran func()) (queue, error) {
	noop := func(_ durable.Context, in json.RawMessage) (json.RawMessage, error) {
		ran()
		return in, nil
	}
	s, err := windrow.New(windrow.Options{RedisURL: url, Slots: slots, MaxUnfinished: windrow.None},
		durable.MustDefine("noop", "1", noop, nil))
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	q := &windrowQueue{server: s, cancel: cancel, ended: make(chan error, 1)}
	go func() { q.ended <- s.Run(running) }()
	if err := s.WaitReady(ctx); err != nil {
		return nil, err
	}
	return q, nil
}

func (q *windrowQueue) submit(ctx context.Context) error {
	_, err := q.server.Submit(ctx, "noop", json.RawMessage(`{}`), nil)
	return err
}

func (q *windrowQueue) stop() error {
	q.cancel()
	return <-q.ended
}

// asynqQueue is a client and a server of asynq.
type asynqQueue struct {
	client *asynq.Client
	server *asynq.Server
}

func startAsynq(addr string, slots int, ran func()) (queue, error) {
	to := asynq.RedisClientOpt{Addr: addr}
	server := asynq.NewServer(to, asynq.Config{Concurrency: slots, LogLevel: asynq.FatalLevel})
	err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		ran()
		return nil
	}))
	return &asynqQueue{asynq.NewClient(to), server}, err
}

func (q *asynqQueue) submit(ctx context.Context) error {
	_, err := q.client.EnqueueContext(ctx, asynq.NewTask("noop", []byte(`{}`)))
	return err
}

func (q *asynqQueue) stop() error {
	q.server.Shutdown()
	return q.client.Close()
}

// noopArgs is the job of River.
type noopArgs struct{}

// Kind names the job.
func (noopArgs) Kind() string { return "noop" }

// riverQueue is a client of River, which also works.
type riverQueue struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
}

func startRiver(ctx context.Context, url string, slots int, ran func()) (queue, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	q := &riverQueue{pool: pool}
	if err := q.start(ctx, slots, ran); err != nil {
		pool.Close()
		return nil, err
	}
	return q, nil
}

func (q *riverQueue) start(ctx context.Context, slots int, ran func()) error {
	driver := riverpgxv5.New(q.pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	if _, err := q.pool.Exec(ctx, "TRUNCATE river_job"); err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[noopArgs]) error {
		ran()
		return nil
	}))
	q.client, err = river.NewClient(driver, &river.Config{Workers: workers, Logger: slog.New(slog.DiscardHandler),
		FetchCooldown: river.FetchCooldownMin, FetchPollInterval: river.FetchPollIntervalMin,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: slots}}})
	if err != nil {
		return err
	}
	return q.client.Start(context.WithoutCancel(ctx))
}

func (q *riverQueue) submit(ctx context.Context) error {
	_, err := q.client.Insert(ctx, noopArgs{}, nil)
	return err
}

func (q *riverQueue) stop() error {
	err := q.client.Stop(context.Background())
	q.pool.Close()
	return err
}
