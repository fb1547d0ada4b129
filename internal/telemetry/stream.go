package telemetry

import "github.com/prometheus/client_golang/prometheus"

// streamMetrics follow streamed output from its author to its viewers.
type streamMetrics struct {
	viewers *prometheus.GaugeVec
	events  *prometheus.CounterVec
	cut     prometheus.Counter
	flushes *prometheus.CounterVec
	chunks  prometheus.Counter
}

func newStreamMetrics() streamMetrics {
	return streamMetrics{
		viewers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "stream_viewers", Help: "Viewers attached to this process, by deployment.",
		}, []string{"deployment"}),
		events:  counterVec("stream_events_total", "Events sent to viewers, by kind.", "kind"),
		cut:     counter("stream_viewers_cut_total", "Viewers disconnected because they read too slowly."),
		flushes: counterVec("chunk_flushes_total", "Flushes of streamed chunks to the store, by outcome.", "outcome"),
		chunks:  counter("chunks_flushed_total", "Chunks that successful flushes carried."),
	}
}

func (s streamMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{s.viewers, s.events, s.cut, s.flushes, s.chunks}
}

// ViewerOpened counts a viewer in; each needs one [Metrics.ViewerClosed].
func (m *Metrics) ViewerOpened(deployment string) {
	if m != nil {
		m.stream.viewers.WithLabelValues(deployment).Inc()
	}
}

// ViewerClosed counts a viewer out, however it ended.
func (m *Metrics) ViewerClosed(deployment string) {
	if m != nil {
		m.stream.viewers.WithLabelValues(deployment).Dec()
	}
}

// ViewerCut counts a viewer that was disconnected because it read too slowly.
func (m *Metrics) ViewerCut() {
	if m != nil {
		m.stream.cut.Inc()
	}
}

// StreamEvent counts an event sent to a viewer, by its SSE event name.
func (m *Metrics) StreamEvent(kind string) {
	if m != nil {
		m.stream.events.WithLabelValues(kind).Inc()
	}
}

// ChunksFlushed counts one flush of n chunks. The outcome is "ok" or the class
// of the failure; only chunks of an "ok" flush are counted as flushed.
func (m *Metrics) ChunksFlushed(outcome string, n int) {
	if m == nil {
		return
	}
	m.stream.flushes.WithLabelValues(outcome).Inc()
	if outcome == OutcomeOK {
		m.stream.chunks.Add(float64(n))
	}
}

// OutcomeOK is the outcome of what went as asked.
const OutcomeOK = "ok"
