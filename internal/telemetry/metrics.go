package telemetry

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// namespace begins the name of every metric that is ours.
const namespace = "windrow"

// Metrics are the metrics of one process. All methods are safe for concurrent
// use, and on a nil receiver.
type Metrics struct {
	registry *prometheus.Registry

	executions executionMetrics
	redis      redisMetrics
	stream     streamMetrics
	http       httpMetrics
	runtime    runtimeMetrics
	backlog    *backlogCollector
}

// New returns metrics in a registry of their own, together with those of the
// Go runtime, of the process and of the build.
func New() *Metrics {
	m := &Metrics{
		registry:   prometheus.NewRegistry(),
		executions: newExecutionMetrics(),
		redis:      newRedisMetrics(),
		stream:     newStreamMetrics(),
		http:       newHTTPMetrics(),
		runtime:    newRuntimeMetrics(),
		backlog:    newBacklogCollector(),
	}
	m.registry.MustRegister(collectors.NewGoCollector(), newBuildInfo(), m.backlog,
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, group := range [][]prometheus.Collector{
		m.executions.all(), m.redis.all(), m.stream.all(), m.http.all(), m.runtime.all(),
	} {
		m.registry.MustRegister(group...)
	}
	return m
}

// Handler serves the metrics in the formats that Prometheus asks for. A metric
// that can't be gathered doesn't take the others with it. Without metrics the
// answer is 404.
func (m *Metrics) Handler() http.Handler {
	if m == nil {
		return http.NotFoundHandler()
	}
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// fastBuckets are for what takes from a fraction of a millisecond to seconds:
// an exchange with Redis, an HTTP request, a pickup. In seconds.
func fastBuckets() []float64 {
	return []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
}

func gaugeVec(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histogramVec(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: fastBuckets(),
	}, labels)
}
