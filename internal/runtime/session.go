package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/store"
)

// session is one attempt in this process, from its claim until it left running or lost its lease. It is the
// [handler.Attempt] that the handler sees. Its parts are in session.go (life), commit.go (transitions), attempt.go (the
// handler's side), outcome.go (how it ends) and beat.go (lease and chunks).
type session struct {
	*deps
	d       *deployment
	claimed store.Claimed
	owner   execution.Ownership
	log     *slog.Logger
	feed    Feed

	solitary bool // nothing else runs here meanwhile
	idle     bool // it has given its slot back; the registry's

	ctx  context.Context // the handler's
	stop context.CancelCauseFunc
	gone chan struct{} // closed when nothing may be committed any more

	turn    chan struct{}     // serializes transitions; guards control
	control execution.Control // as last confirmed

	mu        sync.Mutex // guards the following; never held over anything that blocks
	confirmed time.Time  // just before the request was sent that last renewed the lease
	seen      time.Time  // just before the request was sent that last told the state
	expiry    *time.Timer
	overdue   *time.Timer // ends the handler's context at the execution's deadline; nil: it has none
	closed    bool        // gone is closed
	lost      bool        // closed because the lease was lost
	finishing bool        // a command that leaves running is under way: its reply decides, no beat's
	corrupt   bool        // what is stored can't be committed to
	consumed  bool        // the answer was read
	events    []execution.Event
	stamped   int64 // of the newest event
	chunks    chunks
	replied   chan struct{} // closed, and made anew, with each reply to a beat
	urgent    bool          // a beat is waited for
	retryAt   time.Time     // no beat before
	failures  int           // of beats in a row
}

// deps is what all sessions of a process share.
type deps struct {
	Params
	registry *registry
	clock    *clock
	schemas  *schemas
	beats    signal          // wakes the beater
	base     context.Context // bounds all exchanges about claims: ends when the process gives them up
}

func newSession(shared *deps, d *deployment, c claim) *session {
	control := c.Control
	ctx, stop := context.WithCancelCause(shared.base)
	s := &session{
		deps: shared, d: d, claimed: c.Claimed, solitary: c.solitary, control: control, ctx: ctx, stop: stop,
		owner: execution.Ownership{Worker: control.Worker, Token: control.Token, Fence: control.Fence, Margin: d.margin},
		log: shared.Logger.With("execution", control.ID, "deployment", d.Name, "revision", d.Revision,
			"attempt", control.Attempt, "fence", control.Fence),
		gone: make(chan struct{}), turn: make(chan struct{}, 1), replied: make(chan struct{}),
		confirmed: c.sent, seen: c.sent,
		feed:   shared.Feed(control.ID, control.Attempt),
		chunks: chunks{maxCount: shared.Settings.HistoryChunks, maxBytes: shared.Settings.HistoryBytes},
	}
	if id := control.Trace.ID(); id != "" {
		s.log = s.log.With("trace_id", id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expiry = time.AfterFunc(time.Until(s.deadlineLocked()), s.expire)
	if control.Deadline != 0 {
		s.overdue = time.AfterFunc(s.clock.until(control.Deadline), func() { stop(handler.ErrDeadline) })
	}
	return s
}

// run is the attempt from beginning to end. With start false its claim is released and the handler never called.
func (s *session) run(start bool) {
	defer s.end()
	s.Metrics.ExecutionStarted()
	s.beats.raise() // the lease of this session is one more to renew
	switch {
	case !s.alive():
	case !start || s.claimed.Control.CanceledAt != 0:
		s.finish(release)
	case s.claimed.Invalid:
		s.repair(false)
	default:
		s.work()
	}
}

// work calls the handler and commits how it ended, also when the handler ended its goroutine.
func (s *session) work() {
	outcome := handler.Outcome(handler.Failed{Error: failedWith("Exited"), Cause: errors.New("the handler ended its goroutine")})
	defer func() { s.settle(outcome) }()
	if c := s.claimed.Control; c.Attempt == 1 {
		s.Metrics.PickedUp(s.d.Name, time.Duration(s.clock.now().Millis()-c.CreatedAt)*time.Millisecond)
	}
	outcome = s.call()
}

func (s *session) call() (outcome handler.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			outcome = handler.Failed{Error: failedWith(fmt.Sprintf("%T", p)), Cause: fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	return s.d.Handler.Run(s.ctx, s)
}

// end gives back what the session holds of the process.
func (s *session) end() {
	s.close(false)
	s.stop(nil)
	if s.registry.remove(s) {
		s.Metrics.ExecutionEnded()
	}
}

// handOver releases the claim of an attempt whose handler does not stop. It returns when the claim is settled or ctx ends.
func (s *session) handOver(ctx context.Context) {
	s.finish(release)
	select {
	case <-s.gone:
		s.end()
	case <-ctx.Done():
	}
}

// alive reports whether the lease window is open, so that work may go on and be committed.
func (s *session) alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.aliveLocked()
}

func (s *session) aliveLocked() bool { return !s.closed && time.Now().Before(s.deadlineLocked()) }

// deadlineLocked is the end of the lease window.
func (s *session) deadlineLocked() time.Time { return s.confirmed.Add(s.d.window()) }

// renewedLocked moves the lease window: the request that renewed the lease was sent then.
func (s *session) renewedLocked(sent time.Time) {
	if sent.After(s.confirmed) {
		s.confirmed = sent
	}
}

func (s *session) seenLocked(sent time.Time) {
	if sent.After(s.seen) {
		s.seen = sent
	}
}

// expire runs when the window closes as it was known when the timer was set.
func (s *session) expire() {
	s.mu.Lock()
	left := time.Until(s.deadlineLocked())
	if left > 0 && !s.closed {
		s.expiry.Reset(left)
	}
	s.mu.Unlock()
	if left <= 0 {
		s.lose("it was not renewed in time")
	}
}

// lose ends the session because its lease is lost, or must be taken for lost.
func (s *session) lose(reason string) {
	if !s.close(true) {
		return
	}
	s.stop(handler.ErrLeaseLost)
	s.registry.lost(s)
	s.Metrics.LeaseLost(s.d.Name)
	s.log.Warn("the lease was lost", "reason", reason)
}

// close ends the session's right to commit and reports whether this call did it.
func (s *session) close(lost bool) bool {
	defer s.feed.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.closed, s.lost = true, lost
	s.expiry.Stop()
	if s.overdue != nil {
		s.overdue.Stop()
	}
	close(s.gone)
	if n := s.chunks.clear(); n > 0 {
		s.Metrics.ChunksFlushed(outcomeDropped, n)
	}
	return true
}

// stopped is why the attempt must stop; nil while it may go on.
func (s *session) stopped() error {
	s.mu.Lock()
	closed, lost := s.closed, s.lost
	s.mu.Unlock()
	if lost {
		return handler.ErrLeaseLost
	}
	if s.ctx.Err() != nil {
		return stopCause(context.Cause(s.ctx))
	}
	if closed {
		return handler.ErrLeaseLost
	}
	return nil
}

// stopCause makes any cause one of those that handlers know. Anything else means that the process gave the session up.
func stopCause(cause error) error {
	for _, known := range []error{handler.ErrCanceled, handler.ErrDeadline, handler.ErrShutdown} {
		if errors.Is(cause, known) {
			return known
		}
	}
	return handler.ErrLeaseLost
}
