package storetest

import (
	"strings"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

func submitTests() []test {
	return []test{
		{name: "what was submitted is stored as a whole", run: submitStores},
		{name: "a repeat with the same id is a replay", run: submitRepeat},
		{name: "a delay counts from now and is rounded up", run: submitDelay},
		{name: "a start at a time comes then", run: submitRunAt},
		{name: "a start in years comes then", run: submitYears},
		{name: "no start comes early, also where the clock is set back", run: submitBack},
		{name: "options that can't be meant write nothing", run: submitOptions},
		{name: "the input reaches the worker byte for byte", run: submitBytes},
		{name: "another owner's execution looks absent", run: submitOwner},
		{name: "ids are random, short, and name their partition", run: submitIDs},
		{name: "executions without anything optional", run: submitBare},
	}
}

func submitStores(k *kit) {
	s := k.submission()
	s.Owner = "ann"
	s.Labels = execution.Labels("team=search\nz=" + strings.Repeat("é", execution.MaxLabelLength))
	s.Budgets = execution.Budgets{LostLeases: 4, Retries: 5, Claims: 6}
	s.Trace = execution.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "a=" + strings.Repeat("x", 400)}
	r, err := k.Store.Submit(k.ctx, s)
	k.ok(err)
	now := k.now()
	want := store.Record{Now: now, Control: execution.Control{ID: s.ID, Deployment: "story", Revision: "r1", Owner: "ann", Labels: s.Labels,
		Schema: execution.SchemaVersion, Status: execution.Queued, Version: 1, Budgets: s.Budgets, Trace: s.Trace,
		CreatedAt: now.Millis(), UpdatedAt: now.Millis()}}
	k.same("reply", store.Submitted{Record: want}, r)
	k.same("record", want, k.read(s.ID))
	claimed := k.claim().Control
	k.same("labels handed out", s.Labels, claimed.Labels)
	k.same("trace handed out", s.Trace, claimed.Trace)
}

func submitRepeat(k *kit) {
	s := k.submission()
	first := k.admit(s)
	k.Advance(time.Second)
	again, err := k.Store.Submit(k.ctx, s)
	k.ok(err)
	k.same("reply", store.Submitted{Record: store.Record{Control: first, Now: k.now()}, Replayed: true}, again)
	k.same("unfinished", int64(1), k.count().Nonterminal)
}

func submitDelay(k *kit) {
	s := k.submission()
	s.Delay = 1500 * time.Microsecond
	c := k.admit(s)
	k.same("available at", k.now().Millis()+2, c.AvailableAt)
	k.same("claimed early", 0, len(k.poll(k.request(1)).Claimed))
	k.Advance(2 * time.Millisecond)
	k.same("claimed", s.ID, k.claim().Control.ID)
}

func submitRunAt(k *kit) {
	s := k.submission()
	s.RunAt = k.now().Millis() + 1000
	k.same("available at", s.RunAt, k.admit(s).AvailableAt)
	k.Advance(999 * time.Millisecond)
	k.same("next due", s.RunAt, k.poll(k.request(1)).NextDue)
	k.same("claimed early", 0, len(k.poll(k.request(1)).Claimed))
	k.Advance(time.Millisecond)
	k.same("claimed", s.ID, k.claim().Control.ID)

	s = k.submission()
	s.RunAt = k.now().Millis() - 1000
	k.admit(s)
	k.same("claimed at once", s.ID, k.claim().Control.ID)
}

func submitYears(k *kit) {
	s := k.submission()
	s.Delay = execution.MaxDelay
	k.admit(s)
	k.Advance(execution.MaxDelay - time.Millisecond)
	k.same("claimed early", 0, len(k.poll(k.request(1)).Claimed))
	k.Advance(time.Millisecond)
	k.same("claimed", s.ID, k.claim().Control.ID)
}

// Work that fell due, and was left for want of room, falls due once more where the clock is set back.
func submitBack(k *kit) {
	ids := []string{k.prior(0, time.Hour), k.prior(0, time.Hour)}
	k.Advance(time.Hour)
	r := k.request(2)
	r.MaxBytes = 1
	first := k.poll(r).Claimed
	k.same("claimed", 1, len(first))
	id := ids[0]
	if id == first[0].Control.ID {
		id = ids[1]
	}
	due := k.read(id).Control.AvailableAt
	k.Advance(-time.Minute)
	p := k.poll(k.request(1))
	k.same("claimed early", 0, len(p.Claimed))
	k.same("next due", due, p.NextDue)
	k.same("delayed", int64(1), k.count().Delayed)
	k.Advance(time.Minute)
	k.same("claimed", id, k.claim().Control.ID)
}

func submitOptions(k *kit) {
	for name, change := range map[string]func(s *store.Submission){
		"priority":        func(s *store.Submission) { s.Priority = execution.MaxPriority + 1 },
		"below":           func(s *store.Submission) { s.Priority = -1 },
		"delay":           func(s *store.Submission) { s.Delay = execution.MaxDelay + 1 },
		"negative":        func(s *store.Submission) { s.Delay = -1 },
		"run at":          func(s *store.Submission) { s.RunAt = execution.MaxInteger + 1 },
		"delay or run at": func(s *store.Submission) { s.RunAt, s.Delay = 1, 1 },
	} {
		s := k.submission()
		change(&s)
		if _, err := k.Store.Submit(k.ctx, s); !execution.Is(err, execution.CodeInvalidOption) {
			k.Errorf("%s: %v", name, err)
		}
		k.gone(s.ID)
	}
}

func submitBytes(k *kit) {
	s := k.submission()
	input := `[-0,1e400,0.1e1,3889108265204450030,{},[],"\u2028<&>\ud83d\ude00` + "\u2028\x7f" + `"]`
	s.Input = []byte(input)
	k.admit(s)
	clear(s.Input) // the store keeps a copy
	r, err := k.Store.Read(k.ctx, store.ReadRequest{ID: s.ID, Scope: everyone, Input: true})
	k.ok(err)
	k.same("input read", input, string(r.Input))
	k.same("input not asked for", []byte(nil), k.read(s.ID).Input)
	c := k.claim()
	k.same("input", input, string(c.Input))
}

func submitOwner(k *kit) {
	s := k.submission()
	s.Owner = "ann"
	c := k.admit(s)
	for _, scope := range []store.Scope{{Owner: "bob"}, {}} {
		_, err := k.Store.Read(k.ctx, store.ReadRequest{ID: s.ID, Scope: scope, Input: true, LogNewest: true})
		k.refused(err, execution.CodeNotFound)
		_, err = k.Store.Cancel(k.ctx, s.ID, scope, "")
		k.refused(err, execution.CodeNotFound)
		_, err = k.Store.Resume(k.ctx, store.ResumeRequest{ID: s.ID, Scope: scope, Answer: []byte("1")})
		k.refused(err, execution.CodeNotFound)
	}
	r, err := k.Store.Read(k.ctx, store.ReadRequest{ID: s.ID, Scope: store.Scope{Owner: "ann"}})
	k.ok(err)
	k.same("control", c, r.Control)
}

func submitIDs(k *kit) {
	key := store.Key{Deployment: "story", Value: "k"}
	seen := map[string]bool{}
	home, ok := k.Store.PartitionOf(k.Store.NewID(key))
	if !ok {
		k.Fatal("an id has no partition")
	}
	for range 200 {
		id := k.Store.NewID(key)
		p, ok := k.Store.PartitionOf(id)
		if seen[id] || len(id) > 24 || len(id) < 20 || !ok || p != home {
			k.Fatalf("id %q: seen %v, partition %d %v, want %d", id, seen[id], p, ok, home)
		}
		seen[id] = true
		p, ok = k.Store.PartitionOf(k.Store.NewID(store.Key{}))
		if !ok || p < 0 || p >= k.Store.Partitions() {
			k.Fatalf("an id without a key has partition %d, %v of %d", p, ok, k.Store.Partitions())
		}
	}
	for _, text := range []string{"", "-", "no such id", "../../etc/passwd", "\x00"} {
		if _, ok := k.Store.PartitionOf(text); ok {
			k.Errorf("%q is taken for an id", text)
		}
	}
}

// An owner, a reason, a checkpoint and an answer are all left out; none of them comes back as an empty value.
func submitBare(k *kit) {
	c := k.start()
	r, err := k.Store.Cancel(k.ctx, c.ID, everyone, "")
	k.ok(err)
	want := k.expected(c, execution.Cancel{}, k.now())
	k.shows("record", store.Record{Control: want, Now: k.now()}, r)
	done := k.do(want, execution.Release{Owned: k.owned(c)})
	k.same("status", execution.Canceled, done.Status)
	k.shows("record", store.Record{Control: done, Now: k.now()}, k.read(c.ID))
}
