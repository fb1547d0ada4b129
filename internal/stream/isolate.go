package stream

import (
	"context"
	"log/slog"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
)

// failed notes that the store did not answer. Nothing is read for a while; then every topic proves its position before it
// is read on, since the store may have lost something.
func (g *group) failed(err error) {
	g.failures++
	g.notBefore = time.Now().Add(backoff(g.failures))
	for _, t := range g.members {
		t.suspect()
	}
	level := slog.LevelWarn
	if execution.Is(err, execution.CodeUnavailable) {
		level = slog.LevelDebug // the runtime tells of an outage, once
	}
	g.hub.p.Logger.Log(context.Background(), level, "event logs can't be read", "partition", g.partition, "failures", g.failures, "error", err)
}

// isolate reads the halves of what can't be read together, and their halves, so that a log that can't be read stands alone. It
// gets a strike; the others are read on without it. Where the store itself fails, nobody gets one.
func (g *group) isolate(ctx context.Context, topics []*topic, cause error) {
	bad, err := g.search(ctx, topics)
	if err != nil || len(bad) == len(topics) && len(topics) > 1 {
		g.failed(cause)
		return
	}
	for _, t := range bad {
		g.strike(t, cause)
	}
	g.failures = 0
}

// search returns the topics that can't be read even alone, and an error if the store does not answer for one of them either.
func (g *group) search(ctx context.Context, topics []*topic) ([]*topic, error) {
	if g.read(ctx, topics, probeWait) == nil {
		return nil, nil
	}
	if n := len(topics); n > 1 {
		left, err := g.search(ctx, topics[:n/2])
		if err != nil {
			return nil, err
		}
		right, err := g.search(ctx, topics[n/2:])
		return append(left, right...), err
	}
	_, err := g.hub.p.Store.Controls(ctx, []string{topics[0].id})
	return topics[:1:1], err
}

// tryAlone reads a suspect by itself and reports whether it may be read with the others again.
func (g *group) tryAlone(ctx context.Context, t *topic) bool {
	err := g.read(ctx, []*topic{t}, probeWait)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		g.strike(t, err)
		return false
	}
	t.strikes = 0
	return true
}

// strike puts a topic whose log can't be read aside for a while. After a few its viewers are told.
func (g *group) strike(t *topic, cause error) {
	t.strikes++
	if t.strikes >= maxStrikes {
		g.hub.p.Logger.Warn("an event log can't be read", "execution", t.id, "error", cause)
		g.giveUp(t, ReasonUnreadable)
		return
	}
	t.suspect()
	t.notBefore = time.Now().Add(backoff(t.strikes + 1))
}
