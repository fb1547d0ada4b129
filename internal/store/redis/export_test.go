package redis

import (
	"context"
	"net"

	goredis "github.com/redis/go-redis/v9"
)

// Through returns a configuration whose connections, those to Sentinels included, are made by dial.
func Through(c Config, dial func(ctx context.Context, network, addr string) (net.Conn, error)) Config {
	c.dial = dial
	return c
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
	sc := s.scripts
	for _, one := range []script{sc.attach, sc.submit, sc.find, sc.poll, sc.apply, sc.beat, sc.cancel, sc.resume, sc.read,
		sc.controls, sc.overdue, sc.remove, sc.counts, sc.check} {
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
