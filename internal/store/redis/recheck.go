package redis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
)

const (
	// recheckEvery is how often the servers are checked again without a reason: a policy may be changed, and a namespace
	// emptied, on a server that never failed.
	recheckEvery = 5 * time.Minute
	// recheckFirst and recheckMost bound the time between two checks while something is wrong; it doubles.
	recheckFirst = time.Second
	recheckMost  = 15 * time.Second
)

// standing is what is known of the servers since they were checked, and when they are to be checked again: after any
// failure that may mean that another server answers, once one answers; while one is refused, until it is right again; and
// now and then. An exchange pays two reads of memory for it.
type standing struct {
	store   *Store
	suspect atomic.Bool                     // another server may answer
	next    atomic.Int64                    // when the next check is due, as Unix nanoseconds; 0: the store was not opened
	running atomic.Bool                     // a check is under way
	blocked atomic.Pointer[execution.Error] // why nothing may be read or written
	bad     atomic.Pointer[execution.Error] // why this process is not ready

	mu    sync.Mutex // guards the following
	last  time.Time  // when the last check ended
	epoch int64      // 0: none is known
}

// doubt says that another server may answer from now on.
func (st *standing) doubt() { st.suspect.Store(true) }

// saw takes in what an exchange brought. What failed casts doubt; the next success has the servers checked, beside it.
func (st *standing) saw(calls []call, replies []reply, now time.Time) {
	for i, r := range replies {
		switch {
		case r.missed != nil:
			st.doubt()
		case r.err == nil:
			if ran := calls[i].script.ran; !ran.Load() {
				ran.Store(true)
			}
		case suspicious(r.err), isUnknownScript(r.err) && calls[i].script.ran.Load():
			st.doubt()
			return
		}
	}
	if next := st.next.Load(); next != 0 && (st.suspect.Load() || now.UnixNano() > next) && replies[0].err == nil {
		st.begin()
	}
}

// begin starts a check unless one is under way.
func (st *standing) begin() {
	if !st.running.CompareAndSwap(false, true) {
		return
	}
	if !st.store.enter() {
		return // closed: nothing begins any more
	}
	go func() {
		defer st.store.calls.Done()
		defer st.running.Store(false)
		st.check(st.store.ctx)
	}()
}

// check checks the servers until they could be asked and nothing is wrong.
func (st *standing) check(ctx context.Context) {
	st.mu.Lock()
	wait := time.Until(st.last.Add(recheckFirst)) // servers that fail again and again are not checked as often
	st.mu.Unlock()
	for pause := recheckFirst; rest(ctx, wait); pause = min(2*pause, recheckMost) {
		st.suspect.Store(false)
		if st.once(ctx) {
			return
		}
		wait = pause
	}
}

// rest waits, and reports whether ctx goes on.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// once checks the servers, and reports whether they could be asked and nothing is wrong.
func (st *standing) once(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, st.store.config.Timeout)
	defer cancel()
	seen, err := st.store.inspect(ctx)
	if err == nil {
		err = st.store.attach(ctx, seen)
	}
	if err != nil && !execution.Is(err, execution.CodeCorrupt) {
		return false
	}
	if err != nil {
		seen.addf(conditionNamespace, true, "the namespace's root in Redis can't be read: repair or remove it, or use another key prefix")
	}
	st.learn(seen)
	return seen.refusal() == nil
}

// learn takes over what an inspection showed: what it changes for callers first, then what is told.
func (st *standing) learn(seen *inspection) {
	st.blocked.Store(refusalBy(seen, conditionNamespace))
	st.bad.Store(refusalBy(seen, conditionEviction, conditionVersion))
	for _, code := range []string{conditionUnchecked, conditionNoPersistence, conditionEviction, conditionVersion, conditionNamespace, conditionAck} {
		if f, ok := seen.found[code]; ok {
			st.store.conditions.hold(code, f.message, f.severe)
		} else {
			st.store.conditions.end(code)
		}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.last = time.Now()
	st.next.Store(st.last.Add(recheckEvery).UnixNano())
	if st.blocked.Load() == nil {
		st.countLocked(seen.root)
	}
}

// refusalBy is the error for callers where one of the conditions stands in the way; nil: none does. Clients learn no more than that.
func refusalBy(seen *inspection, codes ...string) *execution.Error {
	for _, code := range codes {
		if f, ok := seen.found[code]; ok && f.severe {
			return &execution.Error{Code: execution.CodeUnavailable, Unchanged: true,
				Message: "the store can't be used until its operator has seen to it", Err: errors.New(f.message)}
		}
	}
	return nil
}

// refusal is why nothing may be read or written; nil: it may.
func (st *standing) refusal() error {
	if err := st.blocked.Load(); err != nil {
		return err
	}
	return nil
}

// unfit is why this process is not ready although its store answers; nil: it is.
func (st *standing) unfit() error {
	if err := st.bad.Load(); err != nil {
		return err
	}
	return nil
}
