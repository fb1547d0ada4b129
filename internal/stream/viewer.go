package stream

import (
	"context"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// rejoinSpread is over how long viewers spread that go back to the past together.
const rejoinSpread = 250 * time.Millisecond

// Viewer follows one execution. One goroutine uses it. It holds no connection and has no goroutine of its own.
type Viewer struct {
	hub   *Hub
	id    string
	scope store.Scope
	of    string // the deployment
	skip  Kinds  // not to be told

	queue []Event // to be handed out before anything else; shared with other viewers
	trail trail   // where the viewer stands after the queue
	more  bool    // the past has more: read a page

	silent bool             // events were passed over since one was told
	passed execution.Cursor // of the newest of them

	refused bool // a topic had passed the viewer, which has seen no event since

	failures  int       // reads of the past that failed, in a row
	notBefore time.Time // not to read before
	silentTo  time.Time // when a keepalive is due; zero: to be set when the viewer next waits
	timer     *time.Timer

	topic *topic // nil in the past
	slot  int    // in topic.viewers; guarded by topic.mu
	// gate is where the viewer stands in the topic. The topic sets it to nil to cut the viewer.
	gate atomic.Pointer[gate]

	over   bool // the last event was handed out
	closed bool
}

// Next returns the next event, waiting for it if need be; after the last one [io.EOF], and ctx's error when ctx ends first, after
// which Next may be called again.
func (v *Viewer) Next(ctx context.Context) (Event, error) {
	for !v.over && !v.closed {
		switch {
		case v.hub.ctx.Err() != nil:
			v.interrupt(ReasonShutdown)
		case len(v.queue) == 0:
			if err := v.fill(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if e := v.pop(); e != nil {
			return e, nil
		}
	}
	return nil, io.EOF
}

// More returns the next event where it is at hand. It neither waits nor asks the store; false says that Next may have to.
func (v *Viewer) More() (Event, bool) {
	for !v.over && !v.closed && v.hub.ctx.Err() == nil && (len(v.queue) > 0 || v.pass()) {
		if len(v.queue) == 0 {
			continue
		}
		if e := v.pop(); e != nil {
			return e, true
		}
	}
	return nil, false
}

// Deployment is the one of the execution.
func (v *Viewer) Deployment() string { return v.of }

// Close ends the viewer. It may be called more than once.
func (v *Viewer) Close() {
	if v.closed {
		return
	}
	v.closed = true
	v.leave()
	v.queue = nil
	if v.timer != nil {
		v.timer.Stop()
	}
	v.hub.p.Metrics.Viewers(-1)
}

// pop takes an event from the queue; nil: it is not to be told.
func (v *Viewer) pop() Event {
	e := v.queue[0]
	v.queue = v.queue[1:]
	if len(v.queue) == 0 {
		v.queue = nil // lets the rest of a shared slice go
	}
	if final(e) {
		v.over = true
		v.leave()
		if e, ok := e.(*Interrupted); ok {
			v.hub.p.Metrics.Interrupted(e.Reason)
		}
	}
	v.refused = false
	if v.skip&kindOf(e) != 0 {
		if c, ok := e.Cursor(); ok {
			v.passed, v.silent = c, true
		}
		return nil
	}
	v.silentTo, v.silent = time.Time{}, false
	v.hub.p.Metrics.Event()
	return e
}

// fill brings the viewer one step on: it waits at its gate, reads a page of the past, or joins the live side.
func (v *Viewer) fill(ctx context.Context) error {
	switch {
	case v.topic != nil:
		return v.follow(ctx)
	case v.more:
		return v.catchUp(ctx)
	}
	switch v.hub.join(v) {
	case behind:
		v.more, v.refused = true, true
	case elsewhere:
		v.more = true
		v.pause(backoff(1))
	}
	return nil
}

// follow waits at the gate and passes it.
func (v *Viewer) follow(ctx context.Context) error {
	g := v.gate.Load()
	if g == nil {
		v.interrupt(ReasonSlow)
		return nil
	}
	if v.pass() {
		return nil
	}
	return v.wait(ctx, g.opened, 0)
}

// pass goes through the gate where it is open.
func (v *Viewer) pass() bool {
	if v.topic == nil {
		return false
	}
	g := v.gate.Load()
	if g == nil {
		return false
	}
	select {
	case <-g.opened:
	default:
		return false
	}
	if v.gate.CompareAndSwap(g, g.next) {
		v.accept(&g.told)
	}
	return true
}

func (v *Viewer) accept(n *told) {
	switch {
	case n.rejoin:
		v.rejoin()
	case n.status != nil:
		if n.status.Version > v.trail.version && !v.trail.shows(n.status.Status, n.status.Attempt) {
			v.queue = n.events
			v.trail.tell(n.status.StatusEntry)
		}
	case n.after.pos.IsZero():
		v.queue = n.events // the last one
	case v.trail.epoch != "" && v.trail.epoch != n.after.epoch:
		v.rejoin() // the log was begun anew before the topic knew of the one that the viewer has seen
	case v.trail.pos.Less(n.after.pos):
		v.queue, v.trail = n.events, n.after
	}
}

// rejoin goes back to the past. Others do at the same time, so it waits a little by chance.
func (v *Viewer) rejoin() {
	v.leave()
	v.more = true
	v.pause(time.Duration(rand.Int64N(int64(rejoinSpread))))
}

// catchUp reads a page of the past. A store that does not answer is asked again until it does; the viewer gets its keepalives.
func (v *Viewer) catchUp(ctx context.Context) error {
	if rest := time.Until(v.notBefore); rest > 0 {
		return v.wait(ctx, nil, rest)
	}
	rec, err := v.read(ctx)
	switch {
	case err == nil:
		v.failures = 0
		v.absorb(rec)
	case ctx.Err() != nil:
		return ctx.Err()
	case execution.Is(err, execution.CodeNotFound):
		v.interrupt(ReasonErased)
	case execution.Is(err, execution.CodeCorrupt):
		v.interrupt(ReasonUnreadable)
	default:
		v.failures++
		v.pause(backoff(v.failures))
	}
	return nil
}

func (v *Viewer) read(ctx context.Context) (store.Record, error) {
	return v.hub.p.Store.Read(ctx, store.ReadRequest{ID: v.id, Scope: v.scope, Watch: true,
		Log: true, LogFrom: v.trail.pos, LogLimit: pageLimit})
}

// open queues what comes first.
func (v *Viewer) open(cursor *execution.Cursor, rec store.Record) {
	v.begin(rec)
	c := execution.Cursor{Epoch: rec.Control.LogEpoch}
	if cursor != nil && (cursor.End || cursor.Epoch != "" || !cursor.Entry.IsZero()) {
		c = *cursor // also before a gap, so that who breaks off before it is told again
	}
	v.queue = []Event{&Opened{at(c)}}
	v.absorb(rec)
}

// begin counts the viewer.
func (v *Viewer) begin(rec store.Record) {
	v.of = rec.Control.Deployment
	v.hub.p.Metrics.Viewers(1)
}

// await makes the viewer stand after the newest entry of the log, with all told that the record shows but its end.
func (v *Viewer) await(rec store.Record) {
	v.begin(rec)
	if n := len(rec.Log); n > 0 {
		v.trail = newTrail(&execution.Cursor{Epoch: rec.Control.LogEpoch, Entry: rec.Log[n-1].ID, Chunk: whole - 1})
	}
	v.absorb(rec)
	if !rec.Control.Status.Terminal() {
		v.queue = nil
	}
}

// absorb takes a page. At the end of the log comes the terminal event, or the status where the log does not show it.
func (v *Viewer) absorb(rec store.Record) {
	events, again := v.trail.page(rec)
	v.queue = append(v.queue, events...)
	terminal := rec.Control.Status.Terminal()
	v.more = again || len(rec.Log) >= pageLimit && !(terminal && v.trail.ended)
	switch {
	case v.more:
	case terminal:
		v.queue = append(v.queue, end(rec))
	default:
		v.trail.ended = false // control is the authority
		if s := v.trail.settle(rec); s != nil {
			v.queue = append(v.queue, s)
		}
	}
}

func (v *Viewer) interrupt(r Reason) {
	v.leave()
	v.queue = []Event{&Interrupted{Reason: r}}
}

func (v *Viewer) leave() {
	if v.topic != nil {
		v.hub.leave(v)
		v.topic = nil
	}
}

func (v *Viewer) pause(d time.Duration) { v.notBefore = time.Now().Add(d) }

// wait returns when opened is closed, when limit, if any, has passed, when the hub closes or ctx ends, and with a keepalive when
// there was silence for long enough.
func (v *Viewer) wait(ctx context.Context, opened <-chan struct{}, limit time.Duration) error {
	if v.silentTo.IsZero() {
		v.silentTo = time.Now().Add(shorten(v.hub.p.Keepalive))
	}
	d := time.Until(v.silentTo)
	short := limit > 0 && limit < d
	if short {
		d = limit
	}
	if v.timer == nil {
		v.timer = time.NewTimer(d)
	} else {
		v.timer.Reset(d)
	}
	select {
	case <-opened:
	case <-ctx.Done():
		return ctx.Err()
	case <-v.hub.ctx.Done():
	case <-v.timer.C:
		if !short {
			v.queue = []Event{v.keepalive()}
		}
	}
	return nil
}

// keepalive is the hub's, which has no cursor, unless the viewer has passed what it is not told of.
func (v *Viewer) keepalive() *Keepalive {
	if !v.silent {
		return v.hub.keepalive
	}
	return &Keepalive{at(v.passed)}
}
