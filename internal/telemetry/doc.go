// Package telemetry is what an operator sees of a process: its log and its
// Prometheus metrics.
//
// Metrics live in a registry of their own, never in Prometheus's default one,
// so that two runtimes in one process, or in one test, don't share counters.
// No label ever holds an id, a key, an owner or a message: each label has a
// closed set of values, or one that the operator's configuration bounds
// (deployments, revisions, routes). Callers pass only such values.
//
// Every method of [Metrics] may be called on a nil *Metrics and does nothing
// then, so that parts run, and are tested, without metrics.
package telemetry
