//go:build !race

package redis

// Allocations between a socket and package execution. The race detector changes them, so they are held without it.

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

const claimsDecoded = 10

// hotPath is something that happens for every execution, and how many allocations it may cost.
type hotPath struct {
	name string
	most float64
	run  func(t testing.TB)
}

func hotPaths(t testing.TB) []hotPath {
	s := &Store{history: newHistories(store.Limits{}.WithDefaults())}
	rd, err := newRound(store.PollRequest{Worker: "worker", Token: "token", Revisions: []store.Want{{
		Revision: store.Revision{Deployment: "story", Revision: "r1"}, Count: claimsDecoded, Lease: 30 * time.Second}}})
	if err != nil {
		t.Fatal(err)
	}
	rd.left = make([][]int, 1)
	reply := claimReply()
	plan, err := execution.Decide(execution.Control{ID: "x", Status: execution.Running, Version: 3, Worker: "worker", Token: "token", Fence: 7,
		Attempt: 1, Budgets: execution.DefaultBudgets(), LeaseUntil: 1 << 50}, execution.Complete{
		Owned:  execution.Owned{Ownership: execution.Ownership{Worker: "worker", Token: "token", Fence: 7}, Operation: "op"},
		Result: []byte("{}")}, 0)
	if err != nil {
		t.Fatal(err)
	}
	control := packedControl("16sNyGkE1XiZA6h8suyTgfs")
	return []hotPath{
		{"decode a control", 0, func(t testing.TB) {
			if c, err := decodeControl(control); err != nil || c.Deployment != "story" {
				t.Fatal(c, err)
			}
		}},
		{"decode ten claims", 43, func(t testing.TB) {
			rd.counts[0], rd.left[0] = claimsDecoded, nil
			var out store.Polled
			if err := s.polled(rd, 0, reply, &out); err != nil || len(out.Claimed) != claimsDecoded || out.Claimed[9].Control.Attempt != 1 {
				t.Fatal(err, len(out.Claimed))
			}
		}},
		{"pack a poll", 1, func(t testing.TB) {
			if len(rd.pack(0, 1, false)) == 0 {
				t.Fatal("it is empty")
			}
		}},
		{"pack a transition", 11, func(t testing.TB) {
			var p packer
			packApply("x", plan)(p.array(3), 2)
			if len(p.bytes()) == 0 || len(s.data(plan)) != 1 {
				t.Fatal("it is empty")
			}
		}},
	}
}

// packedControl is a queued execution as lua/poll.lua hands it out.
func packedControl(id string) string {
	fields := []string{"id", id, "s", "q", "z", "1", "d", "story", "r", "r1", "v", "1", "bl", "5", "bn", "5", "bc", "100", "b", "1700000000000",
		"u", "1700000000000", "%", "+"}
	var p packer
	return string(p.texts(fields).bytes())
}

func claimReply() any {
	var head, left packer
	head.array(7).number(1_700_000_000_000_000).number(0).number(0)
	head.out = append(head.out, left.array(0).bytes()...)
	head.number(30_000).number(0).number(0)
	reply := []any{string(head.bytes())}
	for i := range claimsDecoded {
		id := strconv.Itoa(i) + strings.Repeat("x", 20)
		reply = append(reply, []any{packedControl(id), `{"topic":"rain"}`, nil, nil, int64(2)})
	}
	return reply
}

func TestBudgetHotPaths(t *testing.T) {
	for _, p := range hotPaths(t) {
		if got := testing.AllocsPerRun(200, func() { p.run(t) }); got > p.most {
			t.Errorf("%s: %.0f allocations, at most %.0f", p.name, got, p.most)
		}
	}
}

func BenchmarkHotPaths(b *testing.B) {
	for _, p := range hotPaths(b) {
		b.Run(p.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.run(b)
			}
		})
	}
}
