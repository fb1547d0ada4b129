package storetest

import (
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func keyTests() []test {
	return []test{
		{name: "the same key and body lead to the same execution", run: keyReplay},
		{name: "the same key with another body is refused", run: keyReused},
		{name: "an unbound key is not found", run: keyUnbound},
		{name: "a key counts within its owner and deployment", run: keyScope},
		{name: "a replay shows the outcome", run: keyOutcome},
		{name: "a key comes before the ceiling", run: keyBeforeCapacity},
		{name: "a refused submission binds nothing", run: keyRefused},
		{name: "a submission without a key binds nothing", run: keyNone},
	}
}

func (k *kit) keyed(value string) store.Submission {
	s := k.submission()
	s.Key = store.Key{Owner: s.Owner, Deployment: s.Deployment, Value: value, Fingerprint: [32]byte{1}}
	s.ID = k.Store.NewID(s.Key)
	return s
}

func keyReplay(k *kit) {
	first := k.keyed("k")
	c := k.admit(first)
	again := k.keyed("k")
	again.Input = []byte("0")
	want := store.Submitted{Record: store.Record{Control: c, Now: k.now()}, Replayed: true}
	r, err := k.Store.Submit(k.ctx, again)
	k.ok(err)
	k.same("submit", want, r)
	r, err = k.Store.FindKey(k.ctx, first.Key)
	k.ok(err)
	k.same("find", want, r)
	k.gone(again.ID)
	k.same("input", first.Input, k.claim().Input)
}

func keyReused(k *kit) {
	first := k.keyed("k")
	k.admit(first)
	other := k.keyed("k")
	other.Key.Fingerprint = [32]byte{2}
	_, err := k.Store.Submit(k.ctx, other)
	k.refused(err, execution.CodeKeyReused)
	_, err = k.Store.FindKey(k.ctx, other.Key)
	k.refused(err, execution.CodeKeyReused)
	k.gone(other.ID)
	k.same("unfinished", int64(1), k.count().Nonterminal)
}

func keyUnbound(k *kit) {
	_, err := k.Store.FindKey(k.ctx, k.keyed("k").Key)
	k.refused(err, execution.CodeNotFound)
}

func keyScope(k *kit) {
	k.admit(k.keyed("k"))
	owner := k.keyed("k")
	owner.Owner, owner.Key.Owner = "ann", "ann"
	k.admit(owner)
	deployment := k.keyed("k")
	deployment.Deployment, deployment.Key.Deployment = "other", "other"
	k.admit(deployment)
	// Owner and deployment are told apart also where their texts run together.
	for _, split := range [][2]string{{"a", "bc"}, {"ab", "c"}, {"", "abc"}, {"a:b", "c"}, {"a", "b:c"}} {
		s := k.keyed("k")
		s.Owner, s.Key.Owner = split[0], split[0]
		s.Deployment, s.Key.Deployment = split[1], split[1]
		k.admit(s)
	}
	k.admit(k.keyed("other key"))
}

func keyOutcome(k *kit) {
	s := k.keyed("k")
	k.admit(s)
	c := k.claim().Control
	done := k.do(c, execution.Complete{Owned: k.owned(c, event("a")), Result: []byte(`[1.0]`)})
	want := store.Submitted{Replayed: true, Record: store.Record{Control: done, Result: []byte(`[1.0]`),
		ExpiresAt: k.expires(done), Progress: [][]byte{k.rendered(event("a"), 1)}, Now: k.now()}}
	r, err := k.Store.Submit(k.ctx, s)
	k.ok(err)
	k.same("submit", want, r)
	r, err = k.Store.FindKey(k.ctx, s.Key)
	k.ok(err)
	k.same("find", want, r)
}

func keyBeforeCapacity(k *kit) {
	s := k.keyed("k")
	s.MaxNonterminal = 1
	k.admit(s)
	r, err := k.Store.Submit(k.ctx, s)
	k.ok(err)
	k.same("replayed", true, r.Replayed)
	reused := s
	reused.Key.Fingerprint = [32]byte{2}
	_, err = k.Store.Submit(k.ctx, reused)
	k.refused(err, execution.CodeKeyReused)
}

func keyRefused(k *kit) {
	first := k.submit()
	s := k.keyed("k")
	s.MaxNonterminal = 1
	_, err := k.Store.Submit(k.ctx, s)
	k.refused(err, execution.CodeCapacity)
	_, err = k.Store.FindKey(k.ctx, s.Key)
	k.refused(err, execution.CodeNotFound)
	k.cancel(first.ID)
	s.Key.Fingerprint = [32]byte{2}
	k.admit(s)
}

func keyNone(k *kit) {
	k.submit()
	k.submit()
	_, err := k.Store.FindKey(k.ctx, store.Key{Deployment: k.rev.Deployment})
	k.refused(err, execution.CodeNotFound)
}
