package redis

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
