package runtime

import (
	"fmt"
	stdruntime "runtime"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
)

// Settings of a runtime. A zero field takes its default, unless it says otherwise.
type Settings struct {
	Slots          int           // attempts at once of each deployment; default: one a CPU
	MaxNonterminal *int64        // unfinished executions of a deployment; nil: 1,000; 0: no limit
	MaxOwned       int64         // unfinished executions of an owner; 0: no limit
	RetryDelay     time.Duration // longest delay of a first retry, doubling with each; default 1 s
	RetryMaxDelay  time.Duration // bound of that doubling; default 60 s

	Lease        time.Duration // how long a claim holds without a renewal; default 30 s
	CommitMargin time.Duration // end of a lease in which nothing is committed; default: the smaller of 1.5 s and lease/10
	Heartbeat    time.Duration // from one renewal to the next; default: a third of the lease

	PollInterval        time.Duration // longest time between two polls; default 5 s
	MaintenanceInterval time.Duration // longest time without a look for overdue work; default 5 s
	PollBytes           int64         // payload of one claim batch; default 2 MB
	ExchangeTimeout     time.Duration // after which an exchange's outcome counts as unknown; default 3 s
	BackoffMin          time.Duration // first delay after a failed exchange; default 50 ms
	BackoffMax          time.Duration // longest delay after failed exchanges; default 5 s

	MaxPayload       int           // bytes of an input, checkpoint, answer, result or wait; default 1,000,000
	MaxProgressEvent int           // bytes of a progress event; default 8,000
	MaxChunk         int           // bytes of a chunk; default 64,000
	ChunkInterval    time.Duration // least time between two flushes of chunks, and the longest that a chunk waits for others; default 100 ms
	HistoryChunks    int           // chunks buffered for an attempt before the oldest are dropped; default 1,000
	HistoryBytes     int           // bytes so buffered; default 1,000,000

	ShutdownGrace  time.Duration // see Runtime.Close; default 5 s; negative: none
	ReleaseOnClose bool          // Close also hands over attempts whose handler does not stop
}

const (
	maxCommitMargin  = 1500 * time.Millisecond
	leaseMargins     = 3                      // a lease holds at least this many commit margins
	checkFreshness   = 500 * time.Millisecond // how old a confirmed state may be to answer a check
	maxPendingEvents = 100                    // progress events that wait for a commit; one more forces it
	maintenanceBatch = 100                    // executions in one exchange
)

// WithDefaults returns a copy with every zero field at its default. Commit margin and heartbeat stay zero, since their
// defaults depend on the lease of each deployment.
func (s Settings) WithDefaults() Settings {
	s.Slots = orDefault(s.Slots, stdruntime.GOMAXPROCS(0))
	if s.MaxNonterminal == nil {
		limit := int64(1000)
		s.MaxNonterminal = &limit
	}
	s.RetryDelay = orDefault(s.RetryDelay, time.Second)
	s.RetryMaxDelay = orDefault(s.RetryMaxDelay, max(time.Minute, s.RetryDelay))
	s.Lease = orDefault(s.Lease, 30*time.Second)
	s.PollInterval = orDefault(s.PollInterval, 5*time.Second)
	s.MaintenanceInterval = orDefault(s.MaintenanceInterval, 5*time.Second)
	s.PollBytes = orDefault(s.PollBytes, 2_000_000)
	s.ExchangeTimeout = orDefault(s.ExchangeTimeout, 3*time.Second)
	s.BackoffMin = orDefault(s.BackoffMin, 50*time.Millisecond)
	s.BackoffMax = orDefault(s.BackoffMax, max(5*time.Second, s.BackoffMin))
	s.MaxPayload = orDefault(s.MaxPayload, 1_000_000)
	s.MaxProgressEvent = orDefault(s.MaxProgressEvent, 8_000)
	s.MaxChunk = orDefault(s.MaxChunk, 64_000)
	s.ChunkInterval = orDefault(s.ChunkInterval, 100*time.Millisecond)
	s.HistoryChunks = orDefault(s.HistoryChunks, 1000)
	s.HistoryBytes = orDefault(s.HistoryBytes, 1_000_000)
	s.ShutdownGrace = max(orDefault(s.ShutdownGrace, 5*time.Second), 0)
	return s
}

// validate reports the first completed setting that can't work. Leases are checked with each deployment.
func (s Settings) validate() error {
	durations := []struct {
		name  string
		value time.Duration
	}{
		{"retry delay", s.RetryDelay}, {"poll interval", s.PollInterval}, {"maintenance interval", s.MaintenanceInterval},
		{"exchange timeout", s.ExchangeTimeout}, {"least backoff", s.BackoffMin}, {"chunk interval", s.ChunkInterval},
	}
	for _, d := range durations {
		if d.value <= 0 {
			return fmt.Errorf("%s: %s is not above 0", d.name, d.value)
		}
	}
	sizes := []struct {
		name  string
		value int64
	}{
		{"slots", int64(s.Slots)}, {"poll bytes", s.PollBytes}, {"payload", int64(s.MaxPayload)},
		{"progress event", int64(s.MaxProgressEvent)}, {"chunk", int64(s.MaxChunk)},
		{"history chunks", int64(s.HistoryChunks)}, {"history bytes", int64(s.HistoryBytes)},
	}
	for _, n := range sizes {
		if n.value <= 0 {
			return fmt.Errorf("%s: %d is not above 0", n.name, n.value)
		}
	}
	return s.validateRanges()
}

func (s Settings) validateRanges() error {
	switch {
	case *s.MaxNonterminal < 0:
		return fmt.Errorf("unfinished executions: %d is below 0", *s.MaxNonterminal)
	case s.MaxOwned < 0:
		return fmt.Errorf("unfinished executions of an owner: %d is below 0", s.MaxOwned)
	case s.RetryMaxDelay < s.RetryDelay:
		return fmt.Errorf("longest retry delay: %s is below the first, %s", s.RetryMaxDelay, s.RetryDelay)
	case s.BackoffMax < s.BackoffMin:
		return fmt.Errorf("longest backoff: %s is below the least, %s", s.BackoffMax, s.BackoffMin)
	case s.MaxChunk > s.HistoryBytes:
		return fmt.Errorf("chunk: %d bytes do not fit a history of %d", s.MaxChunk, s.HistoryBytes)
	case s.HistoryChunks > execution.MaxBatchChunks:
		return fmt.Errorf("history chunks: %d is above %d", s.HistoryChunks, execution.MaxBatchChunks)
	}
	return nil
}

func orDefault[T int | int64 | time.Duration](v, d T) T {
	if v == 0 {
		return d
	}
	return v
}
