package memory

import (
	"context"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// bindingKey is what an idempotency key is unique within.
type bindingKey struct{ owner, deployment, value string }

// binding lives as long as its execution.
type binding struct {
	id          string
	fingerprint [32]byte
}

func bindingKeyOf(k store.Key) bindingKey { return bindingKey{k.Owner, k.Deployment, k.Value} }

// Submit implements [store.Store].
func (s *Store) Submit(ctx context.Context, sub store.Submission) (store.Submitted, error) {
	if err := s.ready(ctx); err != nil {
		return store.Submitted{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	if it, err := s.bound(sub.Key); it != nil || err != nil {
		return s.replay(it, now), err
	}
	if it := s.items[sub.ID]; it != nil {
		return s.replay(it, now), nil
	}
	if n := sub.MaxNonterminal; n > 0 && s.index.nonterminal[sub.Deployment] >= n {
		return store.Submitted{}, store.Full(n)
	}
	if n := sub.MaxOwned; n > 0 && sub.Owner != "" && s.index.owned[sub.Owner] >= n {
		return store.Submitted{}, store.OwnerFull(n)
	}
	p, err := execution.Decide(execution.Control{}, sub.Submit, now)
	if err != nil {
		return store.Submitted{}, err
	}
	return store.Submitted{Record: s.record(s.admit(sub, p, now), now)}, nil
}

func (s *Store) admit(sub store.Submission, p execution.Plan, now execution.Instant) *item {
	it := &item{
		control:  execution.Control{ID: sub.ID},
		history:  execution.History{Submitter: p.Actor},
		payloads: map[execution.PayloadKind][]byte{},
		answers:  map[string][32]byte{},
	}
	s.items[sub.ID] = it
	if sub.Key.Value != "" {
		it.key = bindingKeyOf(sub.Key)
		s.bindings[it.key] = binding{sub.ID, sub.Key.Fingerprint}
	}
	s.commit(it, p, now)
	if sub.MaxOwned > 0 && sub.Owner != "" {
		it.owned = true
		s.index.owned[sub.Owner]++
	}
	return it
}

// disown gives the place of an execution that ended, or is erased, back to its owner.
func (s *Store) disown(it *item) {
	owner := it.control.Owner
	if !it.owned {
		return
	}
	it.owned = false
	if s.index.owned[owner]--; s.index.owned[owner] == 0 {
		delete(s.index.owned, owner)
	}
}

// FindKey implements [store.Store].
func (s *Store) FindKey(ctx context.Context, key store.Key) (store.Submitted, error) {
	if err := s.ready(ctx); err != nil {
		return store.Submitted{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	it, err := s.bound(key)
	if it == nil && err == nil {
		err = errNotFound()
	}
	return s.replay(it, s.clock()), err
}

// bound returns the execution that the key is bound to, nil if there is none, and an error if it is bound to another body.
func (s *Store) bound(key store.Key) (*item, error) {
	b, ok := s.bindings[bindingKeyOf(key)]
	switch {
	case !ok:
		return nil, nil
	case b.fingerprint != key.Fingerprint:
		return nil, errKeyReused()
	}
	return s.items[b.id], nil
}

func errKeyReused() error {
	return execution.Errorf(execution.CodeKeyReused, "the idempotency key was used with another body")
}

func (s *Store) replay(it *item, now execution.Instant) store.Submitted {
	if it == nil {
		return store.Submitted{}
	}
	return store.Submitted{Record: s.record(it, now), Replayed: true}
}

// remove erases an ended execution with its binding and its places in the indexes.
func (s *Store) remove(it *item) {
	s.index.leave(it.control)
	s.index.shelf.drop(it.control)
	s.disown(it)
	if it.key != (bindingKey{}) {
		delete(s.bindings, it.key)
	}
	delete(s.items, it.control.ID)
}
