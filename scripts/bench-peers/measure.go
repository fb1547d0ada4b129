package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	ours = "windrow"

	together = "together" // submitted while others run
	drained  = "drained"  // submitted before any runs
)

// queue is a system under test with one kind of job, which calls a function.
type queue interface {
	// submit hands in one job.
	submit(ctx context.Context) error
	// stop ends what runs, once all has been handed in and run.
	stop() error
}

// figures are what one run came to.
type figures struct {
	Seconds   float64 `json:"seconds"`
	Rate      float64 `json:"jobs_per_second"`
	OwnCPU    float64 `json:"own_cpu_us"`    // a job, of this process
	ServerCPU float64 `json:"server_cpu_us"` // a job, of the server that holds the jobs
}

// bench has the servers that all runs share.
type bench struct {
	settings settings
	redis    *redisServer
	postgres *postgresServer // nil where no peer needs it
}

func newBench(ctx context.Context, s settings) (_ *bench, err error) {
	b := &bench{settings: s}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.redis, err = startRedis(ctx); err != nil {
		return nil, err
	}
	for _, p := range s.peers {
		if p == "river" && b.postgres == nil {
			if b.postgres, err = startPostgres(ctx, s.postgres); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

func (b *bench) close() {
	if b.redis != nil {
		b.redis.stop()
	}
	if b.postgres != nil {
		b.postgres.stop()
	}
}

// start starts a system on an empty server. ran is called by each of its jobs.
func (b *bench) start(ctx context.Context, who string, ran func()) (queue, error) {
	if who == "river" {
		return startRiver(ctx, b.postgres.url, b.settings.slots, ran)
	}
	if err := b.redis.empty(ctx); err != nil {
		return nil, err
	}
	if who == "asynq" {
		return startAsynq(b.redis.addr, b.settings.slots, ran)
	}
	return startWindrow(ctx, "redis://"+b.redis.addr, b.settings.slots, ran)
}

// cpu is the time that the server of a system has used so far.
func (b *bench) cpu(ctx context.Context, who string) (time.Duration, error) {
	if who == "river" {
		return b.postgres.cpu()
	}
	return b.redis.cpu(ctx)
}

// measure is one run.
func (b *bench) measure(ctx context.Context, who, way string, jobs int) (f figures, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.settings.limit, fmt.Errorf("it took more than %v", b.settings.limit))
	defer cancel()
	var count atomic.Int64
	gate, done := make(chan struct{}), make(chan struct{})
	ran := func() {
		<-gate // what has a slot already waits there for the rest to be handed in
		if count.Add(1) == int64(jobs) {
			close(done)
		}
	}
	q, err := b.start(ctx, who, ran)
	if err != nil {
		return f, err
	}
	open := sync.OnceFunc(func() { close(gate) })
	defer func() {
		open()
		err = errors.Join(err, q.stop())
	}()
	if way == together {
		open()
	} else if err := b.submitAll(ctx, q, jobs); err != nil {
		return f, err
	}
	return b.timed(ctx, who, jobs, func() error {
		if way == together {
			if err := b.submitAll(ctx, q, jobs); err != nil {
				return err
			}
		}
		open()
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%d of %d jobs ran: %w", count.Load(), jobs, context.Cause(ctx))
		}
	})
}

func (b *bench) timed(ctx context.Context, who string, jobs int, work func() error) (f figures, err error) {
	server, err := b.cpu(ctx, who)
	if err != nil {
		return f, err
	}
	own, begin := ownCPU(), time.Now()
	if err := work(); err != nil {
		return f, err
	}
	took, spent := time.Since(begin), ownCPU()-own
	after, err := b.cpu(ctx, who)
	n := float64(jobs)
	return figures{Seconds: took.Seconds(), Rate: n / took.Seconds(), OwnCPU: micros(spent) / n, ServerCPU: micros(after-server) / n}, err
}

// submitAll hands in all jobs from as many goroutines as there are submitters.
func (b *bench) submitAll(ctx context.Context, q queue, jobs int) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, b.settings.submitters)
	for i := range errs {
		wg.Go(func() {
			for errs[i] == nil && next.Add(1) <= int64(jobs) {
				errs[i] = q.submit(ctx)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// ownCPU is the time that this process has used so far.
func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it never fails for this process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
