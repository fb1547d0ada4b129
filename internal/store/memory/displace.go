package memory

import (
	"context"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// Displace implements [store.Store].
func (s *Store) Displace(ctx context.Context, rev store.Revision, cmd execution.Command) (store.Displaced, error) {
	if err := s.ready(ctx); err != nil {
		return store.Displaced{}, err
	}
	if err := store.Displaces(rev, cmd); err != nil {
		return store.Displaced{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	out := store.Displaced{Now: now}
	for _, place := range s.index.shelf {
		it := s.items[place.ID]
		if revisionOf(it.control) != rev || it.control.Status != execution.Queued && it.control.Status != execution.Waiting {
			continue
		}
		if !s.index.stands(it.control) {
			continue // its time was over when somebody looked, and it is left to maintenance, also where the clock was set back since
		}
		if at := it.control.Expiry(); at != 0 && at <= now.Millis() {
			out.Kept++
			continue
		}
		if out.Done == maxClaims {
			break
		}
		p, err := execution.Decide(it.control, cmd, now)
		if err != nil {
			return out, err
		}
		s.commit(it, p, now)
		out.Done++
	}
	if r := s.index.revisions[rev]; r != nil {
		out.Remaining = int64(r.ready.len()+r.delayed.len()+r.solitary.len()) + r.waiting
	}
	return out, nil
}
