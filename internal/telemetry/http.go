package telemetry

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// otherMethod stands for every method that HTTP doesn't define: a client
// invents those, and a label must not grow with what clients invent.
const otherMethod = "other"

// noRoute stands for requests that no route took.
const noRoute = "none"

// httpMetrics follow HTTP requests.
type httpMetrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newHTTPMetrics() httpMetrics {
	return httpMetrics{
		requests: counterVec("http_requests_total", "HTTP requests, by route pattern, method and status code.", "route", "method", "code"),
		duration: histogramVec("http_request_duration_seconds", "Duration of HTTP requests, streams and long polls included, by route pattern, method and status code.", "route", "method", "code"),
	}
}

func (h httpMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{h.requests, h.duration}
}

// HTTPRequest counts a finished request with its duration. The route is the
// pattern that matched, never the path; empty when none did.
func (m *Metrics) HTTPRequest(route, method string, code int, elapsed time.Duration) {
	if m == nil {
		return
	}
	if route == "" {
		route = noRoute
	}
	labels := []string{route, knownMethod(method), strconv.Itoa(code)}
	m.http.requests.WithLabelValues(labels...).Inc()
	m.http.duration.WithLabelValues(labels...).Observe(elapsed.Seconds())
}

func knownMethod(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE":
		return method
	default:
		return otherMethod
	}
}
