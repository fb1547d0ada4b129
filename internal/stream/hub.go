package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// pageLimit is how many entries of a log one read of the past asks for.
const pageLimit = 200

// ErrNothingMore is what [Hub.Subscribe] returns for a cursor that stands after the terminal event of a finished execution.
var ErrNothingMore = errors.New("stream: nothing comes after the terminal event")

// Metrics is told what a hub does. Methods must be quick and safe for concurrent use.
type Metrics interface {
	Viewers(delta int)    // viewers came or went
	Event()               // an event was handed to a viewer
	Interrupted(r Reason) // a viewer was cut before the end
	Tails(delta int)      // tails, one connection each, were opened or closed
}

// Params of a hub. The zero value of a field but Store takes its default.
type Params struct {
	Store store.Store
	// Keepalive is the longest silence that a viewer sees, and how often controls are read again; both are taken up to a fifth
	// shorter by chance. Default 15 s.
	Keepalive time.Duration
	// GroupSize bounds the logs of one blocked read. Default 200.
	GroupSize int
	// TailConnections bounds the tails that are open at once, as long as each partition has one. When as many are open, groups
	// grow beyond GroupSize and read their logs in turns. Default 48.
	TailConnections int
	// BufferEvents and BufferBytes bound how far a live viewer may fall behind before it is cut. What it has not read is
	// shared with the other viewers of the execution. Defaults 1,000 events and 512 KiB.
	BufferEvents int
	BufferBytes  int
	Logger       *slog.Logger // default: none
	Metrics      Metrics      // default: none
}

func (p Params) withDefaults() Params {
	p.Keepalive = orDefault(p.Keepalive, 15*time.Second)
	p.GroupSize = orDefault(p.GroupSize, 200)
	p.TailConnections = orDefault(p.TailConnections, 48)
	p.BufferEvents = orDefault(p.BufferEvents, 1000)
	p.BufferBytes = orDefault(p.BufferBytes, 512<<10)
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	if p.Metrics == nil {
		p.Metrics = noMetrics{}
	}
	return p
}

func (p Params) validate() error {
	switch {
	case p.Store == nil:
		return errors.New("stream: no store")
	case p.Keepalive < 0:
		return fmt.Errorf("stream: keepalive %v is negative", p.Keepalive)
	case p.GroupSize < 0, p.TailConnections < 0, p.BufferEvents < 0, p.BufferBytes < 0:
		return errors.New("stream: a bound is negative")
	}
	return nil
}

func orDefault[T int | time.Duration](v, d T) T {
	if v == 0 {
		return d
	}
	return v
}

// Hub serves all viewers of a process.
type Hub struct {
	p         Params
	keepalive *Keepalive // one for all

	ctx  context.Context // of the groups; ends with Close
	stop context.CancelFunc
	work sync.WaitGroup // the groups

	mu     sync.Mutex // guards the following
	closed bool
	topics map[string]*topic // by execution
	feeds  map[string]*Feed  // by execution: of the attempts of this process
	groups map[int][]*group  // by partition
	open   int               // groups in all
}

// New makes a hub. It starts nothing and reads nothing.
func New(p Params) (*Hub, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	h := &Hub{p: p.withDefaults(), keepalive: &Keepalive{}, topics: map[string]*topic{}, feeds: map[string]*Feed{}, groups: map[int][]*group{}}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h, nil
}

// Run serves until ctx ends or Close is called, then ends every viewer and waits for the hub's goroutines. It returns nil.
func (h *Hub) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-h.ctx.Done():
	}
	h.Close()
	return nil
}

// Close ends every viewer with an [*Interrupted] event and waits for the hub's goroutines. It may be called more than once.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.stop()
	h.work.Wait()
}

// Request asks to follow an execution.
type Request struct {
	ID     string
	Scope  store.Scope
	Cursor string // where to go on, as an event gave it; empty: at the beginning
	Skip   Kinds  // of events that the viewer is not told of
}

// Subscribe begins to follow an execution. Outcomes: a viewer, to be closed by the caller; [ErrNothingMore]; an
// [execution.Error] of CodeNotFound, CodeCursorInvalid, CodeCorrupt, CodeUnavailable, or CodeDraining after Close.
func (h *Hub) Subscribe(ctx context.Context, r Request) (*Viewer, error) {
	var cursor *execution.Cursor
	if r.Cursor != "" {
		c, err := execution.ParseCursor(r.Cursor)
		if err != nil {
			return nil, err
		}
		cursor = &c
	}
	v, err := h.viewer(r, newTrail(cursor))
	if err != nil {
		return nil, err
	}
	rec, err := v.read(ctx)
	if err != nil {
		return nil, err
	}
	if cursor != nil && cursor.End && rec.Control.Status.Terminal() && cursor.Epoch == rec.Control.LogEpoch {
		return nil, ErrNothingMore
	}
	v.open(cursor, rec)
	return v, nil
}

// Await begins to follow an execution from now on, and returns it as it stands, in one exchange: the viewer is told what comes after
// that, and of an end that it shows already. The request's cursor counts for nothing. Errors are those of Subscribe.
func (h *Hub) Await(ctx context.Context, r Request) (*Viewer, store.Record, error) {
	v, err := h.viewer(r, trail{})
	if err != nil {
		return nil, store.Record{}, err
	}
	rec, err := h.p.Store.Read(ctx, store.ReadRequest{ID: v.id, Scope: v.scope, Watch: true, LogNewest: true})
	if err != nil {
		return nil, store.Record{}, err
	}
	v.await(rec)
	return v, rec, nil
}

// viewer makes a viewer of an execution that may be there.
func (h *Hub) viewer(r Request, t trail) (*Viewer, error) {
	if h.ctx.Err() != nil {
		return nil, execution.Errorf(execution.CodeDraining, "%s", ReasonShutdown.Detail())
	}
	if _, ok := h.p.Store.PartitionOf(r.ID); !ok {
		return nil, execution.Errorf(execution.CodeNotFound, "no such execution")
	}
	return &Viewer{hub: h, id: r.ID, scope: r.Scope, skip: r.Skip, trail: t}, nil
}

// join puts a viewer that reached the end of the log among the live ones.
func (h *Hub) join(v *Viewer) admission {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return elsewhere
	}
	t := h.topics[v.id]
	began := t == nil
	if began {
		t = h.beginLocked(v)
	}
	a := t.admit(v)
	h.mu.Unlock()
	switch {
	case a == elsewhere:
		t.group.ring()
	case began && t.source.Load().feeds(t):
		t.group.nudge() // there is nothing to read
	case began:
		t.group.ring()
	}
	return a
}

func (h *Hub) beginLocked(v *Viewer) *topic {
	partition, _ := h.p.Store.PartitionOf(v.id)
	t := newTopic(h, v.id, v.trail)
	h.topics[v.id] = t
	g := h.groupLocked(partition)
	t.group, t.slot = g, len(g.topics)
	g.topics = append(g.topics, t)
	if f := h.feeds[v.id]; f != nil {
		f.attach(t)
	}
	return t
}

// groupLocked finds a group with room, or begins one.
func (h *Hub) groupLocked(partition int) *group {
	var least *group
	for _, g := range h.groups[partition] {
		if len(g.topics) < h.p.GroupSize {
			return g
		}
		if least == nil || len(g.topics) < len(least.topics) {
			least = g
		}
	}
	if least != nil && h.open >= h.p.TailConnections {
		return least
	}
	g := newGroup(h, partition)
	h.groups[partition] = append(h.groups[partition], g)
	h.open++
	h.work.Go(func() { g.run(h.ctx) })
	return g
}

// leave takes a viewer out of its topic. The last one ends the topic, and the last topic the group. A group that goes on is not
// disturbed: it no longer listens to the topic when its read next returns.
func (h *Hub) leave(v *Viewer) {
	h.mu.Lock()
	t := v.topic
	unused := t.release(v) && h.dropLocked(t)
	h.mu.Unlock()
	if unused {
		t.group.ring()
	}
}

// drop forgets a topic that has nothing more to tell. Its viewers still read what it told.
func (h *Hub) drop(t *topic) {
	h.mu.Lock()
	h.dropLocked(t)
	h.mu.Unlock()
	t.group.nudge()
}

// dropLocked reports whether that leaves the group without any topic.
func (h *Hub) dropLocked(t *topic) bool {
	if h.topics[t.id] != t {
		return false
	}
	delete(h.topics, t.id)
	if f := h.feeds[t.id]; f != nil {
		f.detach(t)
	}
	g := t.group
	n := len(g.topics) - 1
	last := g.topics[n]
	g.topics[t.slot], last.slot = last, t.slot
	g.topics[n] = nil
	g.topics = g.topics[:n]
	return n == 0
}

// topic returns the execution's topic; nil: it has none.
func (h *Hub) topic(id string) *topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.topics[id]
}

// shorten takes up to a fifth off by chance, so that what began together does not stay together.
func shorten(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d)/5+1))
}

// backoff is how long to wait after so many failures: from 100 ms, doubling, up to 5 s, and half of that by chance.
func backoff(failures int) time.Duration {
	d := min(100*time.Millisecond<<min(failures-1, 6), 5*time.Second)
	return d/2 + time.Duration(rand.Int64N(int64(d)/2+1))
}

type noMetrics struct{}

func (noMetrics) Viewers(int)        {}
func (noMetrics) Event()             {}
func (noMetrics) Interrupted(Reason) {}
func (noMetrics) Tails(int)          {}
