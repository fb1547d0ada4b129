package redis

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// moreTries is how many other partitions a submission without a key tries before it is refused for capacity.
const moreTries = 3

// Submit implements [store.Store].
func (s *Store) Submit(ctx context.Context, sub store.Submission) (store.Submitted, error) {
	home, ok := s.PartitionOf(sub.ID)
	switch {
	case !ok:
		return store.Submitted{}, execution.Errorf(execution.CodeInvalidInput, "the id is not one that this store made")
	case sub.Key.Value != "" && home != partitionOfKey(sub.Key, s.config.Partitions):
		return store.Submitted{}, execution.Errorf(execution.CodeInvalidInput, "the id was not made for the idempotency key")
	case sub.Deployment == "" || strings.Contains(sub.Deployment, "@"):
		return store.Submitted{}, execution.Errorf(execution.CodeInvalidInput, "the name of the deployment is empty or has an @")
	case sub.Revision == "":
		return store.Submitted{}, execution.Errorf(execution.CodeInvalidInput, "the revision is empty")
	}
	if sub.Key.Value != "" || s.config.Partitions == 1 {
		return s.submit(ctx, home, sub)
	}
	return s.submitAnywhere(ctx, home, sub)
}

// submitAnywhere tries the partition of the id, then others, whose ids differ in their first character. Where a try has an
// unknown outcome, a repeat stays there: that try may yet be admitted, however late, also after the repeat was refused, and one
// submission never stands in two partitions (invariant 1).
func (s *Store) submitAnywhere(ctx context.Context, home int, sub store.Submission) (store.Submitted, error) {
	n := s.config.Partitions
	var last error
	id := sub.ID
	first, doubt := s.moved.begin(id)
	for try := first; try <= min(moreTries, n-1); try++ {
		p := (home + try*step(id, n)) % n
		sub.ID = alphabet[p:p+1] + id[1:]
		out, err := s.submit(ctx, p, sub)
		var e *execution.Error
		switch {
		case err == nil:
			s.moved.forget(id)
			return out, nil
		case execution.Unknown(err) && !(errors.As(err, &e) && e.Unchanged):
			s.moved.remember(id, try)
			return out, err
		case !execution.NoRoom(err):
			return out, err
		case doubt:
			return out, &execution.Error{Code: execution.CodeUnavailable, Err: err,
				Message: "an earlier try of the submission may yet be admitted where there is no room now"}
		}
		last = err
	}
	s.moved.forget(id)
	return store.Submitted{}, last
}

// step spreads the tries of an id over the partitions. It has no divisor in common with n, so that no try repeats one.
func step(id string, n int) int {
	candidates := make([]int, 0, n)
	for i := 1; i < n; i++ {
		if gcd(i, n) == 1 {
			candidates = append(candidates, i)
		}
	}
	return candidates[int(id[1])%len(candidates)]
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (s *Store) submit(ctx context.Context, partition int, sub store.Submission) (store.Submitted, error) {
	p, err := execution.Decide(execution.Control{}, sub.Submit, 0)
	if err != nil {
		return store.Submitted{}, err
	}
	digest := ""
	if sub.Key.Value != "" {
		d := keyDigest(sub.Key)
		digest = string(d[:])
	}
	most := int64(0)
	if sub.Owner != "" {
		most = share(sub.MaxOwned, partition, s.config.Partitions)
	}
	pack := func(head *packer, _ int) {
		size := 5
		if most > 0 {
			size = 6
		}
		head.array(size).text(sub.ID).text(digest).text(string(sub.Key.Fingerprint[:]))
		head.number(share(sub.MaxNonterminal, partition, s.config.Partitions)).plan(p)
		if most > 0 {
			head.number(most)
		}
	}
	r := s.shared(ctx, s.submitting[partition], pack, s.data(p))
	if r.err != nil {
		return store.Submitted{}, r.err
	}
	out, err := decodeSubmitted(r.value)
	if err == nil && !out.Replayed {
		out.Record.Control = p.Apply(execution.Control{ID: sub.ID}, out.Record.Now)
	}
	return acknowledged(r, out, fullError(err, sub))
}

// fullError adds the ceiling, which the reply does not repeat.
func fullError(err error, sub store.Submission) error {
	switch execution.CodeOf(err) {
	case execution.CodeCapacity:
		return store.Full(sub.MaxNonterminal)
	case execution.CodeOwnerCapacity:
		return store.OwnerFull(sub.MaxOwned)
	}
	return err
}

// decodeSubmitted leaves the control of an execution that was created to the caller, who knows it.
func decodeSubmitted(v any) (store.Submitted, error) {
	r := read(v)
	outcome, now := r.text(), r.instant()
	var out store.Submitted
	switch outcome {
	case "created":
		out.Record.Now = now
	case "found":
		out = store.Submitted{Record: r.record(now), Replayed: true}
	case "full":
		return out, execution.Errorf(execution.CodeCapacity, "")
	case "crowded":
		return out, execution.Errorf(execution.CodeOwnerCapacity, "")
	default:
		if err := r.fault(); err != nil {
			return out, err
		}
		return out, refused(outcome)
	}
	return out, r.fault()
}

// FindKey implements [store.Store].
func (s *Store) FindKey(ctx context.Context, key store.Key) (store.Submitted, error) {
	digest := keyDigest(key)
	r := s.change(ctx, s.scripts.find, partitionOfKey(key, s.config.Partitions), digest[:], key.Fingerprint[:])
	if r.err != nil {
		return store.Submitted{}, r.err
	}
	out, err := decodeSubmitted(r.value)
	return acknowledged(r, out, err)
}

// overflow remembers at which try a submission had an unknown outcome, for its repeat.
type overflow struct {
	mu    sync.Mutex // guards the following
	tries map[string]int
}

// maxOverflow bounds what is remembered. Repeats follow at once or not at all.
const maxOverflow = 10_000

func newOverflow() *overflow { return &overflow{tries: map[string]int{}} }

// begin tells where to go on, and whether a try there has an unknown outcome.
func (o *overflow) begin(id string) (try int, doubt bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	try, doubt = o.tries[id]
	return try, doubt
}

func (o *overflow) remember(id string, try int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.tries) >= maxOverflow {
		clear(o.tries)
	}
	o.tries[id] = try
}

func (o *overflow) forget(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.tries, id)
}
