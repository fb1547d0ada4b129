package redis_test

import (
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// BenchmarkLife is the whole of an execution that does nothing: submitted, claimed ten at a time, completed.
func BenchmarkLife(b *testing.B) {
	s, err := redis.New(redis.Config{URL: redistest.URL(b), Prefix: redistest.Prefix(b)})
	if err != nil {
		b.Fatal(err)
	}
	defer closeStore(b, s)
	if err := s.Open(b.Context()); err != nil {
		b.Fatal(err)
	}
	rev := store.Revision{Deployment: "noop", Revision: "r1"}
	var tokens atomic.Int64
	b.SetParallelism(8)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for n := 0; pb.Next(); n++ {
			sub := store.Submission{Submit: execution.Submit{ID: s.NewID(store.Key{}), Deployment: rev.Deployment, Revision: rev.Revision,
				Budgets: execution.DefaultBudgets(), Input: []byte(`{}`)}, MaxNonterminal: 1 << 40}
			if _, err := s.Submit(b.Context(), sub); err != nil {
				b.Error(err)
				return
			}
			if n%10 != 9 {
				continue
			}
			p, err := s.Poll(b.Context(), store.PollRequest{Worker: "w", Token: strconv.FormatInt(tokens.Add(1), 10),
				Revisions: []store.Want{{Revision: rev, Count: 10, Lease: lease}}})
			if err != nil {
				b.Error(err)
				return
			}
			for _, c := range p.Claimed {
				o := execution.Owned{Ownership: owner(c.Control), Operation: strconv.FormatInt(tokens.Add(1), 10)}
				if _, err := s.Transition(b.Context(), c.Control, execution.Complete{Owned: o, Result: []byte(`{}`)}); err != nil {
					b.Error(err)
					return
				}
			}
		}
	})
}
