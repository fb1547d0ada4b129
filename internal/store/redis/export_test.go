package redis

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// Through returns a configuration whose connections, those to Sentinels included, are made by dial.
func Through(c Config, dial func(ctx context.Context, network, addr string) (net.Conn, error)) Config {
	c.dial = dial
	return c
}

// MovedTo is the address at which the client looks for the server of a partition.
func (s *Store) MovedTo(ctx context.Context, partition int) (string, error) {
	o, err := s.nodeOptions(ctx, s.keys.anchor(partition))
	if err != nil {
		return "", err
	}
	return o.Addr, nil
}

// StandingClock returns a configuration whose scripts read their time, in microseconds, from the key "<anchor>clock" of
// their partition. Tests move it, and nothing else does.
func StandingClock(c Config) Config {
	c.clock = `
local function clock()
  local us = tonumber(redis.call('GET', KEYS[1] .. 'clock'))
  return us, math.floor(us / 1000)
end`
	return c
}

// ClockKey is where the time of a partition stands.
func (s *Store) ClockKey(partition int) string { return s.keys.anchor(partition) + "clock" }

// TellScripts makes the servers know all scripts, so that no call needs a second exchange.
func (s *Store) TellScripts(ctx context.Context) error {
	for _, one := range s.scripts.all() {
		load := func(ctx context.Context, node *goredis.Client) error { return node.ScriptLoad(ctx, one.source).Err() }
		if many, ok := s.client.(*goredis.ClusterClient); ok {
			if err := many.ForEachMaster(ctx, load); err != nil {
				return err
			}
		} else if err := load(ctx, s.client.(*goredis.Client)); err != nil {
			return err
		}
	}
	return nil
}

// Plant breaks the store: what the scripts say at a place is replaced by something else. It is an error where no script
// says it.
func (s *Store) Plant(text, broken string) error {
	found := false
	for _, one := range s.scripts.all() {
		if strings.Contains(one.source, text) {
			*one = scriptOf(one.name, strings.ReplaceAll(one.source, text, broken))
			found = true
		}
	}
	if !found {
		return fmt.Errorf("no script says %q", text)
	}
	return nil
}

func (sc *scripts) all() []*script {
	return []*script{&sc.attach, &sc.submit, &sc.find, &sc.poll, &sc.apply, &sc.beat, &sc.cancel, &sc.displace, &sc.resume, &sc.read, &sc.list,
		&sc.controls, &sc.overdue, &sc.remove, &sc.erase, &sc.counts, &sc.workers, &sc.check}
}

// Doubt makes the store check its servers again after the next exchange, as a failure does.
func (s *Store) Doubt() { s.standing.doubt() }

// CheckIsDue makes the time come at which the store checks its servers without a reason.
func (s *Store) CheckIsDue() { s.standing.next.Store(1) }

// ScriptNames are the names of the scripts of a store that is configured so, by what a server knows them as.
func ScriptNames(c Config) map[string]string {
	c = c.withDefaults()
	names := map[string]string{}
	all := loadScripts(c.Limits, c.Ack.waits(), c.clock)
	for _, one := range all.all() {
		names[one.sha] = one.name
	}
	return names
}

// Ground keeps the changes of a partition that share exchanges from leaving until they are released, then in as few exchanges as
// they fit into. await returns once n wait.
func (s *Store) Ground(partition int) (await func(n int), release func()) {
	lanes := []*lane{s.submitting[partition], s.applying[partition]}
	move := func(by int) (waiting int) {
		for _, l := range lanes {
			l.mu.Lock()
			l.flights += by
			l.startLocked()
			waiting += len(l.waiting)
			l.mu.Unlock()
		}
		return waiting
	}
	move(maxFlights)
	await = func(n int) {
		for move(0) < n {
			runtime.Gosched()
		}
	}
	return await, func() { move(-maxFlights) }
}

// ForgetHistory drops what the store knows of a log, as an exchange of unknown outcome does.
func (s *Store) ForgetHistory(id string) { s.history.forget(id) }
