package redis

import (
	"context"

	"github.com/windrow-run/windrow/internal/store"
)

// Erase implements [store.Store].
func (s *Store) Erase(ctx context.Context, id string, scope store.Scope) (store.Erased, error) {
	partition, err := s.locate(id)
	if err != nil {
		return store.Erased{}, err
	}
	var head packer
	head.array(4).text("x").text(id).flag(scope.All).text(scope.Owner)
	return s.erase(ctx, partition, head, new(int))
}

// EraseOwner implements [store.Store]. Partitions are done one after the other, since each change waits for its own
// acknowledgement.
func (s *Store) EraseOwner(ctx context.Context, owner string) (store.Erased, error) {
	var all store.Erased
	for partition := range s.config.Partitions {
		for kept, more := 0, true; more; {
			var head packer
			head.array(4).text("o").text(owner).number(bound).number(int64(kept))
			got, err := s.erase(ctx, partition, head, &kept)
			more = got.More && got.Executions == 0 // it only passed over some
			got.More = got.More && !more
			all.Add(got)
			if err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

// erase runs the script once. kept grows by the members that it passed over.
func (s *Store) erase(ctx context.Context, partition int, head packer, kept *int) (store.Erased, error) {
	rep := s.change(ctx, s.scripts.erase, partition, head.bytes())
	if rep.err != nil {
		return store.Erased{}, rep.err
	}
	r := readPacked(rep.value)
	outcome, now := r.text(), r.instant()
	if outcome != "ok" || r.err != nil {
		if err := r.fault(); err != nil {
			return store.Erased{}, err
		}
		return store.Erased{}, refused(outcome)
	}
	out := store.Erased{Now: now, Executions: int(r.number()), Unfinished: int(r.number()), Keys: int(r.number()), Kept: int(r.number()), More: r.flag()}
	for ran := r.list(); ran.more(); {
		out.Ran = append(out.Ran, ran.text())
		r.failed(ran)
	}
	*kept += out.Kept
	return acknowledged(rep, out, r.fault())
}
