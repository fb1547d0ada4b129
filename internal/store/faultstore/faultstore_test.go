package faultstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/faultstore"
	"github.com/windrow-run/windrow/internal/store/memory"
	"github.com/windrow-run/windrow/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Without faults it is the store that it wraps.
func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB, limits store.Limits) storetest.Env {
		start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		clock := &clock{now: execution.InstantOf(start)}
		s := faultstore.New(memory.New(memory.Config{Limits: limits, Clock: clock.read}))
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return storetest.Env{Store: s, Advance: clock.advance}
	})
}

func submission(s store.Store) store.Submission {
	return store.Submission{Submit: execution.Submit{ID: s.NewID(store.Key{}), Deployment: "d", Revision: "r",
		Budgets: execution.DefaultBudgets(), Input: []byte("1")}}
}

func stored(t *testing.T, s store.Store, id string) bool {
	t.Helper()
	_, err := s.Read(t.Context(), store.ReadRequest{ID: id, Scope: store.Scope{All: true}})
	if err != nil && !execution.Is(err, execution.CodeNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

func TestFailures(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		fault   faultstore.Fault
		applied bool
	}{
		{"before it was applied", faultstore.Fault{Before: true}, false},
		{"after it was applied", faultstore.Fault{After: true}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := faultstore.New(memory.New(memory.Config{}))
			test.fault.Times = 2
			s.Inject(faultstore.Submit, test.fault)
			for range 2 {
				sub := submission(s)
				if _, err := s.Submit(t.Context(), sub); !execution.Is(err, execution.CodeUnavailable) {
					t.Fatalf("submit: %v", err)
				}
				if got := stored(t, s, sub.ID); got != test.applied {
					t.Errorf("applied: %v", got)
				}
			}
			if _, err := s.Submit(t.Context(), submission(s)); err != nil {
				t.Errorf("after its times: %v", err)
			}
			if diff := cmp.Diff([]int{3, 2, 0}, []int{s.Calls(faultstore.Submit), s.Calls(faultstore.Read), s.Calls(faultstore.Poll)}); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCutAndHeal(t *testing.T) {
	t.Parallel()
	s := faultstore.New(memory.New(memory.Config{}))
	tail, err := s.Tail(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Cut()
	calls := map[string]func() error{
		"check":  func() error { return s.Check(t.Context()) },
		"counts": func() error { _, err := s.Counts(t.Context()); return err },
		"read":   func() error { _, err := tail.Read(t.Context(), nil, 0); return err },
		"transition": func() error {
			_, err := s.Transition(t.Context(), execution.Control{}, execution.Release{})
			return err
		},
	}
	for name, call := range calls {
		if err := call(); !execution.Is(err, execution.CodeUnavailable) {
			t.Errorf("%s while cut: %v", name, err)
		}
	}
	s.Heal()
	for name, call := range calls {
		if err := call(); execution.Is(err, execution.CodeUnavailable) {
			t.Errorf("%s when healed: %v", name, err)
		}
	}
}

// A fault of one command leaves the others alone.
func TestCommand(t *testing.T) {
	t.Parallel()
	s := faultstore.New(memory.New(memory.Config{}))
	s.Inject(faultstore.Transition, faultstore.Fault{Command: "complete", Times: 1, Before: true})
	_, err := s.Transition(t.Context(), execution.Control{}, execution.Release{})
	if !execution.Is(err, execution.CodeLeaseLost) {
		t.Errorf("release: %v", err)
	}
	_, err = s.Transition(t.Context(), execution.Control{}, execution.Complete{})
	if !execution.Is(err, execution.CodeUnavailable) {
		t.Errorf("complete: %v", err)
	}
	_, err = s.Transition(t.Context(), execution.Control{}, execution.Complete{})
	if !execution.Is(err, execution.CodeLeaseLost) {
		t.Errorf("complete again: %v", err)
	}
}

func TestHangAndDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := faultstore.New(memory.New(memory.Config{}))
		release := make(chan struct{})
		s.Inject(faultstore.Check, faultstore.Fault{Hang: release})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := s.Check(ctx); !execution.Is(err, execution.CodeUnavailable) || time.Since(began) != time.Minute {
			t.Errorf("given up after %v: %v", time.Since(began), err)
		}
		done := make(chan error)
		go func() { done <- s.Check(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("did not hang: %v", err)
		default:
		}
		close(release)
		if err := <-done; err != nil {
			t.Errorf("released: %v", err)
		}
		s.Heal()
		s.Inject(faultstore.Check, faultstore.Fault{Delay: time.Second})
		began = time.Now()
		if err := s.Check(t.Context()); err != nil || time.Since(began) != time.Second {
			t.Errorf("slow by %v: %v", time.Since(began), err)
		}
	})
}
