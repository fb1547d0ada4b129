package runtime

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// maintainer takes back executions whose lease ran out, ends waits that expired, and erases what is past its retention. It
// acts on what polls say, so that an idle process spends no exchange on it; without a fresh word from a poll, and once a
// lease in any case, it looks by itself.
type maintainer struct {
	store    store.Store
	registry *registry
	loop     *loop
	metrics  Metrics
	settings Settings
	safety   time.Duration // longest time between two passes, whatever the polls say
	wake     signal

	mu      sync.Mutex // guards the following
	overdue bool
	failed  bool      // the last pass: another one is due, whatever the polls say
	told    time.Time // when a poll last said whether there is something to do
	passed  time.Time // when the last pass ended
}

// tell takes in what a poll saw.
func (m *maintainer) tell(overdue bool, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.overdue, m.told = overdue, at
	if overdue {
		m.wake.raise()
	}
}

// Run maintains until ctx ends.
func (m *maintainer) Run(ctx context.Context) error {
	m.mu.Lock()
	m.told, m.passed = time.Now(), time.Now()
	m.mu.Unlock()
	for {
		timer := time.NewTimer(m.due(time.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-m.wake:
		case <-timer.C:
		}
		timer.Stop()
		if m.due(time.Now()) > 0 {
			continue
		}
		if err := m.step(ctx); err != nil && ctx.Err() == nil {
			m.again()
			sleep(ctx, m.loop.failed(err))
		}
	}
}

// due is the time until the next pass; 0: now.
func (m *maintainer) due(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.overdue || m.failed {
		return 0
	}
	latest := m.told
	if m.passed.After(latest) {
		latest = m.passed
	}
	// Twice the interval without a poll's word: one poll was missed.
	next := latest.Add(2 * m.settings.MaintenanceInterval)
	if safety := m.passed.Add(m.safety); safety.Before(next) {
		next = safety
	}
	return max(next.Sub(now), 0)
}

// step is one pass: exchanges as long as there is more to do and they get on with it, so that what is overdue waits for no
// interval, however much is overdue before it. What it is told of meanwhile it may have passed by: that is for the next one.
func (m *maintainer) step(ctx context.Context) error {
	m.begin()
	for {
		done, err := m.round(ctx)
		if err != nil {
			return err
		}
		m.loop.succeeded()
		m.report(done)
		moved := done.Requeued + done.Failed + done.Canceled + done.Defaulted + done.Removed
		if !done.More || moved == 0 {
			m.settled()
			return nil
		}
	}
}

func (m *maintainer) round(ctx context.Context) (store.Maintained, error) {
	ctx, cancel := context.WithTimeout(ctx, m.settings.ExchangeTimeout)
	defer cancel()
	return m.store.Maintain(ctx, maintenanceBatch)
}

func (m *maintainer) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.overdue = false
}

func (m *maintainer) again() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed = true
}

func (m *maintainer) settled() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed, m.passed = false, time.Now()
}

func (m *maintainer) report(done store.Maintained) {
	outcomes := []struct {
		status execution.Status
		count  int
	}{{execution.Queued, done.Requeued + done.Defaulted}, {execution.Failed, done.Failed}, {execution.Canceled, done.Canceled}}
	for _, o := range outcomes {
		for range o.count {
			m.metrics.Recovered(string(o.status))
		}
	}
	if done.Requeued+done.Defaulted > 0 {
		m.registry.ring(store.Revision{})
	}
	done.More = false
	if done == (store.Maintained{}) {
		return
	}
	level := slog.LevelInfo
	if done.Malformed+done.Skipped > 0 {
		level = slog.LevelError
	}
	m.loop.log.Log(context.Background(), level, "maintained", "requeued", done.Requeued, "failed", done.Failed,
		"canceled", done.Canceled, "defaulted", done.Defaulted, "removed", done.Removed,
		"malformed", done.Malformed, "skipped", done.Skipped)
}
