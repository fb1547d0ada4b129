package redis

import (
	"context"
	"slices"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// List implements [store.Store]. Partitions are asked together, and again where they hold the page back: a page shows nothing
// that is older than what a partition has not been asked for yet.
func (s *Store) List(ctx context.Context, r store.ListRequest) (store.Listed, error) {
	shelves := make([]*shelf, s.config.Partitions)
	for p := range shelves {
		shelves[p] = &shelf{partition: p, at: r.Start()}
	}
	out := store.Listed{}
	left := r.Look(len(shelves))
	for {
		asked := behind(shelves, r.Limit)
		if len(asked) == 0 || left < len(asked) {
			break
		}
		looked, err := s.look(ctx, r, asked, left/len(asked), &out)
		if err != nil {
			return store.Listed{}, err
		}
		left -= looked
		out.Looked += looked
	}
	out.Executions, out.Next = pageOf(shelves, r.Limit)
	return out, nil
}

// shelf is what a partition has shown so far.
type shelf struct {
	partition int
	at        store.Place // what comes before, or stands there, was looked at
	ended     bool        // there is nothing behind
	found     []execution.Control
}

// behind are the partitions that hold a page back: what they have not shown may belong on it.
func behind(shelves []*shelf, limit int) []*shelf {
	all := found(shelves)
	var out []*shelf
	for _, sh := range shelves {
		if !sh.ended && (len(all) < limit || sh.at.Older(store.PlaceOf(all[limit-1])) < 0) {
			out = append(out, sh)
		}
	}
	return out
}

// found is what all partitions have shown, the newest first.
func found(shelves []*shelf) []execution.Control {
	var all []execution.Control
	for _, sh := range shelves {
		all = append(all, sh.found...)
	}
	slices.SortFunc(all, func(a, b execution.Control) int { return store.PlaceOf(a).Older(store.PlaceOf(b)) })
	return all
}

// pageOf is what can be shown, and where the next one begins.
func pageOf(shelves []*shelf, limit int) ([]execution.Control, store.Place) {
	all := found(shelves)
	edge, open := store.Place{}, false
	for _, sh := range shelves {
		if !sh.ended && (!open || sh.at.Older(edge) < 0) {
			edge, open = sh.at, true
		}
	}
	n := min(len(all), limit)
	for open && n > 0 && store.PlaceOf(all[n-1]).Older(edge) > 0 {
		n--
	}
	switch {
	case n == limit && (open || n < len(all)):
		return all[:n], store.PlaceOf(all[n-1])
	case open:
		return all[:n], edge.Hidden()
	}
	return all[:n], store.Place{}
}

// look asks partitions to look at some more of their members.
func (s *Store) look(ctx context.Context, r store.ListRequest, asked []*shelf, most int, out *store.Listed) (looked int, err error) {
	most = min(most, bound)
	// A few more than its part: partitions are never quite even.
	wanted := min(r.Limit/len(asked)+1+min(3, len(asked)-1), bound)
	calls := make([]call, len(asked))
	for i, sh := range asked {
		calls[i] = call{script: s.scripts.list, anchor: s.keys.anchor(sh.partition), args: []any{packList(r, sh.at, most, wanted)}}
	}
	for i, rep := range s.exchange(ctx, calls...) {
		if rep.err != nil {
			return 0, rep.err
		}
		got := readPacked(rep.value)
		sh := asked[i]
		out.Now = max(out.Now, got.instant())
		looked += int(got.number())
		sh.ended = got.flag()
		sh.at = store.Place{CreatedAt: got.number(), ID: got.text()}
		for list := got.list(); list.more(); {
			sh.found = append(sh.found, list.control())
			got.failed(list)
		}
		if err := got.fault(); err != nil {
			return 0, err
		}
	}
	return looked, nil
}

func packList(r store.ListRequest, at store.Place, most, wanted int) []byte {
	var head packer
	head.array(12).texts(listIndexes(r)).number(at.CreatedAt).text(at.ID).number(r.CreatedFrom).number(int64(most)).number(int64(wanted))
	head.flag(r.Scope.All).text(r.Scope.Owner).texts(r.Deployments).text(r.Revision)
	codes := make([]string, len(r.Statuses))
	for i, status := range r.Statuses {
		codes[i] = status.Code()
	}
	return head.texts(codes).texts(r.Labels).bytes()
}

// listIndexes are those in which all that passes the filters stands.
func listIndexes(r store.ListRequest) []string {
	out := []string{"all"}
	if len(r.Deployments) == 1 {
		out = append(out, "of:"+r.Deployments[0])
	}
	if !r.Scope.All && r.Scope.Owner != "" {
		out = append(out, "owner:"+r.Scope.Owner)
	}
	for _, label := range r.Labels {
		out = append(out, "label:"+label)
	}
	if len(r.Statuses) == 1 && slices.Contains([]execution.Status{execution.Waiting, execution.Failed, execution.Canceled}, r.Statuses[0]) {
		out = append(out, "status:"+r.Statuses[0].Code())
	}
	return out
}
