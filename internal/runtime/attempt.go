package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
)

var _ handler.Attempt = (*session)(nil)

// Info implements [handler.Attempt].
func (s *session) Info() handler.Info {
	c := s.claimed.Control
	return handler.Info{
		ID: c.ID, Deployment: c.Deployment, Revision: c.Revision, Owner: c.Owner, Labels: c.Labels, Trace: c.Trace,
		Number: c.Attempt, Retries: c.Retries,
		Input: s.claimed.Input, Checkpoint: s.claimed.Checkpoint,
	}
}

// Save implements [handler.Attempt]. With a cancel pending, or while the process shuts down, the checkpoint is stored, and
// the attempt must stop.
func (s *session) Save(ctx context.Context, checkpoint []byte) error {
	data, err := s.payload("the checkpoint", checkpoint, s.Settings.MaxPayload)
	if err != nil {
		return err
	}
	if err := s.mayCommit(ctx); err != nil {
		return err
	}
	s.flush()
	err = s.commit(func(o execution.Owned) execution.Command {
		s.mu.Lock()
		defer s.mu.Unlock()
		return execution.Checkpoint{Owned: o, Data: data, Consumed: s.consumed, Lease: s.d.lease}
	})
	if err != nil {
		return s.refused(err)
	}
	if err := s.registry.handingOver(); err != nil {
		s.stop(err)
	}
	return s.stopped()
}

// Report implements [handler.Attempt].
func (s *session) Report(ctx context.Context, kind, message string, metadata json.RawMessage, now bool) error {
	event, err := s.event(kind, message, metadata)
	if err != nil {
		return err
	}
	full, err := s.remember(event)
	if err != nil || !now && !full {
		return err
	}
	if err := s.mayCommit(ctx); err != nil {
		return err
	}
	if err := s.commit(func(o execution.Owned) execution.Command { return execution.Report{Owned: o} }); err != nil {
		return s.refused(err)
	}
	return s.stopped()
}

// event checks the parts of a progress event. It is stamped when it is remembered.
func (s *session) event(kind, message string, metadata json.RawMessage) (execution.Event, error) {
	e := execution.Event{Kind: kind, Message: message}
	if metadata != nil {
		data, err := s.payload("the progress event's metadata", metadata, s.Settings.MaxProgressEvent)
		if err != nil {
			return e, err
		}
		e.Metadata = data
	}
	rendered, err := e.Encode(execution.MaxInteger)
	if err != nil {
		return e, &execution.Error{Code: execution.CodeInvalidInput, Message: "the progress event is not JSON", Err: err}
	}
	return e, s.within("the progress event", rendered, s.Settings.MaxProgressEvent)
}

// remember adds the event to those that wait for a commit, and reports whether they have become too many to wait.
func (s *session) remember(e execution.Event) (full bool, err error) {
	now := s.clock.now().Millis()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.finishing {
		return false, handler.ErrLeaseLost
	}
	s.stamped = max(s.stamped, now)
	e.At = s.stamped
	s.events = append(s.events, e)
	return len(s.events) >= maxPendingEvents, nil
}

// Stream implements [handler.Attempt].
func (s *session) Stream(chunk []byte) error {
	data, err := s.payload("the chunk", chunk, s.Settings.MaxChunk)
	if err != nil {
		return err
	}
	if s.d.Options.DropChunks {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return handler.ErrLeaseLost
	}
	if len(s.chunks.queue) == 0 {
		s.beats.raise()
	}
	if n := s.chunks.add(append([]byte(nil), data...), time.Now()); n > 0 {
		s.Metrics.ChunksFlushed(outcomeDropped, n)
	}
	return nil
}

// Answer implements [handler.Attempt].
func (s *session) Answer() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.consumed = s.consumed || s.claimed.Answer != nil
	return s.claimed.Answer
}

// Check implements [handler.Attempt].
func (s *session) Check(ctx context.Context) error {
	began := time.Now()
	for {
		if err := s.stopped(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		s.mu.Lock()
		fresh, replied := s.seen.After(began.Add(-checkFreshness)), s.replied
		s.urgent = s.urgent || !fresh
		s.mu.Unlock()
		if fresh {
			return nil
		}
		s.beats.raise()
		select {
		case <-replied:
		case <-s.ctx.Done():
		case <-s.gone:
		case <-ctx.Done():
		}
	}
}

// mayCommit refuses what comes too late to be committed, and what a caller has given up already. Where it is the first to see
// that the window is closed, the session ends with it: what the handler was told must not change with a reply that is late.
func (s *session) mayCommit(ctx context.Context) error {
	if !s.alive() {
		s.lose("the lease window closed before a commit began")
		return s.stopped()
	}
	if ctx.Err() != nil && s.ctx.Err() == nil {
		return context.Cause(ctx)
	}
	return nil
}

// refused is what a handler is told of a commit that failed.
func (s *session) refused(err error) error {
	if errors.Is(err, handler.ErrLeaseLost) {
		return s.stopped()
	}
	if execution.Is(err, execution.CodeCorrupt) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.corrupt = true
	}
	return err
}

// payload checks JSON that a handler passes and returns it compact.
func (s *session) payload(what string, raw []byte, limit int) ([]byte, error) {
	data, err := s.Compact(raw)
	if err != nil {
		return nil, &execution.Error{Code: execution.CodeInvalidInput, Message: what + " is not strict JSON", Err: err}
	}
	return data, s.within(what, data, limit)
}

func (s *session) within(what string, data []byte, limit int) error {
	if len(data) <= limit {
		return nil
	}
	e := execution.Errorf(execution.CodeTooLarge, "%s has %d bytes, the limit is %d", what, len(data), limit)
	e.Limit = int64(limit)
	return e
}
