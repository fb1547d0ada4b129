package server

import (
	"log/slog"
	"time"

	"github.com/windrow-run/windrow/internal/config"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/memory"
	"github.com/windrow-run/windrow/internal/telemetry"
)

// NewStore makes the store that the configuration names: Redis, or memory where it names none. It opens no connection.
func NewStore(c config.Config, log *slog.Logger, m *telemetry.Metrics) (store.Store, error) {
	limits := store.Limits{ProgressEvents: c.ProgressEvents, HistoryChunks: c.HistoryChunks, HistoryBytes: int(c.HistoryBytes),
		TerminalTTL: c.TerminalTTL, StreamTTL: c.StreamTTL}
	if c.Redis == "" {
		return memory.New(memory.Config{Limits: limits}), nil
	}
	s, err := newRedis(c, limits, log, m)
	if err != nil {
		return nil, err // not the store, which would be one that is nil
	}
	return s, nil
}

// observe counts the exchanges with Redis. Those of one pipeline have its outcome and its time.
func observe(m *telemetry.Metrics) func(string, int, int, time.Duration, string) {
	return func(script string, exchanges, commands int, elapsed time.Duration, outcome string) {
		for range exchanges {
			m.RedisExchange(script, outcome, elapsed)
		}
		for range commands {
			m.RedisCommand(script, outcome)
		}
	}
}
