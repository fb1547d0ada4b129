package telemetry

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// runtimeMetrics show the state of the process's own loops and slots.
type runtimeMetrics struct {
	slots        prometheus.Gauge
	active       prometheus.Gauge
	draining     prometheus.Gauge
	storeErrors  prometheus.Gauge
	loopRestarts *prometheus.CounterVec
}

func newRuntimeMetrics() runtimeMetrics {
	return runtimeMetrics{
		slots:        gauge("slots", "Worker slots of this process."),
		active:       gauge("active_executions", "Executions that this process runs now."),
		draining:     gauge("draining", "1 while this process takes no new work, else 0."),
		storeErrors:  gauge("store_error_streak", "Failed exchanges with the store in a row, of the loop that has most."),
		loopRestarts: counterVec("loop_restarts_total", "Restarts of the runtime's own loops after a failure, by loop.", "loop"),
	}
}

func (r runtimeMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{r.slots, r.active, r.draining, r.storeErrors, r.loopRestarts}
}

// SetSlots sets the number of worker slots.
func (m *Metrics) SetSlots(n int) {
	if m != nil {
		m.runtime.slots.Set(float64(n))
	}
}

// ExecutionStarted counts a running handler in; each needs one [Metrics.ExecutionEnded].
func (m *Metrics) ExecutionStarted() {
	if m != nil {
		m.runtime.active.Inc()
	}
}

// ExecutionEnded counts a running handler out, however it ended.
func (m *Metrics) ExecutionEnded() {
	if m != nil {
		m.runtime.active.Dec()
	}
}

// SetDraining says whether the process takes no new work.
func (m *Metrics) SetDraining(draining bool) {
	if m == nil {
		return
	}
	m.runtime.draining.Set(0)
	if draining {
		m.runtime.draining.Set(1)
	}
}

// SetStoreErrorStreak sets the number of failed exchanges with the store in a
// row, of the loop that has most.
func (m *Metrics) SetStoreErrorStreak(n int) {
	if m != nil {
		m.runtime.storeErrors.Set(float64(n))
	}
}

// LoopRestarted counts a restart of one of the runtime's loops after it failed.
func (m *Metrics) LoopRestarted(loop string) {
	if m != nil {
		m.runtime.loopRestarts.WithLabelValues(loop).Inc()
	}
}

// newBuildInfo returns a gauge that is always 1 and says by its labels what
// runs: the module's version, the commit, and the Go version.
func newBuildInfo() prometheus.Collector {
	version, revision := Build()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "What runs; always 1.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "go_version": runtime.Version()},
	}, func() float64 { return 1 })
}
