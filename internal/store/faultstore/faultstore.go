// Package faultstore wraps a store so that a test can make chosen calls fail before or after they were applied, hang, or be
// slow. Only tests import it.
package faultstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// Method names a method of a store or, for TailRead, of a tail.
type Method string

// The methods that can be made to fail.
const (
	Submit     Method = "Submit"
	FindKey    Method = "FindKey"
	Poll       Method = "Poll"
	Transition Method = "Transition"
	Beat       Method = "Beat"
	Resume     Method = "Resume"
	Cancel     Method = "Cancel"
	Maintain   Method = "Maintain"
	Displace   Method = "Displace"
	Erase      Method = "Erase"
	EraseOwner Method = "EraseOwner"
	Read       Method = "Read"
	List       Method = "List"
	Controls   Method = "Controls"
	Tail       Method = "Tail"
	TailRead   Method = "Tail.Read"
	Listen     Method = "Listen"
	Counts     Method = "Counts"
	Workers    Method = "Workers"
	Check      Method = "Check"
)

// Fault is what happens to a call. The zero Fault is an ordinary call.
type Fault struct {
	// Command, where it is not empty, limits the fault to transitions by the command of that name.
	Command string
	// Times bounds how many calls are affected; 0: all, until Heal.
	Times int
	// Delay passes before the call, unless its context ends first.
	Delay time.Duration
	// Hang, where it is not nil, holds the call before it is applied, until the channel is closed or the context ends.
	Hang <-chan struct{}
	// Before fails the call before it is applied; After when it was, so that its reply is lost. The caller gets
	// CodeUnavailable in both cases.
	Before, After bool
}

// Store is a [store.Store] with faults. The methods that only compute (NewID, Partitions, PartitionOf) and Close are the
// wrapped store's.
type Store struct {
	store.Store

	mu     sync.Mutex // guards the following
	faults map[Method][]*Fault
	calls  map[Method]int
}

var _ store.Store = (*Store)(nil)

// New wraps a store, without any fault.
func New(s store.Store) *Store {
	return &Store{Store: s, faults: map[Method][]*Fault{}, calls: map[Method]int{}}
}

// Inject plans a fault for calls of the method that begin from now on. Of several, the first that still applies counts.
func (s *Store) Inject(m Method, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[m] = append(s.faults[m], &f)
}

// Cut makes every method fail before it is applied, as when the store is out of reach, until Heal.
func (s *Store) Cut() {
	for _, m := range []Method{Submit, FindKey, Poll, Transition, Beat, Resume, Cancel, Maintain, Displace, Erase, EraseOwner, Read, List, Controls, Tail, TailRead,
		Listen, Counts, Workers, Check} {
		s.Inject(m, Fault{Before: true})
	}
}

// Heal forgets all faults. A call that hangs goes on hanging until its channel is closed.
func (s *Store) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.faults)
}

// Calls is how many calls of the method began so far, those that failed included.
func (s *Store) Calls(m Method) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[m]
}

// next counts a call and takes the fault that is due for it.
func (s *Store) next(m Method, command string) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[m]++
	for i, f := range s.faults[m] {
		if f.Command != "" && f.Command != command {
			continue
		}
		if f.Times--; f.Times == 0 {
			s.faults[m] = append(s.faults[m][:i:i], s.faults[m][i+1:]...)
		}
		return *f
	}
	return Fault{}
}

// call carries out one call with its fault.
func call[T any](ctx context.Context, f Fault, apply func() (T, error)) (T, error) {
	var none T
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		if err := await(ctx, timer.C); err != nil {
			return none, err
		}
	}
	if f.Hang != nil {
		if err := await(ctx, f.Hang); err != nil {
			return none, err
		}
	}
	if f.Before {
		return none, unavailable(errors.New("injected before the call"))
	}
	out, err := apply()
	if f.After {
		return none, unavailable(errors.New("injected after the call"))
	}
	return out, err
}

// run is call for a method that returns an error only.
func run(ctx context.Context, f Fault, apply func() error) error {
	_, err := call(ctx, f, func() (struct{}, error) { return struct{}{}, apply() })
	return err
}

func await[T any](ctx context.Context, c <-chan T) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
}

func unavailable(err error) error {
	return &execution.Error{Code: execution.CodeUnavailable, Message: "the store did not answer", Err: err}
}
