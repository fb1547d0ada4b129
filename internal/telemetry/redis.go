package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// redisMetrics follow what a process asks of Redis. An exchange is one send
// with its replies; it carries one command, or a pipeline of them.
type redisMetrics struct {
	exchanges *prometheus.CounterVec
	commands  *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	condition *prometheus.GaugeVec
	occurred  *prometheus.CounterVec
}

func newRedisMetrics() redisMetrics {
	return redisMetrics{
		exchanges: counterVec("redis_exchanges_total", "Exchanges with Redis, by name and outcome.", "name", "outcome"),
		commands:  counterVec("redis_commands_total", "Commands sent to Redis, by script or command name and outcome.", "name", "outcome"),
		duration:  histogramVec("redis_exchange_duration_seconds", "Duration of an exchange with Redis, by name and outcome.", "name", "outcome"),
		condition: gaugeVec("store_condition", "Whether a condition of the store holds, by its code as /status has it.", "code"),
		occurred:  counterVec("store_conditions_total", "How often a condition of the store began, by its code; of restarted and data_lost, how often it happened.", "code"),
	}
}

func (r redisMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{r.exchanges, r.commands, r.duration, r.condition, r.occurred}
}

// RedisExchange counts one exchange with its duration. The name is that of the
// script or command, or "pipeline" for several; the outcome is "ok" or the
// class of the failure.
func (m *Metrics) RedisExchange(name, outcome string, elapsed time.Duration) {
	if m != nil {
		m.redis.exchanges.WithLabelValues(name, outcome).Inc()
		m.redis.duration.WithLabelValues(name, outcome).Observe(elapsed.Seconds())
	}
}

// RedisCommand counts one command, alone in its exchange or in a pipeline.
func (m *Metrics) RedisCommand(name, outcome string) {
	if m != nil {
		m.redis.commands.WithLabelValues(name, outcome).Inc()
	}
}

// StoreCondition shows that a condition of the store holds, or does not any more. Its code is one of a closed set.
func (m *Metrics) StoreCondition(code string, holds bool) {
	switch {
	case m == nil:
	case holds:
		m.redis.condition.WithLabelValues(code).Set(1)
		m.redis.occurred.WithLabelValues(code).Inc()
	default:
		m.redis.condition.WithLabelValues(code).Set(0)
	}
}
