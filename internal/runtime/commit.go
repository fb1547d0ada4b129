package runtime

import (
	"context"
	"slices"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
)

// command makes an owned command once its ownership, operation token and progress are known.
type command func(execution.Owned) execution.Command

func release(o execution.Owned) execution.Command { return execution.Release{Owned: o} }

// commit carries out one owned command, with the progress reported so far. One runs at a time. It is not cut short by the
// handler's context, since that would leave its outcome unknown: it ends with the store's answer, or with the lease window.
// Errors: handler.ErrLeaseLost, after which the session is closed, or an execution.Error that the store refused it with.
func (s *session) commit(build command) error {
	select {
	case s.turn <- struct{}{}:
	case <-s.gone:
		return handler.ErrLeaseLost
	}
	defer func() { <-s.turn }()
	events := s.pending()
	cmd := build(execution.Owned{Ownership: s.owner, Operation: token(), Progress: events})
	sent := time.Now()
	after, err := s.send(cmd)
	if err != nil {
		return err
	}
	s.committed(cmd, after, len(events), sent)
	return nil
}

// send repeats the command, as the same operation, until its outcome is known or the lease window has closed.
func (s *session) send(cmd execution.Command) (execution.Control, error) {
	for try := 1; ; try++ {
		ctx, cancel, open := s.exchange()
		if !open {
			s.lose("the lease window closed before a commit was confirmed")
			return execution.Control{}, s.undecided(cmd, try-1)
		}
		s.feed.Sending(laneCommits)
		after, err := s.Store.Transition(ctx, s.control, cmd)
		cancel()
		switch {
		case err == nil:
			s.feed.Settled(laneCommits, after.LogEpoch, after.Log, !after.Untold)
			return after.Control, nil
		case execution.Is(err, execution.CodeLeaseLost):
			s.lose("the store refused " + execution.Name(cmd))
			return execution.Control{}, s.undecided(cmd, try-1)
		case execution.Unknown(err):
			s.feed.Unknown(laneCommits)
			s.log.Debug("a commit was not confirmed", "command", execution.Name(cmd), "try", try, "error", err)
			s.pause(try)
		default:
			s.feed.Settled(laneCommits, "", nil, try == 1)
			return execution.Control{}, err
		}
	}
}

// undecided is the error of a command that found the lease lost. After a failed try the first may have been the reason.
func (s *session) undecided(cmd execution.Command, failures int) error {
	if failures > 0 {
		s.log.Warn("a commit was not confirmed and may have been applied", "command", execution.Name(cmd), "tries", failures)
	}
	return handler.ErrLeaseLost
}

// exchange bounds one exchange about this claim; false: the lease window is closed.
func (s *session) exchange() (context.Context, context.CancelFunc, bool) {
	s.mu.Lock()
	open, end := s.aliveLocked(), s.deadlineLocked()
	s.mu.Unlock()
	if !open || s.base.Err() != nil {
		return nil, nil, false
	}
	if limit := time.Now().Add(s.d.exchange); limit.Before(end) {
		end = limit
	}
	ctx, cancel := context.WithDeadline(s.base, end)
	return ctx, cancel, true
}

// pause waits before the next try.
func (s *session) pause(failures int) {
	s.mu.Lock()
	delay := s.pauseLocked(s.backoff().delay(failures))
	s.mu.Unlock()
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.gone:
	case <-s.base.Done():
	}
}

// pauseLocked shortens a delay to half of what is left of the lease window, so that there is always another try.
func (s *session) pauseLocked(delay time.Duration) time.Duration {
	return max(min(delay, time.Until(s.deadlineLocked())/2), time.Millisecond)
}

func (s *session) backoff() backoff { return backoff{s.Settings.BackoffMin, s.Settings.BackoffMax} }

// committed takes in what the store holds now. sent is when the command was first sent: a repeat may have been answered for
// the first try, whose renewal counts from then.
func (s *session) committed(cmd execution.Command, after execution.Control, events int, sent time.Time) {
	s.control = after
	s.mu.Lock()
	s.events = s.events[events:]
	s.seenLocked(sent)
	if _, ok := cmd.(execution.Checkpoint); ok {
		s.renewedLocked(sent)
	}
	s.mu.Unlock()
	name := execution.Name(cmd)
	s.Metrics.Transitioned(s.d.Name, name, string(after.Status))
	s.log.Debug("committed", "command", name, "status", after.Status, "version", after.Version)
	if after.Status != execution.Running {
		s.close(false)
		return
	}
	if after.CanceledAt != 0 {
		s.stop(handler.ErrCanceled)
	}
}

// pending is the progress that goes with the next commit.
func (s *session) pending() []execution.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.events)
}
