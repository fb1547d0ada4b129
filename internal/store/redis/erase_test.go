package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// Nothing of what was erased is left, in whatever status it was, and doctor finds nothing to say.
func TestEraseLeavesNothing(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	all := k.inEveryStatus()
	s := k.submission()
	s.Owner, s.MaxOwned, s.QueueTTL = "ann", 1, time.Hour
	_, err := k.store.Submit(t.Context(), s)
	k.ok(err)
	all["bounded"] = s.ID
	for _, id := range all {
		got, err := k.store.Erase(t.Context(), id, store.Scope{All: true})
		k.ok(err)
		if got.Executions != 1 {
			t.Errorf("erased %+v", got)
		}
	}
	k.nothingIsLeft()
	if r := counts(k.diagnose(redis.Diagnosis{})); len(r) > 0 {
		t.Errorf("doctor found %v", r)
	}
}

// nothingIsLeft holds that no key is there but those that every namespace has.
func (k *kit) nothingIsLeft() {
	k.Helper()
	for _, name := range k.keys(redistest.Keys(k, k.prefix+":{0}:*")) {
		if name != "served" && name != "workers" && name != "lease" && name != "stamp" && !strings.HasPrefix(name, "batch:") {
			k.Errorf("%s is left", name)
		}
	}
}

// What can't be read goes with its owner, whether or not it was found out before; what a newer release has written stays, and is
// told of.
func TestEraseUnreadable(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	long := strings.Repeat("o", 100)
	submit := func(owner string) string {
		s := k.submission()
		s.Owner, s.Labels, s.MaxOwned, s.QueueTTL = owner, "team=search", 1000, time.Hour
		_, err := k.store.Submit(t.Context(), s)
		k.ok(err)
		return s.ID
	}
	listed, unseen, other := submit(long), submit(long), submit("other")
	for _, id := range []string{listed, other} {
		k.field(id, "v", "x")
	}
	if p := k.poll(3); p.Malformed != 2 {
		t.Fatalf("polled %+v", p)
	}
	k.field(unseen, "v", "x")
	_, err := k.store.Erase(t.Context(), unseen, store.Scope{Owner: long})
	k.refused(err, execution.CodeCorrupt)
	want := store.Erased{Executions: 2, Ran: []string{unseen}}
	got, err := k.store.EraseOwner(t.Context(), long)
	k.ok(err)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(store.Erased{}, "Now")); diff != "" {
		t.Errorf("of an owner (-want +got):\n%s", diff)
	}
	_, err = k.store.Erase(t.Context(), other, store.Scope{All: true})
	k.ok(err)
	k.counted("0")
	k.nothingIsLeft()

	for range 120 {
		k.field(submit("a"), "z", "2")
	}
	last := submit("a")
	got, err = k.store.EraseOwner(t.Context(), "a")
	k.ok(err)
	if got.Executions != 1 || got.Kept != 120 || got.More {
		t.Errorf("erased %+v", got)
	}
	if n := redistest.Client(t).Exists(t.Context(), k.key("c:"+last)).Val(); n != 0 {
		t.Error("what could be read is left")
	}
}
