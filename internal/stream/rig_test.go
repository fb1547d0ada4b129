package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a hub over a memory store that can be meddled with, inside a bubble of virtual time.
type rig struct {
	t     testing.TB
	mem   *memory.Store
	store *meddler
	hub   *Hub
	seen  *counts
	ops   atomic.Int64 // tokens given out
}

// bubble runs a test with a rig. The hub is closed at its end, and nothing may be left behind.
func bubble(t *testing.T, limits store.Limits, p Params, test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, mem: memory.New(memory.Config{Limits: limits}), seen: &counts{interrupted: map[Reason]int{}}}
		r.store = &meddler{Store: r.mem}
		p.Store, p.Metrics = r.store, r.seen
		hub, err := New(p)
		if err != nil {
			t.Fatal(err)
		}
		r.hub = hub
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- hub.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Run: %v", err)
			}
			synctest.Wait()
			if n := r.seen.tails.Load(); n != 0 {
				t.Errorf("%d tails are left open", n)
			}
		}()
		test(r)
	})
}

// meddler is a store whose answers a test may change. What is nil is left alone.
type meddler struct {
	store.Store
	reads, controls, tails, tailReads atomic.Int64

	mu         sync.Mutex
	onRead     func(store.ReadRequest, *store.Record) error
	onControls func([]execution.Control) error
	onTail     func() error
	onTailRead func([]store.Position) error
	hide       func(execution.Entry) bool // entries that nobody gets to see
}

func (m *meddler) visible(log []execution.Entry) []execution.Entry {
	if m.hide == nil {
		return log
	}
	return slices.DeleteFunc(log, m.hide)
}

func (m *meddler) set(f func(*meddler)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m)
}

func (m *meddler) Read(ctx context.Context, q store.ReadRequest) (store.Record, error) {
	m.reads.Add(1)
	rec, err := m.Store.Read(ctx, q)
	m.mu.Lock()
	defer m.mu.Unlock()
	rec.Log = m.visible(rec.Log)
	if err == nil && m.onRead != nil {
		err = m.onRead(q, &rec)
	}
	if err != nil {
		return store.Record{}, err
	}
	return rec, nil
}

func (m *meddler) Controls(ctx context.Context, ids []string) ([]execution.Control, error) {
	m.controls.Add(1)
	c, err := m.Store.Controls(ctx, ids)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil && m.onControls != nil {
		err = m.onControls(c)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (m *meddler) Tail(ctx context.Context, partition int) (store.Tail, error) {
	m.tails.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.onTail != nil {
		if err := m.onTail(); err != nil {
			return nil, err
		}
	}
	t, err := m.Store.Tail(ctx, partition)
	if err != nil {
		return nil, err
	}
	return &meddledTail{t, m}, nil
}

type meddledTail struct {
	store.Tail
	m *meddler
}

func (t *meddledTail) Read(ctx context.Context, logs []store.Position, wait time.Duration) ([]store.Entries, error) {
	t.m.tailReads.Add(1)
	logs = slices.Clone(logs)
	for until := time.Now().Add(wait); ; {
		if err := t.m.tailFault(logs); err != nil {
			return nil, err
		}
		found, err := t.Tail.Read(ctx, logs, time.Until(until))
		if err == nil {
			err = t.m.tailFault(logs)
		}
		if err != nil || len(found) == 0 {
			return nil, err
		}
		if seen := t.m.unhide(logs, found); len(seen) > 0 {
			return seen, nil
		}
	}
}

// unhide takes what nobody gets to see out of what was found, and moves the positions behind it.
func (m *meddler) unhide(logs []store.Position, found []store.Entries) []store.Entries {
	m.mu.Lock()
	defer m.mu.Unlock()
	var seen []store.Entries
	for _, f := range found {
		at := slices.IndexFunc(logs, func(p store.Position) bool { return p.ID == f.ID })
		logs[at].After = f.Entries[len(f.Entries)-1].ID
		if f.Entries = m.visible(f.Entries); len(f.Entries) > 0 {
			seen = append(seen, f)
		}
	}
	return seen
}

func (m *meddler) tailFault(logs []store.Position) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.onTailRead == nil {
		return nil
	}
	return m.onTailRead(logs)
}

var errDown = execution.Errorf(execution.CodeUnavailable, "down")

// down makes every call fail, or work again.
func (m *meddler) down(down bool) {
	m.set(func(m *meddler) {
		m.onRead, m.onControls, m.onTail, m.onTailRead = nil, nil, nil, nil
		if down {
			m.onRead = func(store.ReadRequest, *store.Record) error { return errDown }
			m.onControls = func([]execution.Control) error { return errDown }
			m.onTail = func() error { return errDown }
			m.onTailRead = func([]store.Position) error { return errDown }
		}
	})
}

// counts are metrics.
type counts struct {
	viewers, events, tails, maxTails atomic.Int64
	mu                               sync.Mutex
	interrupted                      map[Reason]int
}

func (c *counts) Viewers(d int) { c.viewers.Add(int64(d)) }
func (c *counts) Event()        { c.events.Add(1) }
func (c *counts) Tails(d int) {
	if n := c.tails.Add(int64(d)); n > c.maxTails.Load() {
		c.maxTails.Store(n)
	}
}
func (c *counts) Interrupted(r Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted[r]++
}

// work is an execution and its worker.
type work struct {
	*rig
	id      string
	control execution.Control
	next    int64 // number of the next chunk
	here    *here // its worker is in the hub's process; nil: it is elsewhere
}

// submit begins an execution under a deployment of its own, so that a poll claims just this one.
func (r *rig) submit() *work {
	id := r.mem.NewID(store.Key{})
	sub := store.Submission{Submit: execution.Submit{ID: id, Deployment: id, Revision: "r", Owner: "o",
		Budgets: execution.DefaultBudgets(), Input: []byte("{}")}}
	got, err := r.mem.Submit(context.Background(), sub)
	if err != nil {
		r.t.Fatal(err)
	}
	return &work{rig: r, id: id, control: got.Record.Control}
}

func (w *work) claim() *work {
	got, err := w.mem.Poll(context.Background(), store.PollRequest{Worker: "w", Token: fmt.Sprint(w.ops.Add(1)),
		Revisions: []store.Want{{Revision: store.Revision{Deployment: w.id, Revision: "r"}, Count: 1, Lease: time.Hour}}})
	if err != nil || len(got.Claimed) != 1 {
		w.t.Fatalf("claimed %d: %v", len(got.Claimed), err)
	}
	w.control, w.next = got.Claimed[0].Control, 0
	w.here.begin(w)
	return w
}

// say appends a batch of chunks.
func (w *work) say(chunks ...string) *work {
	b := execution.ChunkBatch{Attempt: w.control.Attempt, First: w.next}
	for _, c := range chunks {
		b.Chunks = append(b.Chunks, []byte(c))
	}
	w.next += int64(len(chunks))
	w.here.sending(flushes)
	got, err := w.mem.Beat(context.Background(), []store.Beat{{ID: w.id, Ownership: w.owner(), Chunks: &b}})
	if err != nil || got[0].Err != nil {
		w.t.Fatalf("append: %v %v", err, got)
	}
	w.here.settle(flushes, "", got[0].Log)
	return w
}

// count says numbered chunks, one batch of so many.
func (w *work) count(n int) *work {
	var chunks []string
	for i := range n {
		chunks = append(chunks, fmt.Sprint(w.next+int64(i)))
	}
	return w.say(chunks...)
}

func (w *work) owner() execution.Ownership {
	return execution.Ownership{Worker: w.control.Worker, Token: w.control.Token, Fence: w.control.Fence}
}

func (w *work) owned(messages ...string) execution.Owned {
	o := execution.Owned{Ownership: w.owner(), Operation: fmt.Sprint("op", w.ops.Add(1))}
	for _, m := range messages {
		o.Progress = append(o.Progress, execution.Event{Kind: "k", Message: m})
	}
	return o
}

func (w *work) do(cmd execution.Command) *work {
	w.here.sending(commits)
	c, err := w.mem.Transition(context.Background(), w.control, cmd)
	if err != nil {
		w.t.Fatalf("%s: %v", execution.Name(cmd), err)
	}
	w.control = c.Control
	w.here.settle(commits, c.LogEpoch, c.Log)
	if c.Status != execution.Running {
		w.here.end()
	}
	return w
}

func (w *work) report(m string) *work { return w.do(execution.Report{Owned: w.owned(m)}) }
func (w *work) release() *work        { return w.do(execution.Release{Owned: w.owned()}) }
func (w *work) complete() *work {
	return w.do(execution.Complete{Owned: w.owned(), Result: []byte(`"done"`)})
}
func (w *work) suspend() *work {
	return w.do(execution.Suspend{Owned: w.owned(), Wait: []byte(`{"kind":"k"}`)})
}

// tape records what one viewer gets, in a goroutine of its own.
type tape struct {
	v      *Viewer
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	events []Event
}

func (r *rig) subscribe(id, cursor string) *Viewer {
	r.t.Helper()
	v, err := r.hub.Subscribe(r.t.Context(), Request{ID: id, Scope: store.Scope{All: true}, Cursor: cursor})
	if err != nil {
		r.t.Fatalf("Subscribe from %q: %v", cursor, err)
	}
	return v
}

func (r *rig) record(id, cursor string) *tape {
	r.t.Helper()
	return r.recordOf(r.subscribe(id, cursor))
}

func (r *rig) recordOf(v *Viewer) *tape {
	t := &tape{v: v, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(r.t.Context())
	t.cancel = cancel
	go t.run(ctx)
	return t
}

func (t *tape) run(ctx context.Context) {
	defer close(t.done)
	defer t.v.Close()
	for {
		e, err := t.v.Next(ctx)
		if err != nil {
			if !errors.Is(err, io.EOF) && ctx.Err() == nil {
				panic(err)
			}
			return
		}
		t.mu.Lock()
		t.events = append(t.events, e)
		t.mu.Unlock()
	}
}

// all returns what was recorded, without keepalives.
func (t *tape) all() []Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(t.events), func(e Event) bool { _, ok := e.(*Keepalive); return ok })
}

func (t *tape) keepalives() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.events) - len(slices.DeleteFunc(slices.Clone(t.events), func(e Event) bool { _, ok := e.(*Keepalive); return ok }))
}

// want waits until nothing moves and compares.
func (t *tape) want(r *rig, lines ...string) {
	r.t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(lines, render(t.all())); diff != "" {
		r.t.Fatalf("events (-want +got):\n%s", diff)
	}
}

// cursorAt is the cursor of the n-th event.
func (t *tape) cursorAt(n int) string {
	c, ok := t.all()[n].Cursor()
	if !ok {
		panic("no cursor there")
	}
	return c.String()
}

func render(events []Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, line(e))
	}
	return out
}

// line is an event in a few words.
func line(e Event) string {
	switch e := e.(type) {
	case *Opened:
		return "opened"
	case *Status:
		return strings.TrimSpace(fmt.Sprintf("%s %d %s", e.Status, e.Attempt, e.Wait))
	case *Progress:
		return "progress"
	case *Chunk:
		return fmt.Sprintf("%d:%s", e.Attempt, e.Payload)
	case *Gap:
		return "gap"
	case *End:
		return fmt.Sprintf("end %s %s", e.Record.Control.Status, e.Record.Result)
	case *Interrupted:
		return "interrupted " + string(e.Reason)
	}
	return "keepalive"
}

func itoa(n int) string { return fmt.Sprint(n) }
