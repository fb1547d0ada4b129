package redis

import (
	"context"
	"strconv"
	"strings"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// Workers implements [store.Store]. A process polls every partition; what each says is put together by who says it.
func (s *Store) Workers(ctx context.Context) (store.Workers, error) {
	calls := make([]call, s.config.Partitions)
	for p := range calls {
		calls[p] = call{script: s.scripts.workers, anchor: s.keys.anchor(p), args: []any{store.MaxWorkers}}
	}
	var out store.Workers
	at := map[string]int{} // by what was said
	for _, rep := range s.exchange(ctx, calls...) {
		if rep.err != nil {
			return store.Workers{}, rep.err
		}
		r := read(rep.value)
		out.Now = max(out.Now, execution.Instant(r.figure()))
		for r.more() {
			said, seen := r.text(), r.figure()
			i, known := at[said]
			if !known {
				i = len(out.Seen)
				at[said] = i
				out.Seen = append(out.Seen, workerOf(said))
			}
			out.Seen[i].SeenAt = max(out.Seen[i].SeenAt, seen)
		}
		if r.err != nil {
			return store.Workers{}, r.fault()
		}
	}
	store.SortWorkers(&out)
	return out, nil
}

// workerOf reads what a process said of itself; what can't be read has no name and serves nothing.
func workerOf(said string) store.Worker {
	r := readPacked(said)
	w := store.Worker{Name: r.text()}
	for r.more() {
		deployment, revision, _ := strings.Cut(r.text(), "@")
		w.Revisions = append(w.Revisions, store.Revision{Deployment: deployment, Revision: revision})
	}
	if r.err != nil {
		return store.Worker{}
	}
	return w
}

// figure is a whole number that a script wrote as text.
func (r *reader) figure() int64 {
	n, err := strconv.ParseInt(r.text(), 10, 64)
	if err != nil && r.err == nil {
		r.err = err
	}
	return n
}
