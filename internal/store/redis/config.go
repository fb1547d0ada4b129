package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/windrow-run/windrow/internal/store"
)

// Config says where the executions are kept and how. The zero value of a field but URL takes its default.
type Config struct {
	// URL of the server or servers; required. The forms: redis://[user:password@]host[:port][/database], unix:///socket,
	// redis-sentinel://host[:port],.../master and redis+cluster://host[:port],...; with rediss for TLS. What does not belong in
	// a URL is percent-encoded in it.
	URL string

	// Credentials and database, as far as the URL leaves them open. What it says otherwise is a [SettingError].
	Username, Password                 string
	SentinelUsername, SentinelPassword string
	Database                           *int

	// TLS has TLS used and says how; nil: as the URL says.
	TLS *tls.Config

	// Prefix of all keys: a letter, then up to 63 letters, digits, "_", "-" or "."; default "windrow". One ACL pattern,
	// "<prefix>:*", covers all keys and channels.
	Prefix string

	// Partitions of the namespace, 1 to 32; default 1. Fixed when the namespace is created.
	Partitions int

	// PoolSize bounds the connections for operations to a server; default 16. Tails and Listen have their own.
	PoolSize int

	DialTimeout time.Duration // for a connection; default 5 s
	Timeout     time.Duration // for a reply, where the context says nothing sooner; default 5 s

	// AllowEviction accepts a server whose maxmemory-policy is not noeviction, which then loses executions at maxmemory.
	AllowEviction bool

	// Compress has inputs, checkpoints, results, answers and batches of chunks written compressed where that makes them shorter. All
	// are read either way, but not by releases that do not know of it. Limits and counts are of what was compressed.
	Compress bool

	Limits store.Limits

	// Ack is what changes wait for; the zero value: for nothing but the server that carries them out.
	Ack Ack

	// Logger takes warnings about the server's settings; default: nothing is logged.
	Logger *slog.Logger

	// Condition, where it is not nil, is told when a condition begins or ends, by its code; of what happened, such as a restart
	// of a server, also when it happens again. It must not block.
	Condition func(code string, holds bool)

	// Observe, where it is not nil, is told of each exchange: the name of its script (of the first one in a pipeline), the
	// number of exchanges and of commands in it, how long it took, and "ok", the code of its failure, or "noscript" where the
	// server had to be told the script.
	Observe func(script string, exchanges, commands int, d time.Duration, outcome string)

	clock string   // text in place of lua/clock.lua; only tests set it
	dial  dialFunc // in place of the client's own; only tests set it
}

func (c Config) withDefaults() Config {
	c.Prefix = orDefault(c.Prefix, "windrow")
	c.Partitions = orDefault(c.Partitions, 1)
	c.PoolSize = orDefault(c.PoolSize, 16)
	c.DialTimeout = orDefault(c.DialTimeout, 5*time.Second)
	c.Timeout = orDefault(c.Timeout, 5*time.Second)
	c.Ack.Timeout = orDefault(c.Ack.Timeout, ackTimeout)
	c.Limits = c.Limits.WithDefaults()
	c.clock = orDefault(c.clock, luaText("clock"))
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.URL == "":
		return fmt.Errorf("the Redis URL is not set")
	case !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`).MatchString(c.Prefix):
		return fmt.Errorf("key prefix %q: must be a letter and up to 63 letters, digits, '_', '-' or '.'", c.Prefix)
	case c.Partitions < 1 || c.Partitions > maxPartitions:
		return fmt.Errorf("partitions: %d is not between 1 and %d", c.Partitions, maxPartitions)
	case c.PoolSize < 1:
		return fmt.Errorf("pool size: %d is below 1", c.PoolSize)
	case c.DialTimeout < 0 || c.Timeout < 0:
		return fmt.Errorf("a timeout is negative")
	}
	return errors.Join(c.Ack.validate(c.Timeout), validateLimits(c.Limits))
}

// validateLimits refuses what a script would fail with after its first write. Limits stand in scripts as whole milliseconds.
func validateLimits(l store.Limits) error {
	if l.ProgressEvents < 1 || l.HistoryChunks < 1 || l.HistoryBytes < 1 {
		return fmt.Errorf("limits: a number of events, chunks or bytes is below 1")
	}
	for _, ttl := range []time.Duration{l.TerminalTTL, l.StreamTTL, l.WatchTTL} {
		if ttl < time.Millisecond {
			return fmt.Errorf("limits: a time to live is below 1 ms")
		}
	}
	return nil
}

func orDefault[T comparable](v, d T) T {
	var zero T
	if v == zero {
		return d
	}
	return v
}
