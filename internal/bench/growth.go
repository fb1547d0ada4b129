package bench

import (
	"context"
	"fmt"
	"net/url"
	"time"
)

const growthLong = `What an execution costs as everything around it grows: with many stored against a thousand, with 100 deployments against one, with
8 partitions against one, and with 1,000 viewers of other executions against none. Two servers, each on a Redis of its own, do
executions of nothing in turns, so that what else the machine does falls on both; each pair gives one ratio. With --redis both
use that server, under prefixes of their own. Only what is stored has limits: a poll asks for every deployment that its process serves,
and every partition.

--stored says how many are stored, --count how many executions a turn has; --short stores 5,000 and has shorter turns.`

// Numbers of what is compared, and limits of the ratios.
const (
	growthFew        = 1000
	growthPairs      = 6
	growthSubmitters = 16
	growthSlower     = 90  // % of the executions a second that there must be with many
	growthDearer     = 110 // % of the cost at most
	growthMany       = 100 // deployments
	growthPartitions = 8
	growthViewers    = 1000
)

// growthSide is one of two that are compared.
type growthSide struct {
	stored      int
	deployments int
	partitions  int
	viewers     int
}

// Growth measures whether an execution costs more where there is more of everything.
func Growth(ctx context.Context, p Params) (*Report, error) {
	if p.Stored == 0 {
		p.Stored = 100_000
		if p.Short {
			p.Stored = 5000
		}
	}
	if p.Count == 0 {
		p.Count = 2000
		if p.Short {
			p.Count = 300
		}
	}
	r, err := begin(ctx, "growth", p)
	if err != nil {
		return nil, err
	}
	defer r.end()
	one := growthSide{stored: growthFew, deployments: 1, partitions: 1}
	stored, deployments, partitions, viewers := one, one, one, one
	stored.stored, deployments.deployments, partitions.partitions, viewers.viewers = p.Stored, growthMany, growthPartitions, growthViewers
	for _, c := range []struct {
		name    string
		many    growthSide
		limited bool
	}{
		{fmt.Sprintf("%d stored against %d", p.Stored, growthFew), stored, true},
		{fmt.Sprintf("%d deployments against 1", growthMany), deployments, false},
		{fmt.Sprintf("%d partitions against 1", growthPartitions), partitions, false},
		{fmt.Sprintf("%d viewers against none", growthViewers), viewers, false},
	} {
		if !r.wanted(c.name) {
			continue
		}
		r.Progress("%s", c.name)
		if err := r.compare(ctx, c.name, one, c.many, c.limited); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return r.report, nil
}

// stand is one side with all that it needs.
type stand struct {
	growthSide
	redis    *redisServer
	fleet    *fleet
	audience *process // nil: none
}

// compare has both sides work in turns.
func (r *run) compare(ctx context.Context, name string, few, many growthSide, limited bool) error {
	a, err := r.stand(ctx, few)
	if err != nil {
		return err
	}
	defer a.close()
	b, err := r.stand(ctx, many)
	if err != nil {
		return err
	}
	defer b.close()
	pairs := growthPairs * r.Runs
	if r.Short {
		pairs = 2
	}
	for i := range pairs + 1 {
		one, err := a.work(ctx, r.Count)
		if err != nil {
			return err
		}
		other, err := b.work(ctx, r.Count)
		if err != nil {
			return err
		}
		if i > 0 { // the first pair warms up
			r.report.add(name, growthFigures(one, other, limited)...)
		}
	}
	return nil
}

// growthFigures compares one turn of each.
func growthFigures(few, many turn, limited bool) []Figure {
	percent := func(many, few float64) float64 { return 100 * many / few }
	slower, dearer := 0.0, 0.0
	if limited {
		slower, dearer = growthSlower, growthDearer
	}
	return []Figure{
		timed("executions with few", "/s", few.rate(), 0), timed("executions with many", "/s", many.rate(), 0),
		atLeast("executions a second, of that with few", percent(many.rate(), few.rate()), slower),
		{Name: "CPU of Redis each, of that with few", Unit: "%", Kind: Ratio, Values: []float64{percent(many.redisCPU, few.redisCPU)}, Limit: dearer},
		count("server commands with few", "each", few.commands, 0), count("server commands with many", "each", many.commands, 0),
		count("server commands, of that with few", "%", percent(many.commands, few.commands), dearer),
	}
}

// turn is what one side did.
type turn struct {
	loaded
	commands float64 // of the server, an execution
}

// work does n executions.
func (s *stand) work(ctx context.Context, n int) (turn, error) {
	before, err := s.redis.load(ctx)
	if err != nil {
		return turn{}, err
	}
	c := throughputCase{kind: workNoop, submitters: growthSubmitters, deployments: s.deployments}
	l, err := s.fleet.load(ctx, c, n)
	if err != nil {
		return turn{}, err
	}
	after, err := s.redis.load(ctx)
	l.redisCPU = after.cpu - before.cpu
	return turn{l, float64(after.commands-before.commands) / float64(n)}, err
}

// stand makes a side. close must be called.
func (r *run) stand(ctx context.Context, side growthSide) (s *stand, err error) {
	s = &stand{growthSide: side, fleet: &fleet{}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.redis, err = openRedis(ctx, r.Redis); err != nil {
		return s, err
	}
	if err := s.fill(ctx); err != nil {
		return s, err
	}
	own := *r
	own.redis = s.redis
	s.fleet, err = own.fleet(ctx, 1, serveOrder{Redis: s.redis.url, Slots: r.Slots, Deployments: side.deployments, Partitions: side.partitions, Tell: true})
	if err == nil && side.viewers > 0 {
		err = s.seat(ctx, &own)
	}
	return s, err
}

// fill stores what nobody works on: four fifths finished, the rest queued.
func (s *stand) fill(ctx context.Context) error {
	kept, err := openStore(ctx, s.redis.url, s.redis.prefix, s.partitions)
	if err != nil {
		return err
	}
	defer func() { _ = kept.Close() }() // nothing is under way
	queued := s.stored / 5
	f := filler{store: kept, deployment: "stored", stage: stageFinished}
	if err := f.fill(ctx, s.stored-queued); err != nil {
		return err
	}
	f.stage = stageQueued
	return f.fill(ctx, queued)
}

// seat has viewers watch executions in which nothing happens.
func (s *stand) seat(ctx context.Context, r *run) (err error) {
	const each = 10
	server := s.fleet.servers[0]
	ids, err := submitAll(ctx, server.url, workHeld, s.viewers/each, func(int) string { return "{}" })
	if err != nil {
		return err
	}
	if s.audience, err = startProcess(ctx, r.Program); err != nil {
		return err
	}
	at, err := url.Parse(server.url)
	if err != nil {
		return err
	}
	a, err := s.audience.tell(order{Watch: &watchOrder{Addr: at.Host, IDs: ids, Each: each}})
	if err == nil && a.Seen.Viewers < s.viewers {
		err = fmt.Errorf("%d viewers came of %d: %s", a.Seen.Viewers, s.viewers, a.Seen.Error)
	}
	pause(ctx, time.Second) // what their coming costs is over
	return err
}

func (s *stand) close() {
	if s.audience != nil {
		s.audience.stop()
	}
	s.fleet.stop()
	if s.redis != nil {
		s.redis.Close()
	}
}
