package runtime

import (
	"log/slog"
	"sync"
	"time"
)

// outages tells of each outage of the store once, however many loops meet it: when the first exchange fails, and when no loop
// is left whose last exchange failed. Its metric is the streak of the loop that has failed most often in a row.
type outages struct {
	log     *slog.Logger
	metrics Metrics

	mu      sync.Mutex // guards the following
	streaks map[string]int
	since   time.Time // zero: there is none
}

func newOutages(log *slog.Logger, metrics Metrics) *outages {
	return &outages{log: log, metrics: metrics, streaks: map[string]int{}}
}

// failed notes that a loop's exchange failed, the streak-th in a row.
func (o *outages) failed(loop string, streak int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.streaks[loop] = streak
	o.report()
	if o.since.IsZero() {
		o.since = time.Now()
		o.log.Warn("the store did not answer", "loop", loop, "error", err)
	}
}

// rests notes that a loop wants nothing of the store any more. That ends no outage: whether the store answers is for others to
// tell.
func (o *outages) rests(loop string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, failing := o.streaks[loop]; failing {
		delete(o.streaks, loop)
		o.report()
	}
}

// succeeded notes that a loop's exchange did.
func (o *outages) succeeded(loop string) {
	o.rests(loop)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.since.IsZero() && len(o.streaks) == 0 {
		o.log.Info("the store answers again", "after", time.Since(o.since).Round(time.Millisecond).String())
		o.since = time.Time{}
	}
}

func (o *outages) report() {
	longest := 0
	for _, streak := range o.streaks {
		longest = max(longest, streak)
	}
	o.metrics.SetStoreErrorStreak(longest)
}
