package storetest

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/windrow-run/windrow/internal/execution"
)

const (
	// checking bounds the search for an order of one history. It takes milliseconds; what takes longer fails.
	checking = 30 * time.Second
	// hunting is how long a planted fault may hide, and searching how long one of its histories may be searched.
	hunting, searching = time.Minute, 5 * time.Second
)

// Linearizable lets clients work at once on one execution, and on one idempotency key, records what each of them asked and
// was told, and has porcupine find an order of each history in which every answer is the one that [execution.Decide] gives:
// an order that no two clients who did not overlap can tell from what they saw. The store's clock is part of the history.
//
// Every kind of history is recorded as it is, and with requests and replies lost: a call without an answer takes effect once,
// at any later time, or never, and one that is repeated until it is answered takes effect once at most (invariant 11).
//
// Advance of the factory's Env is called by one client at a time, while others use the store.
//
// The test runs few histories, and a thousand of each kind (two hundred of a key) where WINDROW_RELIABILITY is "long".
// A seed fixes what clients choose to do, but not in which order they get to do it.
func Linearizable(t *testing.T, f Factory) {
	themes := []struct {
		name   string
		play   player
		losses bool
		short  int
		long   int
	}{
		{"execution", playLife, false, 75, 1000},
		{"execution with losses", playLife, true, 75, 1000},
		{"key", playKey, false, 15, 200},
		{"key with losses", playKey, true, 15, 200},
	}
	for _, theme := range themes {
		t.Run(theme.name, func(t *testing.T) {
			t.Parallel()
			var s summary
			t.Cleanup(func() { t.Log(&s) })
			for seed := range uint64(rounds(theme.short, theme.long)) {
				t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
					t.Parallel()
					h := theme.play(t, f, seed, theme.losses)
					s.add(h)
					if result := h.check(checking); result != porcupine.Ok {
						t.Errorf("seed %d: linearizable: %s; the history is drawn in %s (kept with -artifacts)", seed, result, h.draw(t))
					}
				})
			}
		})
	}
}

// Refuted fails unless a history that is not linearizable is found within a minute: that is what a store with a planted
// fault must come to.
func Refuted(t *testing.T, f Factory) {
	refuted(t, f, playLife)
}

// RefutedKeys is [Refuted] for histories of an idempotency key.
func RefutedKeys(t *testing.T, f Factory) {
	refuted(t, f, playKey)
}

func refuted(t *testing.T, f Factory, play player) {
	t.Helper()
	began := time.Now()
	for seed := uint64(0); time.Since(began) < hunting; seed++ {
		found := false
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			found = play(t, f, seed, seed%2 == 1).check(searching) == porcupine.Illegal
		})
		if found {
			t.Logf("figures: found after %d histories, %v", seed+1, time.Since(began).Round(time.Millisecond))
			return
		}
	}
	t.Errorf("every history within %v is linearizable", hunting)
}

// rounds is how many histories a test runs.
func rounds(short, long int) int {
	if os.Getenv("WINDROW_RELIABILITY") == "long" {
		return long
	}
	return short
}

// player records one history.
type player func(t *testing.T, f Factory, seed uint64, losses bool) *history

// choices of one client, or of the whole history where there is none.
func dice(seed, client uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, client)) }

// request is an operation as the sequential specification knows it: what it makes of a state of type S, and what it answers.
type request[S any] interface {
	step(s S) (S, told)
}

// reluctant is a request that may do nothing where the specification says that it does something.
type reluctant interface {
	declined(got told) bool
}

// told is everything that the answer to a request says. Which fields count depends on the request.
type told struct {
	outcome  outcome
	code     execution.Code
	control  execution.Control
	payloads payloads
	progress int64
	flag     bool
	did      string
	now      execution.Instant
}

// outcome says what a client knows of its request.
type outcome uint8

const (
	// answered: all of it.
	answered outcome = iota
	// lost: nothing. It takes effect once, at any later time, or never.
	lost
	// retried: nothing, but a repeat of it was answered, so that it takes effect before that answer, or never.
	retried
)

// end is the last request of every history. A lost request that never takes effect stands after it, and only there, which
// spares the search all other places.
type end struct{}

// stage is a state of the specification, before and after the end of a history.
type stage[S comparable] struct {
	state S
	ended bool
}

// judge is one step of the specification: whether the request can be answered so in that state, and the next state.
func judge[S comparable](at stage[S], in any, got told) (bool, stage[S]) {
	if _, ok := in.(end); ok {
		return true, stage[S]{at.state, true}
	}
	next, want := in.(request[S]).step(at.state)
	switch got.outcome {
	case lost:
		if at.ended {
			return true, at
		}
		return next != at.state, stage[S]{state: next}
	case retried:
		return true, stage[S]{state: next}
	}
	if r, ok := in.(reluctant); ok && r.declined(got) {
		return true, at
	}
	return want == got, stage[S]{state: next}
}

// specification is the model of a history that begins with the state.
func specification[S comparable](initial S) porcupine.Model {
	seed := maphash.MakeSeed()
	return porcupine.Model{
		Init: func() any { return stage[S]{state: initial} },
		Step: func(state, input, output any) (bool, any) {
			ok, next := judge(state.(stage[S]), input, output.(told))
			return ok, next
		},
		Hash:              func(state any) uint64 { return maphash.Comparable(seed, state.(stage[S])) },
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%T%+v -> %v", input, input, output) },
		DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
	}
}

// String shows what is not zero.
func (a told) String() string {
	if a.outcome != answered {
		return [...]string{lost: "lost", retried: "lost, then repeated"}[a.outcome]
	}
	c := a.control
	s := fmt.Sprintf("%s %s v%d f%d a%d", a.code, c.Status, c.Version, c.Fence, c.Attempt)
	return fmt.Sprintf("%s until %d canceled %d %s %v %s at %d", s, c.LeaseUntil, c.CanceledAt, c.Operation, a.flag, a.did, a.now)
}

// check searches for an order.
func (h *history) check(limit time.Duration) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(h.model, h.operations, limit)
}

// draw writes what porcupine found out about the history into a page for a browser.
func (h *history) draw(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.ArtifactDir(), "history.html")
	_, info := porcupine.CheckOperationsVerbose(h.model, h.operations, searching)
	if err := porcupine.VisualizePath(h.model, info, path); err != nil {
		t.Error(err)
	}
	return path
}
