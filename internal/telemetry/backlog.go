package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Backlog is the number of executions of a deployment's revision in one state.
type Backlog struct {
	Deployment string
	Revision   string
	State      string // from the closed set of statuses, or "ready" and "delayed"
	Count      int64
	Unserved   bool // no process serves the revision
}

// backlogCollector asks for the backlog when metrics are gathered. It holds no
// gauges: a revision that is gone must not leave its last value behind.
type backlogCollector struct {
	desc     *prometheus.Desc
	unserved *prometheus.Desc

	mu     sync.Mutex // guards the following
	source func() []Backlog
}

func newBacklogCollector() *backlogCollector {
	return &backlogCollector{desc: prometheus.NewDesc(
		prometheus.BuildFQName(namespace, "", "backlog_executions"),
		"Executions that are not finished, by deployment, revision and state.",
		[]string{"deployment", "revision", "state"}, nil,
	), unserved: prometheus.NewDesc(
		prometheus.BuildFQName(namespace, "", "unserved_executions"),
		"Executions that are not finished, and whose revision no process serves, by deployment and revision.",
		[]string{"deployment", "revision"}, nil,
	)}
}

// SetBacklog sets where the backlog comes from; nil takes it away. The function
// is called at each scrape, maybe by several at once. It must answer from
// memory, with at most one row for each deployment, revision and state.
func (m *Metrics) SetBacklog(source func() []Backlog) {
	if m == nil {
		return
	}
	m.backlog.mu.Lock()
	defer m.backlog.mu.Unlock()
	m.backlog.source = source
}

// Describe implements [prometheus.Collector].
func (b *backlogCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- b.desc
	descs <- b.unserved
}

// Collect implements [prometheus.Collector].
func (b *backlogCollector) Collect(metrics chan<- prometheus.Metric) {
	b.mu.Lock()
	source := b.source
	b.mu.Unlock()
	if source == nil {
		return
	}
	type revision struct{ deployment, name string }
	unserved := map[revision]int64{}
	for _, row := range source() {
		metrics <- prometheus.MustNewConstMetric(b.desc, prometheus.GaugeValue, float64(row.Count),
			row.Deployment, row.Revision, row.State)
		if row.Unserved {
			unserved[revision{row.Deployment, row.Revision}] += row.Count
		}
	}
	for of, n := range unserved {
		metrics <- prometheus.MustNewConstMetric(b.unserved, prometheus.GaugeValue, float64(n), of.deployment, of.name)
	}
}
