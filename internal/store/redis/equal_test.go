package redis

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
)

// equalScript changes a stored control by a plan and returns what becomes of it, and what goes into its log.
const equalScript = `
local id, packed = unpack(cmsgpack.unpack(ARGV[1]))
local p = plan(packed, 2)
local c, why = load(id)
if not c then return {why} end
local n = applied(c, p.changes, p.status)
if not n then return {'range'} end
local list = entries(c, n, events_of(p), wait_of(p))
save(c, n)
local stored, again = load(id), {}
for i, e in ipairs(list) do again[i] = {e[1], e[2]} end
return {'ok', us, record(n), stored and record(stored) or '', again}`

// TestLuaEqualsGo holds the scripts' reading and changing of controls, and what they write into the log, against the domain:
// many random controls, each with a random plan.
func TestLuaEqualsGo(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Client(t), redistest.Prefix(t)
	ctx := t.Context()
	const clock = "local function clock() return 1796037437318123, 1796037437318 end"
	limits := store.Limits{}.WithDefaults()
	source := bounds(limits, true) + "\n" + clock
	for _, part := range []string{"base", "control", "record", "log", "batch", "index", "rank", "enqueue", "moved", "plan", "reindex", "write_progress", "commit"} {
		source += "\n" + luaText(part)
	}
	source += equalScript
	k := newKeyspace(prefix, 1)
	const now execution.Instant = 1796037437318123
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 2000 {
		before := randomControl(random)
		before.ID = fmt.Sprint("x", i)
		p := randomPlan(random, before)
		var fields []any
		for _, pair := range before.Record() {
			fields = append(fields, string(pair.Field), pair.Value)
		}
		if err := client.HSet(ctx, k.anchor(0)+"c:"+before.ID, fields...).Err(); err != nil {
			t.Fatal(err)
		}
		var head packer
		head.array(2).text(before.ID).plan(p)
		v, err := client.Eval(ctx, source, []string{k.anchor(0)}, append([]any{head.bytes()}, (&Store{}).data(p)...)...).Result()
		if err != nil {
			t.Fatal(err)
		}
		r := read(v)
		if outcome := r.text(); outcome != "ok" {
			t.Fatalf("outcome %s for %+v", outcome, before)
		}
		r.instant()
		want := p.Apply(before, now)
		got, stored := r.text(), r.text()
		compareControl(t, "control", want, got)
		compareControl(t, "stored control", want, stored)
		compareEntries(t, p.LogEntries(before, want, now), r.list())
		if r.err != nil {
			t.Fatal(r.err)
		}
	}
}

// compareControl compares by what is stored: an inconsistent control has no other form.
func compareControl(t *testing.T, what string, want execution.Control, packed string) {
	t.Helper()
	expected, errWant := execution.ParseRecord(want.ID, want.Record())
	got, errGot := execution.Control{}, fmt.Errorf("not loaded")
	if packed != "" {
		got, errGot = decodeControl(packed)
	}
	if (errWant == nil) != (errGot == nil) {
		t.Fatalf("%s: Go says %v, Lua %v, for %+v", what, errWant, errGot, want)
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Fatalf("%s (-Go +Lua):\n%s", what, diff)
	}
}

func compareEntries(t *testing.T, want []execution.Entry, r *reader) {
	t.Helper()
	var got []execution.Entry
	for r.more() {
		e := r.list()
		got = append(got, execution.Entry{Kind: execution.EntryKind(e.text()), Data: e.payload()})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("log entries (-Go +Lua):\n%s", diff)
	}
}

func randomControl(r *rand.Rand) execution.Control {
	some := func() int64 { return r.Int64N(3) * r.Int64N(execution.MaxInteger/4) }
	c := execution.Control{Deployment: "d", Revision: "r", Schema: execution.SchemaVersion, Version: 1 + r.Int64N(1000), Fence: some(),
		Attempt: r.Int64N(50), LostLeases: r.Int64N(3), Retries: r.Int64N(3), Claims: r.Int64N(3), Budgets: execution.DefaultBudgets(), Priority: r.Int64N(10),
		ProgressSequence: r.Int64N(3), CreatedAt: 1796037400000, UpdatedAt: 1796037400000 + r.Int64N(80_000_000)}
	c.Status = []execution.Status{execution.Queued, execution.Running, execution.Waiting}[r.IntN(3)]
	switch c.Status { //nolint:exhaustive // an ended execution has nothing of its own
	case execution.Queued:
		c.AvailableAt, c.QueueUntil = r.Int64N(2)*1796037437318, r.Int64N(2)*1796037437318
	case execution.Running:
		c.Worker, c.Token, c.LeaseUntil = "w", "t", 1796037500000
		c.CanceledAt = r.Int64N(2) * 1796037400000
	case execution.Waiting:
		c.WaitSequence, c.WaitUntil = c.Version, r.Int64N(2)*1796037500000
	}
	c.Deadline = r.Int64N(2) * 1796037437318
	if r.IntN(2) == 0 {
		c.LogEpoch = "1796037400001"
	}
	if r.IntN(2) == 0 {
		c.WatchedUntil = 1796037437318 + r.Int64N(3) - 1
	}
	if r.IntN(3) == 0 {
		c.Owner, c.Labels, c.Operation = "o\x00\xff", "k=v\nl=", "op:r"
	}
	return c
}

// randomPlan is one that fits the control.
func randomPlan(r *rand.Rand, c execution.Control) execution.Plan {
	owned := execution.Owned{Ownership: execution.Ownership{Worker: c.Worker, Token: c.Token, Fence: c.Fence}, Operation: "next"}
	for range r.IntN(3) {
		owned.Progress = append(owned.Progress, execution.Event{Kind: "k", Message: "é<>", At: r.Int64N(1e12), Metadata: []byte(`[1.0,{}]`)})
	}
	commands := map[execution.Status][]execution.Command{
		execution.Queued: {execution.Claim{Worker: "w2", Token: "t2", Lease: 1}, execution.Cancel{Reason: "enough"}, execution.Expire{}},
		execution.Running: {execution.Checkpoint{Owned: owned, Data: []byte("1"), Lease: 5, Consumed: true}, execution.Report{Owned: owned},
			execution.Suspend{Owned: owned, Wait: []byte(`{"kind":"x"}`), Timeout: 3}, execution.Retry{Owned: owned, Delay: 7},
			execution.Complete{Owned: owned, Result: []byte("[]")}, execution.Fail{Owned: owned}, execution.Release{Owned: owned},
			execution.Recover{Fence: c.Fence}, execution.Cancel{}},
		execution.Waiting: {execution.Resume{Sequence: c.WaitSequence, Answer: []byte("1")}, execution.Cancel{},
			execution.ExpireWait{Sequence: c.WaitSequence}, execution.ExpireWait{Sequence: c.WaitSequence, Default: []byte("2")}},
	}[c.Status]
	for {
		cmd := commands[r.IntN(len(commands))]
		now := execution.Instant(0)
		if _, recovers := cmd.(execution.Recover); recovers || c.Status == execution.Waiting {
			now = execution.Forever
		}
		p, err := execution.Decide(c, cmd, now)
		if err == nil && !p.Noop() {
			return p
		}
	}
}
