// Package memory keeps executions in the process: for a laptop without Redis, for tests, and as the model that other stores
// are tested against.
//
// Everything stands under one mutex. A command is decided against the control as it is at that moment, so the guard of its
// plan holds by construction, and [Store.commit] is the one place where a plan is carried out and the indexes follow. Nothing
// outlives the process.
package memory

import (
	"context"
	"crypto/rand"
	"io"
	"sync"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// maxClaims bounds one poll, as every store bounds the work of one exchange.
const maxClaims = 100

// Config of a store. The zero value is ready for use.
type Config struct {
	Limits store.Limits
	Clock  func() execution.Instant // nil: time.Now
	Rand   io.Reader                // of ids; nil: crypto/rand
}

// Store is a [store.Store] in memory.
type Store struct {
	limits store.Limits
	clock  func() execution.Instant
	rand   io.Reader
	closed chan struct{}
	close  sync.Once

	mu       sync.Mutex // guards the following
	items    map[string]*item
	bindings map[bindingKey]binding
	index    *index
	batches  map[string]batch // the last one of each worker
	workers  []store.Worker   // who has polled, the latest last
	longest  int64            // lease that a poll has claimed with, in milliseconds, since last nothing ran
	bells    doorbells
	tails    map[string]map[*tail]struct{} // who waits for entries of a log
}

var _ store.Store = (*Store)(nil)

// New makes an empty store.
func New(c Config) *Store {
	if c.Clock == nil {
		c.Clock = func() execution.Instant { return execution.InstantOf(time.Now()) }
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	limits := c.Limits.WithDefaults()
	return &Store{
		limits:   limits,
		clock:    c.Clock,
		rand:     c.Rand,
		closed:   make(chan struct{}),
		items:    map[string]*item{},
		bindings: map[bindingKey]binding{},
		index:    newIndex(limits),
		batches:  map[string]batch{},
		bells:    doorbells{},
		tails:    map[string]map[*tail]struct{}{},
	}
}

// Check reports whether the store is open.
func (s *Store) Check(ctx context.Context) error { return s.ready(ctx) }

// Close ends every blocked call. What is stored is gone with the process.
func (s *Store) Close() error {
	s.close.Do(func() { close(s.closed) })
	return nil
}

// ready refuses a call whose context ended or that comes after Close, before anything was done.
func (s *Store) ready(ctx context.Context) error {
	select {
	case <-s.closed:
		return errClosed()
	default:
	}
	if err := ctx.Err(); err != nil {
		return &execution.Error{Code: execution.CodeUnavailable, Message: "the call was given up", Err: err}
	}
	return nil
}

func errClosed() error { return execution.Errorf(execution.CodeUnavailable, "the store is closed") }

func errNotFound() error { return execution.Errorf(execution.CodeNotFound, "no such execution") }

// find returns the execution if the scope admits it. Another owner's looks absent.
func (s *Store) find(id string, scope store.Scope) (*item, error) {
	it := s.items[id]
	if it == nil || !scope.Admits(it.control.Owner) {
		return nil, errNotFound()
	}
	return it, nil
}

// commit carries out a plan as a whole: payloads, progress, control, log, indexes, doorbell.
func (s *Store) commit(it *item, p execution.Plan, now execution.Instant) {
	if p.Noop() {
		return
	}
	before, after := it.control, p.Apply(it.control, now)
	it.write(p, s.limits.ProgressEvents)
	it.control = after
	if e, ok := p.HistoryEntry(after); ok {
		it.history = it.history.Add(e)
	}
	s.log(it, p.LogEntries(before, after, now), now)
	if after.Status.Terminal() {
		it.log.until = now.Millis() + s.limits.StreamTTL.Milliseconds()
		s.disown(it)
	}
	if s.index.follow(before, after, now) {
		s.bells.ring(revisionOf(after))
	}
}

// log appends entries, beginning the log with the first, and wakes whoever waits for them.
func (s *Store) log(it *item, entries []execution.Entry, now execution.Instant) {
	if len(entries) == 0 {
		return
	}
	if it.control.LogEpoch == "" {
		it.control.LogEpoch = execution.NewLogEpoch(now)
	}
	for _, e := range entries {
		it.log.append(e, s.limits, now)
	}
	for t := range s.tails[it.control.ID] {
		t.notify()
	}
}
