package bench

import (
	"context"
	"fmt"
	"time"
)

const idleLong = `A process that has nothing to do, with one partition: polls, maintenance, heartbeats and the doorbell. With a hundred deployments
and sixteen slots each it must cost the same as with one deployment and one slot.

--watch says how long it is looked at, a multiple of 10s; --short looks for 10 s.`

const (
	idleCommands  = 0.8 // a second
	idleExchanges = 0.4
	idlePeriod    = 10 * time.Second // polls and maintenance come as often in each
)

// Idle measures idle processes.
func Idle(ctx context.Context, p Params) (*Report, error) {
	watch := 3 * idlePeriod
	if p.Short {
		watch = idlePeriod
	}
	if p.Watch > 0 {
		watch = p.Watch
	}
	if watch%idlePeriod != 0 {
		return nil, fmt.Errorf("--watch: %s is no multiple of %s", watch, idlePeriod)
	}
	r, err := begin(ctx, "idle", p)
	if err != nil {
		return nil, err
	}
	defer r.end()
	for _, o := range []serveOrder{{Deployments: 1, Slots: 1, Bystander: true}, {Deployments: 100, Slots: 16, Bystander: true}} {
		name := fmt.Sprintf("deployments: %d", o.Deployments)
		if err := r.repeatedly(ctx, name, func() error { return r.idle(ctx, name, o, watch) }); err != nil {
			return nil, err
		}
	}
	return r.report, nil
}

func (r *run) idle(ctx context.Context, name string, o serveOrder, watch time.Duration) error {
	proxy, url, err := r.redis.proxy(ctx)
	if err != nil {
		return err
	}
	defer proxy.Close()
	o.Redis, o.Prefix = url, r.redis.prefix
	server, err := r.serve(ctx, o)
	if err != nil {
		return err
	}
	defer server.stop()
	if err := r.tellScripts(ctx); err != nil {
		return err
	}
	pause(ctx, settling)
	before, err := proxy.Traffic()
	if err != nil {
		return err
	}
	pause(ctx, watch)
	after, err := proxy.Traffic()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	traffic, seconds := after.since(before), watch.Seconds()
	r.report.add(name,
		count("client commands", "/s", float64(traffic.Commands)/seconds, idleCommands),
		count("exchanges", "/s", float64(traffic.Exchanges)/seconds, idleExchanges),
		count("bytes", "B/s", float64(traffic.Bytes)/seconds, 0))
	for name2, n := range traffic.ByName {
		r.report.add(name, count("commands: "+name2, "/s", float64(n)/seconds, 0))
	}
	return nil
}

// settling is how long what a start brings with it is waited for.
const settling = 3 * time.Second
