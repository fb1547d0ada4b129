package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// executionMetrics follow the lifecycle of executions.
type executionMetrics struct {
	submissions *prometheus.CounterVec
	transitions *prometheus.CounterVec
	claims      prometheus.Counter
	emptyClaims prometheus.Counter
	leaseLosses *prometheus.CounterVec
	recoveries  *prometheus.CounterVec
	pickup      *prometheus.HistogramVec
	queueAge    *prometheus.HistogramVec
}

func newExecutionMetrics() executionMetrics {
	return executionMetrics{
		submissions: counterVec("submissions_total", "Submissions, by deployment and outcome.", "deployment", "outcome"),
		transitions: counterVec("transitions_total", "Committed transitions, by deployment, command and resulting status.", "deployment", "command", "status"),
		claims:      counter("claims_total", "Executions that this process claimed."),
		emptyClaims: counter("empty_claims_total", "Claim exchanges that found no due work."),
		leaseLosses: counterVec("lease_losses_total", "Attempts of this process that lost their lease, by deployment.", "deployment"),
		recoveries:  counterVec("recoveries_total", "Executions recovered after a lost lease, by outcome.", "outcome"),
		pickup:      histogramVec("pickup_duration_seconds", "Time from an accepted submission to the call of its handler, first attempts only.", "deployment"),
		queueAge:    histogramVec("queue_age_seconds", "Time that claimed work had been due.", "deployment"),
	}
}

func (e executionMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{e.submissions, e.transitions, e.claims, e.emptyClaims, e.leaseLosses, e.recoveries, e.pickup, e.queueAge}
}

// Submitted counts a submission. The outcome is "accepted", "replayed" or the
// code of the refusal.
func (m *Metrics) Submitted(deployment, outcome string) {
	if m != nil {
		m.executions.submissions.WithLabelValues(deployment, outcome).Inc()
	}
}

// Transitioned counts a committed transition: the command that asked for it
// and the status that it led to.
func (m *Metrics) Transitioned(deployment, command, status string) {
	if m != nil {
		m.executions.transitions.WithLabelValues(deployment, command, status).Inc()
	}
}

// Claimed counts one claim exchange that handed out n executions.
func (m *Metrics) Claimed(n int) {
	switch {
	case m == nil:
	case n == 0:
		m.executions.emptyClaims.Inc()
	default:
		m.executions.claims.Add(float64(n))
	}
}

// LeaseLost counts an attempt of this process that lost its lease.
func (m *Metrics) LeaseLost(deployment string) {
	if m != nil {
		m.executions.leaseLosses.WithLabelValues(deployment).Inc()
	}
}

// Recovered counts an execution that maintenance took from a lost lease. The
// outcome is the status that it came to.
func (m *Metrics) Recovered(outcome string) {
	if m != nil {
		m.executions.recoveries.WithLabelValues(outcome).Inc()
	}
}

// PickedUp records the time from an accepted submission to the call of its
// handler. Only first attempts count.
func (m *Metrics) PickedUp(deployment string, elapsed time.Duration) {
	if m != nil {
		m.executions.pickup.WithLabelValues(deployment).Observe(elapsed.Seconds())
	}
}

// QueueAge records how long claimed work had been due.
func (m *Metrics) QueueAge(deployment string, age time.Duration) {
	if m != nil {
		m.executions.queueAge.WithLabelValues(deployment).Observe(age.Seconds())
	}
}
