package stream

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

const (
	turnWait   = 250 * time.Millisecond // of one read where a group takes turns
	probeWait  = time.Millisecond       // of a read that only asks whether a log can be read
	lingerTime = time.Second            // how long an empty group keeps its tail
	maxStrikes = 3                      // failed reads of one log alone before its viewers are given up
)

// group reads the logs of some topics of one partition, with one tail.
type group struct {
	hub       *Hub
	partition int
	bell      chan struct{} // holds one token
	rung      atomic.Bool   // the tail was woken since the group last looked at its topics

	topics []*topic // guarded by Hub.mu
	tail   atomic.Pointer[openTail]

	// Of the goroutine that runs it.
	failures  int       // reads that failed, in a row
	notBefore time.Time // not to read before
	nextCheck time.Time // of the controls
	reads     int       // reads of the tail so far
	turn      int       // which topics are read next where there are more than fit one read
	members   []*topic
	readable  []*topic
	positions []store.Position
}

type openTail struct{ store.Tail }

func newGroup(h *Hub, partition int) *group {
	return &group{hub: h, partition: partition, bell: make(chan struct{}, 1), nextCheck: time.Now().Add(checkEvery(h))}
}

// checkEvery leaves room in a keepalive for what follows a check, so that a lost marker ends a stream within one.
func checkEvery(h *Hub) time.Duration { return shorten(h.p.Keepalive * 19 / 20) }

// ring makes the group look at its topics again, also out of a blocked read. What rings while it looks is not lost: the
// token, and the wake-up of the tail, stay until it next waits.
func (g *group) ring() {
	if g.rung.Swap(true) {
		return
	}
	g.nudge()
	if t := g.tail.Load(); t != nil {
		t.Wake()
	}
}

// nudge ends a wait that is not one for the tail.
func (g *group) nudge() {
	select {
	case g.bell <- struct{}{}:
	default:
	}
}

// run reads until ctx ends or nobody needs the group any more.
func (g *group) run(ctx context.Context) {
	defer g.closeTail()
	for g.step(ctx) {
	}
}

// step does what is due, then waits in one read of the tail. It reports whether the group goes on.
func (g *group) step(ctx context.Context) bool {
	g.look()
	if len(g.members) == 0 {
		return g.linger(ctx)
	}
	if !time.Now().Before(g.nextCheck) {
		g.check(ctx)
	}
	if g.resting() {
		g.pause(ctx, g.notBefore)
		return ctx.Err() == nil
	}
	if g.tail.Load() == nil {
		if err := g.openTail(ctx); err != nil {
			g.failed(err)
			return ctx.Err() == nil
		}
		g.look() // who came before the tail was open could not wake it
	}
	switch next := g.prepare(ctx); {
	case g.resting():
	case len(g.readable) == 0:
		g.pause(ctx, next)
	default:
		g.readTurn(ctx, next)
	}
	return ctx.Err() == nil
}

// resting reports whether the group waits after a failure.
func (g *group) resting() bool { return time.Now().Before(g.notBefore) }

// look takes a copy of the topics.
func (g *group) look() {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	g.rung.Store(false)
	clear(g.members)
	g.members = append(g.members[:0], g.topics...)
}

// linger waits a little for new topics. Without any the group ends, under the lock that hands out topics.
func (g *group) linger(ctx context.Context) bool {
	timer := time.NewTimer(lingerTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-g.bell:
		return true
	case <-timer.C:
		return !g.hub.retire(g)
	}
}

// retire takes an empty group out, and reports whether it was empty.
func (h *Hub) retire(g *group) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(g.topics) > 0 {
		return false
	}
	groups := h.groups[g.partition]
	for i, other := range groups {
		if other == g {
			h.groups[g.partition] = append(groups[:i:i], groups[i+1:]...)
			h.open--
		}
	}
	return true
}

// pause waits until that time, or until the topics change or a check is due.
func (g *group) pause(ctx context.Context, until time.Time) {
	if g.nextCheck.Before(until) {
		until = g.nextCheck
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-g.bell:
	case <-timer.C:
	}
}

// check reads the controls of all topics, which also keeps their logs marked as watched. A topic whose control shows what its
// log did not is proved again: it may have ended without a marker, be erased, or have another log.
func (g *group) check(ctx context.Context) {
	ids := make([]string, len(g.members))
	for i, t := range g.members {
		ids[i] = t.id
	}
	controls, err := g.hub.p.Store.Controls(ctx, ids)
	if err != nil {
		g.nextCheck = time.Now().Add(min(time.Second, g.hub.p.Keepalive))
		return
	}
	g.nextCheck = time.Now().Add(checkEvery(g.hub))
	for i, t := range g.members {
		if t.differs(controls[i]) {
			t.suspect()
		}
	}
}

// prepare proves stale topics, reads suspects alone, and gathers the others but those that an attempt of this process feeds. It returns when the next topic that has to wait may be read.
func (g *group) prepare(ctx context.Context) (next time.Time) {
	next = g.nextCheck
	clear(g.readable)
	g.readable = g.readable[:0]
	now := time.Now()
	for _, t := range g.members {
		switch {
		case ctx.Err() != nil || g.resting():
			return next
		case now.Before(t.notBefore):
			if t.notBefore.Before(next) {
				next = t.notBefore
			}
		case t.stale.Load() && !g.prove(ctx, t):
		case t.strikes > 0 && !g.tryAlone(ctx, t):
		case t.source.Load().feeds(t):
		default:
			g.readable = append(g.readable, t)
		}
	}
	return next
}

// prove reads the topic's log from its position on through the store, and reports whether the topic can be read on.
func (g *group) prove(ctx context.Context, t *topic) bool {
	t.stale.Store(false)
	rec, err := g.hub.p.Store.Read(ctx, store.ReadRequest{ID: t.id, Scope: store.Scope{All: true}, Watch: true,
		Log: true, LogFrom: t.position().After, LogLimit: pageLimit})
	switch {
	case err == nil:
		if t.prove(rec) {
			return true
		}
		g.hub.drop(t)
	case execution.Is(err, execution.CodeNotFound):
		g.giveUp(t, ReasonErased)
	case execution.Is(err, execution.CodeCorrupt):
		g.giveUp(t, ReasonUnreadable)
	default:
		t.stale.Store(true)
		g.failed(err)
	}
	return false
}

func (g *group) giveUp(t *topic, r Reason) {
	t.interrupt(r)
	g.hub.drop(t)
}

// readTurn reads what the group has gathered. Where that is more than fits one read, it takes turns.
func (g *group) readTurn(ctx context.Context, until time.Time) {
	wait := max(time.Until(until), probeWait)
	batch := g.readable
	if size := g.hub.p.GroupSize; len(batch) > size {
		g.turn = (g.turn + size) % len(batch)
		batch = append(batch[g.turn:len(batch):len(batch)], batch[:g.turn]...)[:size]
		wait = min(wait, turnWait)
	}
	err := g.read(ctx, batch, wait)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		g.failures = 0
	case g.failures == 0:
		g.failed(err)
	default:
		// It failed before, and the store has answered for each of these logs since: is it one of them?
		g.isolate(ctx, batch, err)
	}
}

// read waits once for entries of the topics and hands them out.
func (g *group) read(ctx context.Context, topics []*topic, wait time.Duration) error {
	if err := g.openTail(ctx); err != nil {
		return err
	}
	g.positions = g.positions[:0]
	g.reads++
	for _, t := range topics {
		t.read = g.reads
		g.positions = append(g.positions, t.position())
	}
	found, err := g.tail.Load().Read(ctx, g.positions, wait)
	if err != nil {
		g.closeTail()
		return err
	}
	for _, e := range found {
		g.deliver(e)
	}
	return nil
}

// deliver hands entries of the last read to their topic. A topic that took the place of the one whose position was read would
// miss what lies between, so it gets none.
func (g *group) deliver(e store.Entries) {
	t := g.hub.topic(e.ID)
	if t != nil && t.group == g && t.read == g.reads && t.deliver(e.Entries) {
		t.suspect()
	}
}

func (g *group) openTail(ctx context.Context) error {
	if g.tail.Load() != nil {
		return nil
	}
	t, err := g.hub.p.Store.Tail(ctx, g.partition)
	if err != nil {
		return err
	}
	g.tail.Store(&openTail{t})
	g.hub.p.Metrics.Tails(1)
	return nil
}

func (g *group) closeTail() {
	t := g.tail.Swap(nil)
	if t == nil {
		return
	}
	if err := t.Close(); err != nil {
		g.hub.p.Logger.Debug("closing a tail failed", "partition", g.partition, "error", err)
	}
	g.hub.p.Metrics.Tails(-1)
}
