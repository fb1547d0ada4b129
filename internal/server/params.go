package server

import (
	"context"

	"github.com/windrow-run/windrow/internal/config"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/schema"
	"github.com/windrow-run/windrow/internal/stream"
	"github.com/windrow-run/windrow/internal/strictjson"
	"github.com/windrow-run/windrow/internal/telemetry"
)

func runtimeParams(p Params, hub *stream.Hub) runtime.Params {
	c := p.Config
	return runtime.Params{
		Store: p.Store, Deployments: definitions(p), Settings: runtimeSettings(c), Logger: p.Logger, Metrics: p.Metrics,
		Compact:       compactTo(c.JSONDepth),
		CompileSchema: compileSchema,
		Feed:          func(id string, attempt int64) runtime.Feed { return hub.Feed(id, attempt) },
	}
}

// compactTo checks that documents are strict JSON of at most that depth.
func compactTo(depth int) func(document []byte) ([]byte, error) {
	return func(document []byte) ([]byte, error) {
		return strictjson.Compact(document, strictjson.Limits{Depth: depth})
	}
}

// Compact checks that a document is strict JSON, as deep as the server takes it, and returns it without insignificant white
// space.
func (a *App) Compact(document []byte) ([]byte, error) {
	return compactTo(a.Config.JSONDepth)(document)
}

// definitions are the deployments with the server's budgets where they name none.
func definitions(p Params) []handler.Deployment {
	all := make([]handler.Deployment, len(p.Deployments))
	for i, d := range p.Deployments {
		all[i] = d.Definition()
		if all[i].Options.Budgets == (execution.Budgets{}) {
			all[i].Options.Budgets = p.Config.Budgets()
		}
	}
	return all
}

func runtimeSettings(c config.Config) runtime.Settings {
	ceiling := int64(c.MaxNonterminal)
	grace := c.ShutdownGrace
	if grace == 0 {
		grace = -1 // none, where zero would be the runtime's default
	}
	return runtime.Settings{
		Slots: c.Slots, MaxNonterminal: &ceiling, MaxOwned: int64(c.MaxOwned), RetryDelay: c.RetryDelay, RetryMaxDelay: c.RetryMaxDelay,
		Lease: c.Lease, CommitMargin: c.CommitMargin, Heartbeat: c.Heartbeat,
		PollInterval: c.Poll, MaintenanceInterval: c.Maintenance,
		MaxPayload: int(c.PayloadBytes), MaxProgressEvent: int(c.ProgressBytes), MaxChunk: int(c.ChunkBytes),
		ChunkInterval: c.FlushInterval, HistoryChunks: c.HistoryChunks, HistoryBytes: int(c.HistoryBytes),
		ShutdownGrace: grace, ReleaseOnClose: c.ReleaseOnClose,
	}
}

func hubParams(p Params) stream.Params {
	return stream.Params{Store: p.Store, Keepalive: p.Config.Keepalive, Logger: p.Logger, Metrics: hubMetrics{p.Metrics}}
}

// hubMetrics counts what only the hub knows. Viewers and events are counted by the HTTP floor, which knows of which
// deployment and kind they are.
type hubMetrics struct{ *telemetry.Metrics }

func (hubMetrics) Viewers(int) {}
func (hubMetrics) Event()      {}
func (hubMetrics) Tails(int)   {}

func (m hubMetrics) Interrupted(r stream.Reason) {
	if r == stream.ReasonSlow {
		m.ViewerCut()
	}
}

func compileSchema(raw []byte) (handler.Schema, error) {
	s, err := schema.Compile(raw, schema.Limits{})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// States of unfinished work in the metrics; they add up to all of it.
const (
	stateRunnable = "runnable" // queued, delayed work included
	stateStarted  = "started"  // running or waiting
)

// backlogOf tells what is unfinished, by revision, from the health that everybody shares.
func backlogOf(r *runtime.Runtime) func() []telemetry.Backlog {
	return func() []telemetry.Backlog {
		var rows []telemetry.Backlog
		add := func(deployment, revision string, nonterminal, runnable int64, served bool) {
			rows = append(rows, telemetry.Backlog{Deployment: deployment, Revision: revision, State: stateRunnable, Count: runnable, Unserved: !served},
				telemetry.Backlog{Deployment: deployment, Revision: revision, State: stateStarted, Count: nonterminal - runnable, Unserved: !served})
		}
		h := r.Health(context.Background())
		for _, d := range h.Deployments {
			if d.Counts != nil {
				add(d.Name, d.Revision, d.Counts.RevisionNonterminal, d.Counts.RevisionRunnable, true)
			}
		}
		for _, o := range h.Others {
			add(o.Deployment, o.Revision, o.Nonterminal, o.Runnable, o.Served)
		}
		return rows
	}
}
