package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

const (
	lease  = 30 * time.Second
	margin = 1500 * time.Millisecond
)

var everyone = store.Scope{All: true}

// kit drives one store in one test. Whatever goes wrong in a helper ends the test.
type kit struct {
	*testing.T
	Env
	limits store.Limits
	ctx    context.Context
	rev    store.Revision // of what submit submits and claim claims
	tokens int
}

func newKit(t *testing.T, env Env, limits store.Limits) *kit {
	return &kit{T: t, Env: env, limits: limits.WithDefaults(), ctx: t.Context(), rev: store.Revision{Deployment: "story", Revision: "r1"}}
}

func (k *kit) ok(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

// refused holds an error against its code.
func (k *kit) refused(err error, want execution.Code) {
	k.Helper()
	if got := execution.CodeOf(err); got != want {
		k.Fatalf("error %v has code %q, want %q", err, got, want)
	}
}

// same compares whole values.
func (k *kit) same(what string, want, got any, opts ...cmp.Option) {
	k.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		k.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// shows compares whole records. That wanted is without the time of its removal, which follows from the control.
func (k *kit) shows(what string, want, got store.Record) {
	k.Helper()
	want.ExpiresAt = k.expires(want.Control)
	k.same(what, want, got)
}

// expires is when an execution is removed that was ended by its last transition.
func (k *kit) expires(c execution.Control) int64 {
	if !c.Status.Terminal() {
		return 0
	}
	return c.UpdatedAt + k.limits.TerminalTTL.Milliseconds()
}

// token is a new name for an operation or a request.
func (k *kit) token() string {
	k.tokens++
	return fmt.Sprintf("t%d", k.tokens)
}

// now is the time by the store's clock.
func (k *kit) now() execution.Instant {
	k.Helper()
	c, err := k.Store.Counts(k.ctx)
	k.ok(err)
	return c.Now
}

// submission is work of the kit's revision, with a new id.
func (k *kit) submission() store.Submission {
	return store.Submission{Submit: execution.Submit{ID: k.Store.NewID(store.Key{}), Deployment: k.rev.Deployment,
		Revision: k.rev.Revision, Budgets: execution.DefaultBudgets(), Input: []byte(`{"n":1}`)}}
}

func (k *kit) submit() execution.Control {
	k.Helper()
	return k.admit(k.submission())
}

// admit submits what must be created.
func (k *kit) admit(s store.Submission) execution.Control {
	k.Helper()
	r, err := k.Store.Submit(k.ctx, s)
	k.ok(err)
	if r.Replayed {
		k.Fatalf("submission %s was replayed", s.ID)
	}
	return r.Record.Control
}

func (k *kit) request(count int) store.PollRequest {
	return store.PollRequest{Worker: "w1", Token: k.token(), Revisions: []store.Want{{Revision: k.rev, Count: count, Lease: lease}}}
}

func (k *kit) poll(r store.PollRequest) store.Polled {
	k.Helper()
	p, err := k.Store.Poll(k.ctx, r)
	k.ok(err)
	return p
}

// claim claims the one execution that is due.
func (k *kit) claim() store.Claimed {
	k.Helper()
	p := k.poll(k.request(2))
	if len(p.Claimed) != 1 {
		k.Fatalf("%d were claimed, want 1", len(p.Claimed))
	}
	return p.Claimed[0]
}

// start submits an execution and claims it.
func (k *kit) start() execution.Control {
	k.Helper()
	id := k.submit().ID
	c := k.claim().Control
	if c.ID != id {
		k.Fatalf("claimed %s, want %s", c.ID, id)
	}
	return c
}

func ownership(c execution.Control) execution.Ownership {
	return execution.Ownership{Worker: c.Worker, Token: c.Token, Fence: c.Fence, Margin: margin}
}

// owned is what an owned command of the lease's holder carries.
func (k *kit) owned(c execution.Control, progress ...execution.Event) execution.Owned {
	return execution.Owned{Ownership: ownership(c), Operation: k.token(), Progress: progress}
}

// expected is the control that the domain says cmd leads to.
func (k *kit) expected(c execution.Control, cmd execution.Command, now execution.Instant) execution.Control {
	k.Helper()
	p, err := execution.Decide(c, cmd, now)
	k.ok(err)
	after := p.Apply(c, now)
	if after.LogEpoch == "" && len(p.LogEntries(c, after, now)) > 0 {
		after.LogEpoch = execution.NewLogEpoch(now)
	}
	return after
}

// do carries out an owned command and holds the reply, and what is stored, against the domain.
func (k *kit) do(c execution.Control, cmd execution.Command) execution.Control {
	k.Helper()
	want := k.expected(c, cmd, k.now())
	newest := k.newest(c.ID)
	got, err := k.Store.Transition(k.ctx, c, cmd)
	k.ok(err)
	k.same(execution.Name(cmd)+": control", want, got.Control)
	k.same(execution.Name(cmd)+": stored control", want, k.read(c.ID).Control)
	k.same(execution.Name(cmd)+": log", k.logAfter(c.ID, newest), got.Log)
	return got.Control
}

// newest is the id of the newest entry of the log; zero: there is none.
func (k *kit) newest(id string) execution.LogID {
	r, err := k.Store.Read(k.ctx, store.ReadRequest{ID: id, Scope: everyone, LogNewest: true})
	k.ok(err)
	if len(r.Log) == 0 {
		return execution.LogID{}
	}
	return r.Log[0].ID
}

func (k *kit) logAfter(id string, after execution.LogID) []execution.Entry {
	after.Seq++
	r, err := k.Store.Read(k.ctx, store.ReadRequest{ID: id, Scope: everyone, Log: true, LogFrom: after, LogLimit: 1000})
	k.ok(err)
	return r.Log
}

func (k *kit) read(id string) store.Record {
	k.Helper()
	r, err := k.Store.Read(k.ctx, store.ReadRequest{ID: id, Scope: everyone})
	k.ok(err)
	return r
}

// watch marks the log as followed.
func (k *kit) watch(id string) {
	k.Helper()
	_, err := k.Store.Read(k.ctx, store.ReadRequest{ID: id, Scope: everyone, Watch: true})
	k.ok(err)
}

// log is the whole event log.
func (k *kit) log(id string) []execution.Entry {
	k.Helper()
	r, err := k.Store.Read(k.ctx, store.ReadRequest{ID: id, Scope: everyone, Log: true, LogLimit: 1 << 20})
	k.ok(err)
	return r.Log
}

func (k *kit) gone(id string) {
	k.Helper()
	_, err := k.Store.Read(k.ctx, store.ReadRequest{ID: id, Scope: everyone})
	k.refused(err, execution.CodeNotFound)
}

func (k *kit) cancel(id string) store.Record {
	k.Helper()
	r, err := k.Store.Cancel(k.ctx, id, everyone, "enough")
	k.ok(err)
	return r
}

func (k *kit) maintain() store.Maintained {
	k.Helper()
	m, err := k.Store.Maintain(k.ctx, 100)
	k.ok(err)
	return m
}

func (k *kit) beat(b ...store.Beat) []store.Beaten {
	k.Helper()
	out, err := k.Store.Beat(k.ctx, b)
	k.ok(err)
	if len(out) != len(b) {
		k.Fatalf("%d replies to %d beats", len(out), len(b))
	}
	return out
}

// stream appends chunks in the name of the lease's holder.
func (k *kit) stream(c execution.Control, first int64, chunks ...string) store.Beaten {
	k.Helper()
	out := k.beat(store.Beat{ID: c.ID, Ownership: ownership(c), Chunks: batch(c, first, chunks...)})[0]
	k.ok(out.Err)
	return out
}

func batch(c execution.Control, first int64, chunks ...string) *execution.ChunkBatch {
	b := &execution.ChunkBatch{Attempt: c.Attempt, First: first}
	for _, s := range chunks {
		b.Chunks = append(b.Chunks, []byte(s))
	}
	return b
}

// count is what is stored of the kit's revision; all zero where it is not listed.
func (k *kit) count() store.RevisionCount {
	k.Helper()
	return k.countOf(k.rev)
}

func (k *kit) countOf(rev store.Revision) store.RevisionCount {
	k.Helper()
	c, err := k.Store.Counts(k.ctx)
	k.ok(err)
	for _, r := range c.Revisions {
		if r.Revision == rev {
			return r
		}
	}
	return store.RevisionCount{Revision: rev}
}

func (k *kit) leases() int64 {
	k.Helper()
	c, err := k.Store.Counts(k.ctx)
	k.ok(err)
	return c.Leases
}

// suspend opens a wait and returns the control.
func (k *kit) suspend(c execution.Control, timeout time.Duration, w execution.Wait) execution.Control {
	k.Helper()
	return k.do(c, execution.Suspend{Owned: k.owned(c), Checkpoint: []byte(`{"at":"wait"}`), Wait: k.wait(w), Timeout: timeout})
}

func (k *kit) wait(w execution.Wait) []byte {
	k.Helper()
	data, err := w.Encode()
	k.ok(err)
	return data
}

// resume answers a wait that was checked.
func (k *kit) resume(c execution.Control, answer string) store.Resumed {
	k.Helper()
	r, err := k.Store.Resume(k.ctx, store.ResumeRequest{ID: c.ID, Scope: everyone, Answer: []byte(answer), Checked: c.WaitSequence})
	k.ok(err)
	return r
}

func complete(k *kit, c execution.Control) execution.Command {
	return execution.Complete{Owned: k.owned(c), Result: []byte(`"done"`)}
}

func event(message string) execution.Event {
	return execution.Event{Kind: "step", Message: message, At: 1_700_000_000_000, Metadata: []byte(`{"n":1e2}`)}
}

// rendered is an event as it is stored.
func (k *kit) rendered(e execution.Event, sequence int64) []byte {
	k.Helper()
	data, err := e.Encode(sequence)
	k.ok(err)
	return data
}

var broken = execution.Failure{Type: "Broken", Code: "broken", Message: "It broke.", Retryable: true}

// ids of what was claimed, sorted.
func ids(claimed []store.Claimed) []string {
	var out []string
	for _, c := range claimed {
		out = append(out, c.Control.ID)
	}
	slices.SortFunc(out, strings.Compare)
	return out
}
