package redis

import (
	"context"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// Displace implements [store.Store]. Partitions are done one after the other, since each change waits for its own
// acknowledgement.
func (s *Store) Displace(ctx context.Context, rev store.Revision, cmd execution.Command) (store.Displaced, error) {
	if err := store.Displaces(rev, cmd); err != nil {
		return store.Displaced{}, err
	}
	var all store.Displaced
	for partition := range s.config.Partitions {
		for skip, more := 0, true; more; {
			got, err := s.displace(ctx, partition, rev, cmd, skip)
			all.Done += got.Done
			all.Kept += got.Kept
			all.Now = max(all.Now, got.Now)
			if err != nil {
				return all, err
			}
			skip += got.Kept
			more = got.Kept > 0 && got.Done == 0 && int64(skip) < got.Remaining // it only passed over some
			if !more {
				all.Remaining += got.Remaining
			}
		}
	}
	return all, nil
}

// displace runs the script once, past so many members.
func (s *Store) displace(ctx context.Context, partition int, rev store.Revision, cmd execution.Command, skip int) (store.Displaced, error) {
	var head packer
	head.array(6).text(rev.Deployment).text(rev.Revision).number(bound).number(int64(skip))
	var args []any
	for _, status := range []execution.Status{execution.Queued, execution.Waiting} {
		p, err := execution.Decide(execution.Control{Status: status}, cmd, 0)
		if err != nil {
			return store.Displaced{}, err
		}
		head.plan(p)
		args = s.data(p) // the same in both phases
	}
	rep := s.change(ctx, s.scripts.displace, partition, append([]any{head.bytes()}, args...)...)
	if rep.err != nil {
		return store.Displaced{}, rep.err
	}
	r := readPacked(rep.value)
	out := store.Displaced{Now: r.instant(), Done: int(r.number()), Kept: int(r.number()), Remaining: r.number()}
	return acknowledged(rep, out, r.fault())
}
