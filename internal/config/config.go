// Package config holds every setting of a Windrow server in one struct, with its default, its flag and its environment
// variable.
//
// A setting named lease is the flag --lease and the variable WINDROW_LEASE; the flag wins. [Config.Complete] fills in what
// is derived from other settings, then [Config.Validate] reports everything that is wrong at once, each with the setting,
// the limit and the remedy. Parts of the server never see a Config: they get small parameters of their own.
package config

import (
	"runtime"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
)

// Config is all settings of a server. Where a field names a meaning of zero, zero is its default.
type Config struct {
	Addr     string // host:port to listen on; port 0: any free one
	Redis    Secret // URL of Redis or Valkey; empty: the memory store
	Prefix   string // of every key
	Revision string // of the demo deployments; empty: "1"
	Demo     bool   // serve the demo deployments

	Connection Connection // to Redis, beside its URL

	Ack        Ack           // what changes wait for, in Redis
	AckTimeout time.Duration // of that wait

	AllowEviction  bool // use a Redis that may evict executions
	Compress       bool // large payloads and chunks in Redis
	Partitions     int  // fixed when a namespace is created, 1 to 32
	Slots          int  // attempts at once, a deployment; 0: one a CPU
	MaxNonterminal int  // unfinished executions of a deployment; 0: no limit
	MaxOwned       int  // unfinished executions of an owner; 0: no limit

	Lease          time.Duration
	CommitMargin   time.Duration // end of a lease in which nothing is committed; 0: the smaller of 1.5 s and a tenth of the lease
	Heartbeat      time.Duration // 0: a third of the lease
	Poll           time.Duration // for work that no doorbell told of
	Maintenance    time.Duration
	ShutdownGrace  time.Duration // running attempts may end by themselves
	DrainTimeout   time.Duration // open HTTP requests may end by themselves
	ReleaseOnClose bool          // hand running work over at once, without waiting for attempts to notice

	PayloadBytes   Bytes // of an input, checkpoint, result or answer
	JSONDepth      int   // of nested objects and arrays
	ProgressEvents int   // kept, the newest
	ProgressBytes  Bytes // of one event
	HistoryChunks  int   // kept, the newest
	HistoryBytes   Bytes // of chunks kept
	ChunkBytes     Bytes // of one chunk
	FlushInterval  time.Duration

	TerminalTTL time.Duration // of an ended execution
	StreamTTL   time.Duration // of its event log

	Retries       int // application retries granted; 0: none
	LostLeases    int // the lost lease with this number fails the work
	Claims        int // claims in a row without progress
	RetryDelay    time.Duration
	RetryMaxDelay time.Duration

	BodyBytes   Bytes // of a request; 0: room for the largest payload and what goes around it
	HeaderBytes Bytes // of a request
	Keepalive   time.Duration
	Hayhooks    bool          // answer the routes of hayhooks
	Reconnect   time.Duration // in the middle of the window over which viewers come back

	Access

	LogLevel  string
	LogFormat string
}

// Default returns the settings of a server that is told nothing.
func Default() Config {
	budgets := execution.DefaultBudgets()
	return Config{
		Addr:           "127.0.0.1:8080",
		Prefix:         "windrow",
		Connection:     defaultConnection(),
		AckTimeout:     2 * time.Second,
		Partitions:     1,
		MaxNonterminal: 1000,
		Lease:          30 * time.Second,
		Poll:           5 * time.Second,
		Maintenance:    5 * time.Second,
		ShutdownGrace:  5 * time.Second,
		DrainTimeout:   5 * time.Second,
		PayloadBytes:   1_000_000,
		JSONDepth:      128,
		ProgressEvents: 100,
		ProgressBytes:  8_000,
		HistoryChunks:  1000,
		HistoryBytes:   1_000_000,
		ChunkBytes:     64_000,
		FlushInterval:  100 * time.Millisecond,
		TerminalTTL:    7 * 24 * time.Hour,
		StreamTTL:      time.Hour,
		Retries:        int(budgets.Retries),
		LostLeases:     int(budgets.LostLeases),
		Claims:         int(budgets.Claims),
		RetryDelay:     time.Second,
		RetryMaxDelay:  time.Minute,
		HeaderBytes:    32_000,
		Keepalive:      15 * time.Second,
		Hayhooks:       true,
		Reconnect:      2 * time.Second,
		Access:         defaultAccess(),
		LogLevel:       "info",
		LogFormat:      "auto",
	}
}

// bodyRoom is what a request body may hold besides the payload.
const bodyRoom = 64_000

// Complete returns a copy in which every setting that is derived from others has its value.
func (c Config) Complete() Config {
	if c.Redis == "" && c.Connection.Hosts != "" {
		c.Redis = c.Connection.url()
	}
	if c.Slots == 0 {
		c.Slots = runtime.GOMAXPROCS(0)
	}
	if c.CommitMargin == 0 {
		c.CommitMargin = min(1500*time.Millisecond, c.Lease/10)
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = c.Lease / 3
	}
	if c.BodyBytes == 0 {
		c.BodyBytes = c.PayloadBytes + bodyRoom
	}
	if c.RateBurst == 0 {
		c.RateBurst = 2 * c.RateLimit
	}
	if c.Revision == "" {
		c.Revision = "1"
	}
	return c
}

// Budgets are the budgets of a deployment that names none.
func (c Config) Budgets() execution.Budgets {
	return execution.Budgets{LostLeases: int64(c.LostLeases), Retries: int64(c.Retries), Claims: int64(c.Claims)}
}
