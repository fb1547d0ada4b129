package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"
)

const viewersLong = `Very many viewers of one server, ten of each execution, from a process of their own: connections to Redis, memory, and the time from
a chunk to its viewer, with ten chunks a second in all. Memory is what the server's resident size grew by, after a collection.

--viewers says how many; each takes a file of the server and one of the process that views, so that "ulimit -n" bounds them.
--watch says for how long; --short has 500 for 5 s.`

const (
	viewersEach        = 10
	viewersConnections = 64     // of the server to Redis
	viewersBytes       = 40_000 // a viewer
	viewersDelay       = 500    // ms, p99
	viewersTick        = 100 * time.Millisecond
)

// Viewers measures what viewers cost.
func Viewers(ctx context.Context, p Params) (*Report, error) {
	count, watch := 10_000, 30*time.Second
	if p.Short {
		count, watch = 500, 5*time.Second
	}
	if p.Viewers == 0 {
		p.Viewers = count
	}
	if p.Watch == 0 {
		p.Watch = watch
	}
	if p.Viewers%viewersEach != 0 {
		return nil, fmt.Errorf("--viewers: %d is no multiple of %d", p.Viewers, viewersEach)
	}
	r, err := begin(ctx, "viewers", p)
	if err != nil {
		return nil, err
	}
	defer r.end()
	name := fmt.Sprintf("%d viewers of %d executions", p.Viewers, p.Viewers/viewersEach)
	return r.report, r.repeatedly(ctx, name, func() error { return r.viewers(ctx, name) })
}

func (r *run) viewers(ctx context.Context, name string) error {
	executions := r.Viewers / viewersEach
	server, err := r.serve(ctx, serveOrder{Redis: r.redis.url, Prefix: r.redis.prefix, Slots: executions})
	if err != nil {
		return err
	}
	defer server.stop()
	audience, err := startProcess(ctx, r.Program)
	if err != nil {
		return err
	}
	defer audience.stop()
	at, err := url.Parse(server.url)
	if err != nil {
		return err
	}
	ids, err := submitAll(ctx, server.url, workTicker, executions, func(i int) string {
		return fmt.Sprintf(`{"offset":%d,"every":%d}`, int64(i)*viewersTick.Milliseconds(), int64(executions)*viewersTick.Milliseconds())
	})
	if err != nil {
		return err
	}
	if err := r.allRun(ctx, int64(executions)); err != nil {
		return err
	}
	// Some come and go first, so that pools are as large as they become.
	if _, err := audience.tell(order{Watch: &watchOrder{Addr: at.Host, IDs: ids[:min(100, len(ids))], Each: 1}}); err != nil {
		return err
	}
	if _, err := audience.tell(order{Leave: true}); err != nil {
		return err
	}
	empty, err := server.tell(order{Usage: true, Tidy: true})
	if err != nil {
		return err
	}
	r.Progress("viewers come")
	joined, err := audience.tell(order{Watch: &watchOrder{Addr: at.Host, IDs: ids, Each: viewersEach}})
	if err != nil {
		return err
	}
	r.Progress("%d viewers are there", joined.Seen.Viewers)
	pause(ctx, r.Watch)
	seen, err := audience.tell(order{Seen: true})
	if err != nil {
		return err
	}
	full, err := server.tell(order{Usage: true, Tidy: true})
	if err != nil {
		return err
	}
	connections, err := r.redis.connections(ctx)
	if err != nil {
		return err
	}
	r.viewed(name, seen.Seen, full.Usage.RSS-empty.Usage.RSS, connections)
	return nil
}

// viewed judges what was seen.
func (r *run) viewed(name string, seen audited, grown int64, connections float64) {
	switch {
	case seen.Viewers != r.Viewers:
		r.report.invalid(name, fmt.Sprintf("%d viewers were there at the end: %s", seen.Viewers, seen.Error))
	case seen.Gaps+seen.Breaks+seen.Lost > 0:
		r.report.invalid(name, fmt.Sprintf("viewers missed something: %+v", seen))
	case seen.Chunks == 0:
		r.report.invalid(name, "nobody saw a chunk")
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	r.report.add(name,
		count("connections to Redis", "", connections, viewersConnections),
		count("memory", "B a viewer", float64(grown)/float64(r.Viewers), viewersBytes),
		timed("chunk to viewer, median", "ms", ms(seen.Median), 0), timed("chunk to viewer, p99", "ms", ms(seen.P99), viewersDelay),
		timed("chunks seen", "/s", float64(seen.Chunks)/r.Watch.Seconds(), 0))
}

// connections is how many the server has, but for the benchmark's own.
func (s *redisServer) connections(ctx context.Context) (float64, error) {
	info, err := s.client.InfoMap(ctx, "clients").Result()
	if err != nil {
		return 0, fmt.Errorf("redis: %w", err)
	}
	n, err := strconv.Atoi(info["Clients"]["connected_clients"])
	return float64(n) - float64(s.client.PoolStats().TotalConns), err
}

// allRun returns once so many executions run.
func (r *run) allRun(ctx context.Context, n int64) error {
	kept, err := openStore(ctx, r.redis.url, r.redis.prefix, 1)
	if err != nil {
		return err
	}
	defer func() { _ = kept.Close() }() // nothing is under way
	for {
		counts, err := kept.Counts(ctx)
		if err != nil {
			return err
		}
		if counts.Leases >= n {
			return nil
		}
		if pause(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// submitAll submits work over HTTP, each with an input of its own.
func submitAll(ctx context.Context, at, deployment string, n int, input func(i int) string) ([]string, error) {
	const submitters = 8
	client := newHTTPClient(submitters)
	defer client.CloseIdleConnections()
	submit := overHTTP(client, at)
	ids := make([]string, n)
	errs := make(chan error, submitters)
	for lane := range submitters {
		go func() {
			for i := lane; i < n; i += submitters {
				id, err := submit(ctx, deployment, []byte(input(i)))
				if err != nil {
					errs <- err
					return
				}
				ids[i] = id
			}
			errs <- nil
		}()
	}
	var all []error
	for range submitters {
		all = append(all, <-errs)
	}
	return slices.Clip(ids), errors.Join(all...)
}
