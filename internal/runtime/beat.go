package runtime

import (
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/store"
)

// flushTries is how many exchanges the last chunks of an attempt may cost before its outcome is committed without them.
const flushTries = 2

// beatAt is when the session next needs a beat, given when chunks were last sent; zero: never.
func (s *session) beatAt(flushed time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return time.Time{}
	}
	at := s.confirmed.Add(s.d.heartbeat)
	if !s.chunks.empty() {
		if due := s.chunks.due(flushed, s.Settings.ChunkInterval); due.Before(at) {
			at = due
		}
	}
	if s.urgent {
		at = s.seen
	}
	if s.retryAt.After(at) {
		at = s.retryAt
	}
	return at
}

// beat is what the session sends along with a batch that leaves now, with chunks of at most room bytes. Its lease is renewed
// where half of the time to the next renewal has passed, so that renewals of different sessions, and flushes, come to share
// exchanges.
func (s *session) beat(now time.Time, room int) (store.Beat, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || now.Before(s.retryAt) {
		return store.Beat{}, false
	}
	b := store.Beat{ID: s.claimed.Control.ID, Ownership: s.owner}
	b.Chunks, b.Repeat = s.chunks.take(s.claimed.Control.Attempt, room)
	if !now.Before(s.confirmed.Add(s.d.heartbeat / 2)) {
		b.Lease = s.d.lease
	}
	wanted := b.Chunks != nil || b.Lease > 0 || s.urgent
	if s.urgent {
		b.Lease = s.d.lease
	}
	if b.Chunks != nil {
		s.feed.Sending(laneBeats)
	}
	return b, wanted
}

// beaten takes in the reply to a beat that was sent then.
func (s *session) beaten(b store.Beat, reply store.Beaten, sent time.Time) {
	switch execution.CodeOf(reply.Err) {
	case "":
	case execution.CodeLeaseLost:
		s.beatRefused()
		return
	case execution.CodeCorrupt:
		s.log.Error("the event log can't be written; its chunks are dropped", "error", reply.Err)
	default:
		s.unbeaten(reply.Err, s.backoff().delay(1))
		return
	}
	if b.Chunks != nil {
		s.feed.Settled(laneBeats, "", reply.Log, len(reply.Log) > 0 || reply.Err != nil && !b.Repeat)
	}
	s.confirm(b, reply, sent)
	if reply.Canceled {
		s.stop(handler.ErrCanceled)
	}
}

// beatRefused loses the lease, unless a command that leaves running is under way: then its own reply says what happened.
func (s *session) beatRefused() {
	s.mu.Lock()
	finishing := s.finishing
	if finishing {
		s.chunks.clear()
		s.retryAt = s.deadlineLocked() // no more beats
		s.wakeLocked()
	}
	s.mu.Unlock()
	if !finishing {
		s.lose("the store refused a renewal")
	}
}

func (s *session) confirm(b store.Beat, reply store.Beaten, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seenLocked(sent)
	if b.Lease > 0 {
		s.renewedLocked(sent)
	}
	if b.Chunks != nil && !s.closed {
		s.Metrics.ChunksFlushed(outcomeOf(reply.Err), s.chunks.settled())
	}
	s.failures, s.retryAt, s.urgent = 0, time.Time{}, false
	s.wakeLocked()
}

// unbeaten says that the outcome of the beat is not known: it is repeated, as it was, after the delay.
func (s *session) unbeaten(err error, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures++
	if s.chunks.unknown() {
		s.feed.Unknown(laneBeats)
	}
	s.retryAt = time.Now().Add(s.pauseLocked(delay))
	s.wakeLocked()
	s.log.Debug("a beat was not confirmed", "failures", s.failures, "error", err)
}

// wakeLocked tells those who wait for a reply.
func (s *session) wakeLocked() {
	close(s.replied)
	s.replied = make(chan struct{})
}

// flush has the chunks that were streamed so far carried to the store: before the attempt leaves running, and before a
// checkpoint, since the next attempt goes on behind it and would leave a hole. Chunks are best effort: after a few failures
// they are left behind.
func (s *session) flush() {
	s.mu.Lock()
	tries, end := s.failures+flushTries, s.chunks.end()
	s.mu.Unlock()
	for {
		s.mu.Lock()
		done := s.closed || s.chunks.carried() >= end || s.failures >= tries
		s.urgent = s.urgent || !done
		replied := s.replied
		s.mu.Unlock()
		if done {
			return
		}
		s.beats.raise()
		select {
		case <-replied:
		case <-s.gone:
		case <-s.base.Done():
			return
		}
	}
}

func outcomeOf(err error) string {
	if err == nil {
		return outcomeOK
	}
	return string(execution.CodeOf(err))
}
