package redis_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

const lease = 30 * time.Second

// kit drives a store by the server's own clock. Whatever goes wrong in a helper ends the test.
type kit struct {
	*testing.T
	store  *redis.Store
	prefix string
	rev    store.Revision
	tokens int
	server *redistest.Server  // where the test has one of its own
	own    *redistest.Servers // where the test has its own, in the topology of all
}

// newKit opens a store in a namespace of its own on the shared server.
func newKit(t *testing.T) *kit {
	t.Helper()
	return openKit(t, redis.Config{URL: redistest.URL(t), Prefix: redistest.Prefix(t)})
}

// ownKit opens a store on servers of the test's own, in the topology of all.
func ownKit(t *testing.T, c redis.Config) *kit {
	t.Helper()
	own := redistest.Own(t, redistest.Options{})
	c.URL = own.URL()
	k := openKit(t, c)
	k.own = own
	return k
}

// eachMaster calls f with a client of each server of the test's own that takes writes.
func (k *kit) eachMaster(f func(ctx context.Context, node *goredis.Client) error) {
	k.Helper()
	if k.own != nil {
		k.own.EachMaster(f)
		return
	}
	k.ok(f(k.Context(), k.server.Client()))
}

// full leaves the test's own servers no room.
func (k *kit) full() {
	k.Helper()
	k.eachMaster(func(ctx context.Context, node *goredis.Client) error {
		return node.ConfigSet(ctx, "maxmemory", "1").Err()
	})
}

func openKit(t *testing.T, c redis.Config) *kit {
	t.Helper()
	s, err := redis.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &kit{T: t, store: s, prefix: c.Prefix, rev: store.Revision{Deployment: "story", Revision: "r1"}}
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

func (k *kit) token() string {
	k.tokens++
	return fmt.Sprintf("token-%d", k.tokens)
}

func (k *kit) submission() store.Submission {
	return store.Submission{Submit: execution.Submit{ID: k.store.NewID(store.Key{}), Deployment: k.rev.Deployment,
		Revision: k.rev.Revision, Budgets: execution.DefaultBudgets(), Input: []byte(`{"n":1}`)}}
}

func (k *kit) submit() string {
	k.Helper()
	r, err := k.store.Submit(k.Context(), k.submission())
	k.ok(err)
	return r.Record.Control.ID
}

func (k *kit) request(count int) store.PollRequest {
	token := k.token()
	return store.PollRequest{Worker: "w1", Token: token, Number: int64(k.tokens), Revisions: []store.Want{{Revision: k.rev, Count: count, Lease: lease}}}
}

func (k *kit) poll(count int) store.Polled {
	k.Helper()
	p, err := k.store.Poll(k.Context(), k.request(count))
	k.ok(err)
	return p
}

// start submits an execution and claims it.
func (k *kit) start() execution.Control {
	k.Helper()
	k.submit()
	p := k.poll(1)
	if len(p.Claimed) != 1 {
		k.Fatalf("%d were claimed, want 1", len(p.Claimed))
	}
	return p.Claimed[0].Control
}

func owner(c execution.Control) execution.Ownership {
	return execution.Ownership{Worker: c.Worker, Token: c.Token, Fence: c.Fence, Margin: time.Second}
}

func (k *kit) owned(c execution.Control, events ...execution.Event) execution.Owned {
	return execution.Owned{Ownership: owner(c), Operation: k.token(), Progress: events}
}

func (k *kit) do(c execution.Control, cmd execution.Command) execution.Control {
	k.Helper()
	got, err := k.store.Transition(k.Context(), c, cmd)
	k.ok(err)
	return got.Control
}

func (k *kit) checkpoint(c execution.Control) execution.Control {
	k.Helper()
	return k.do(c, execution.Checkpoint{Owned: k.owned(c), Data: []byte(`{"at":1}`), Lease: 2 * lease})
}

func (k *kit) complete(c execution.Control) execution.Control {
	k.Helper()
	return k.do(c, execution.Complete{Owned: k.owned(c), Result: []byte(`"done"`)})
}

func (k *kit) suspend(c execution.Control) execution.Control {
	k.Helper()
	wait, err := execution.Wait{Kind: "approval"}.Encode()
	k.ok(err)
	return k.do(c, execution.Suspend{Owned: k.owned(c), Checkpoint: []byte(`{"at":2}`), Wait: wait})
}

func chunks(attempt, first int64, data ...string) *execution.ChunkBatch {
	b := &execution.ChunkBatch{Attempt: attempt, First: first}
	for _, d := range data {
		b.Chunks = append(b.Chunks, []byte(d))
	}
	return b
}

// stream appends chunks and renews nothing.
func (k *kit) stream(c execution.Control, b *execution.ChunkBatch) store.Beaten {
	k.Helper()
	out, err := k.store.Beat(k.Context(), []store.Beat{{ID: c.ID, Ownership: owner(c), Chunks: b}})
	k.ok(err)
	return out[0]
}

func (k *kit) read(id string) store.Record {
	k.Helper()
	r, err := k.store.Read(k.Context(), store.ReadRequest{ID: id, Scope: store.Scope{All: true}, Log: true, LogLimit: 1000})
	k.ok(err)
	return r
}

// list is what a listing shows, of every owner.
func (k *kit) list(r store.ListRequest) []string {
	k.Helper()
	r.Scope, r.Limit = store.Scope{All: true}, 200
	page, err := k.store.List(k.Context(), r)
	k.ok(err)
	ids := make([]string, len(page.Executions))
	for i, c := range page.Executions {
		ids[i] = c.ID
	}
	return ids
}

// indexOf is the only index of the kind, whose name nobody reads.
func (k *kit) indexOf(kind string) string {
	k.Helper()
	all := redistest.Keys(k, k.key(kind+"*"))
	if len(all) != 1 {
		k.Fatalf("indexes of %s: %v", kind, all)
	}
	return strings.TrimPrefix(all[0], k.key(""))
}

func (k *kit) event(message string) execution.Event {
	return execution.Event{Kind: "step", Message: message, At: 1}
}

// key is the name of a key of the only partition.
func (k *kit) key(rest string) string { return k.prefix + ":{0}:" + rest }
