package redis

import "context"

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
		if err := s.client.ScriptLoad(ctx, one.source).Err(); err != nil {
			return err
		}
	}
	return nil
}

func (sc scripts) all() []script {
	return []script{sc.attach, sc.submit, sc.find, sc.poll, sc.apply, sc.beat, sc.cancel, sc.resume, sc.read,
		sc.controls, sc.overdue, sc.remove, sc.counts, sc.check}
}

// ScriptNames are the names of the scripts of a store that is configured so, by what a server knows them as.
func ScriptNames(c Config) map[string]string {
	c = c.withDefaults()
	names := map[string]string{}
	for _, one := range loadScripts(c.Limits, c.clock).all() {
		names[one.sha] = one.name
	}
	return names
}
