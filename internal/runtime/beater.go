package runtime

import (
	"context"
	"math"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// flushBytes bounds the chunks of one exchange. Renewals travel along: an exchange that takes too long to arrive costs every
// session of the process its claim. What does not fit waits in its session's buffer, which drops the oldest.
const flushBytes = 2_000_000

// beater carries renewals and chunks of all sessions of the process to the store, together, in one exchange. The first chunk
// after silence leaves at once, any other waits for those that follow, for an interval at most. It is the only sender of beats, so the chunks of an attempt
// stay in order.
type beater struct {
	store    store.Store
	registry *registry
	clock    *clock
	loop     *loop
	settings Settings
	wake     signal
	base     context.Context

	flushed time.Time // when chunks were last sent
}

// Run beats until ctx ends.
func (b *beater) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if at := b.next(); at.IsZero() {
			timer.Stop()
			b.loop.rests()
		} else {
			timer.Reset(max(time.Until(at), 0))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-b.wake:
			if at := b.next(); at.IsZero() || at.After(time.Now()) {
				continue
			}
		case <-timer.C:
		}
		b.step()
	}
}

// next is when a session next needs a beat; zero: none does.
func (b *beater) next() time.Time {
	var first time.Time
	for _, s := range b.registry.all() {
		if at := s.beatAt(b.flushed); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// step sends one batch: everything that is due, and what may ride along.
func (b *beater) step() {
	now := time.Now()
	sessions, beats, timeout := b.collect(now)
	if len(beats) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(b.base, timeout)
	defer cancel()
	replies, err := b.store.Beat(ctx, beats)
	if err == nil && len(replies) != len(beats) {
		err = execution.Errorf(execution.CodeInternal, "%d replies to %d beats", len(replies), len(beats))
	}
	if err != nil {
		delay := b.loop.failed(err)
		for _, s := range sessions {
			s.unbeaten(err, delay)
		}
		return
	}
	b.loop.succeeded()
	for i, s := range sessions {
		b.clock.learn(replies[i].Now)
		s.beaten(beats[i], replies[i], now)
	}
}

// collect gathers the renewals of all sessions, and chunks up to flushBytes, but of one session at least. Sessions come in no
// particular order, so that each one's chunks find room in time.
func (b *beater) collect(now time.Time) (sessions []*session, beats []store.Beat, timeout time.Duration) {
	timeout = b.settings.ExchangeTimeout
	room := math.MaxInt
	for _, s := range b.registry.all() {
		beat, wanted := s.beat(now, room)
		if !wanted {
			continue
		}
		if beat.Chunks != nil {
			b.flushed = now
			room = min(room, flushBytes) - beat.Chunks.Size()
		}
		sessions, beats = append(sessions, s), append(beats, beat)
		timeout = min(timeout, s.d.exchange)
	}
	return sessions, beats, timeout
}
