package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

const (
	// pace is the time between two tries, and between two executions of a submitter.
	pace = 10 * time.Millisecond
	// heal bounds what the store takes to work again once the servers do, on a machine that is busy with other things.
	heal = 20 * time.Second
	// healListen bounds what a subscription takes on a server that froze: it asks for a sign of life twice.
	healListen = 60 * time.Second
)

// load is executions that are submitted, claimed and completed while servers fail. Whoever gets no answer asks again, with the
// same token. What is acknowledged is held against what is acknowledged later.
type load struct {
	t      *testing.T
	store  *redis.Store
	rev    store.Revision
	era    atomic.Int64 // even: nothing is done to the servers
	tokens atomic.Int64
	heard  atomic.Int64 // doorbells

	mu   sync.Mutex                     // guards the following
	keys map[string]string              // id of each acknowledged submission by its key
	ends map[string][]acknowledged      // of each execution
	lost map[execution.Code]int         // acknowledged writes that a failover took, by what then came of it
	seen map[string]map[string]struct{} // results that were ever asked for, by execution
}

// acknowledged is an end that the store said it had kept.
type acknowledged struct {
	era    int64
	result string
}

// begin starts the load. It ends when the test, or the returned function, ends it.
func begin(t *testing.T, s *redis.Store) (l *load, end func()) {
	t.Helper()
	l = &load{t: t, store: s, rev: store.Revision{Deployment: "story", Revision: "r1"}, keys: map[string]string{},
		ends: map[string][]acknowledged{}, lost: map[execution.Code]int{}, seen: map[string]map[string]struct{}{}}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	for i := range 2 {
		work.Go(func() { l.every(ctx, func() { l.submit(ctx) }) })
		work.Go(func() { l.every(ctx, func() { l.work(ctx, "w"+strconv.Itoa(i)) }) })
	}
	work.Go(func() { l.every(ctx, func() { l.listen(ctx) }) })
	end = sync.OnceFunc(func() {
		cancel()
		work.Wait()
	})
	t.Cleanup(end)
	return l, end
}

// every runs f again and again until ctx ends.
func (l *load) every(ctx context.Context, f func()) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for ctx.Err() == nil {
		f()
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// again repeats f until the store answers it, or ctx ends.
func (l *load) again(ctx context.Context, f func() error) (err error) {
	once, done := context.WithCancel(ctx)
	defer done()
	err = context.Canceled // f never runs where ctx has ended
	l.every(once, func() {
		if err = f(); !execution.Is(err, execution.CodeUnavailable) {
			done()
		}
	})
	return err
}

func (l *load) token() string { return "t" + strconv.FormatInt(l.tokens.Add(1), 10) }

// allowed counts the refusals that follow from a loss, and fails the test for all others.
func (l *load) allowed(ctx context.Context, what string, err error, codes ...execution.Code) {
	if ctx.Err() != nil {
		return
	}
	for _, code := range codes {
		if execution.Is(err, code) {
			l.mu.Lock()
			l.lost[code]++
			l.mu.Unlock()
			return
		}
	}
	l.t.Errorf("%s: %v (%v)", what, err, errors.Unwrap(err))
}

// submit submits one execution under a key, and then once more under another id.
func (l *load) submit(ctx context.Context) {
	key := store.Key{Deployment: l.rev.Deployment, Value: l.token()}
	first, again := l.submission(key), l.submission(key)
	var out store.Submitted
	for _, sub := range []store.Submission{first, again} {
		era := l.era.Load()
		err := l.again(ctx, func() (err error) {
			out, err = l.store.Submit(ctx, sub)
			return err
		})
		if err != nil {
			l.allowed(ctx, "submit", err)
			return
		}
		l.bind(key.Value, out.Record.Control.ID, era)
	}
}

func (l *load) submission(key store.Key) store.Submission {
	return store.Submission{Submit: execution.Submit{ID: l.store.NewID(key), Deployment: l.rev.Deployment, Revision: l.rev.Revision,
		Budgets: execution.DefaultBudgets(), Input: []byte(`{}`)}, Key: key}
}

// bind holds the id that a key leads to against the one that was told before: it is another only where a failover took the first.
func (l *load) bind(key, id string, era int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was, ok := l.keys[key]; ok && was != id {
		l.lost["binding"]++
		if era%2 == 0 && l.era.Load() == era {
			l.t.Errorf("key %s leads to %s, and led to %s", key, id, was)
		}
	}
	l.keys[key] = id
}

// work claims a few executions and completes each.
func (l *load) work(ctx context.Context, worker string) {
	request := store.PollRequest{Worker: worker, Token: l.token(),
		Revisions: []store.Want{{Revision: l.rev, Count: 5, Lease: 5 * time.Second}}}
	var out store.Polled
	err := l.again(ctx, func() (err error) {
		out, err = l.store.Poll(ctx, request)
		return err
	})
	if err != nil {
		l.allowed(ctx, "poll", err)
		return
	}
	for _, c := range out.Claimed {
		l.complete(ctx, c.Control)
	}
	if out.Overdue {
		if _, err := l.store.Maintain(ctx, 100); err != nil && !execution.Is(err, execution.CodeUnavailable) {
			l.allowed(ctx, "maintain", err)
		}
	}
}

// complete ends an execution. Where a failover took the claim, or the whole execution, it is refused.
func (l *load) complete(ctx context.Context, c execution.Control) {
	result := fmt.Sprintf("%q", c.Token+"/"+strconv.FormatInt(c.Fence, 10))
	cmd := execution.Complete{Owned: execution.Owned{Ownership: owner(c), Operation: l.token()}, Result: []byte(result)}
	l.mu.Lock()
	if l.seen[c.ID] == nil {
		l.seen[c.ID] = map[string]struct{}{}
	}
	l.seen[c.ID][result] = struct{}{}
	l.mu.Unlock()
	era := l.era.Load()
	err := l.again(ctx, func() error {
		_, err := l.store.Transition(ctx, c, cmd)
		return err
	})
	if err != nil {
		l.allowed(ctx, "complete", err, execution.CodeLeaseLost, execution.CodeNotFound, execution.CodeUnconfirmed)
		return
	}
	if era != l.era.Load() {
		era = 1 // something was done to the servers meanwhile
	}
	l.end(c.ID, acknowledged{era, result})
}

// end holds an end against those that were told before: two that differ, with nothing done to the servers between, contradict.
func (l *load) end(id string, a acknowledged) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, was := range l.ends[id] {
		if was.result == a.result {
			return
		}
		l.lost["end"]++
		if was.era == a.era && a.era%2 == 0 {
			l.t.Errorf("%s ended as %s, and then as %s, in era %d", id, was.result, a.result, a.era)
		}
	}
	l.ends[id] = append(l.ends[id], a)
}

// listen counts doorbells, until the subscription breaks.
func (l *load) listen(ctx context.Context) {
	err := l.store.Listen(ctx, func(store.Revision) { l.heard.Add(1) })
	if err != nil && !execution.Is(err, execution.CodeUnavailable) {
		l.allowed(ctx, "listen", err)
	}
}

// during does something to the servers, and then waits until the load goes on.
func (l *load) during(what string, f func()) {
	l.t.Helper()
	l.era.Add(1)
	f()
	l.flows(what)
	l.era.Add(1)
}

// flows waits until an execution that is submitted from now on has ended.
func (l *load) flows(what string) {
	l.t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(l.t.Context(), heal)
	defer cancel()
	sub := l.submission(store.Key{})
	err := l.again(ctx, func() error {
		_, err := l.store.Submit(ctx, sub)
		return err
	})
	for ended := false; err == nil && !ended; {
		var r store.Record
		err = l.again(ctx, func() (err error) {
			r, err = l.store.Read(ctx, store.ReadRequest{ID: sub.ID, Scope: store.Scope{All: true}})
			return err
		})
		ended = r.Control.Status.Terminal()
	}
	if err != nil {
		l.t.Fatalf("%s: nothing goes on: %v (%v)", what, err, errors.Unwrap(err))
	}
	l.t.Logf("%s: an execution ran %v after", what, time.Since(begin).Round(time.Millisecond))
}

// hears waits until doorbells are heard again.
func (l *load) hears(what string) {
	l.t.Helper()
	begin, before := time.Now(), l.heard.Load()
	ctx, cancel := context.WithTimeout(l.t.Context(), healListen)
	defer cancel()
	l.every(ctx, func() {
		if l.heard.Load() > before+3 {
			cancel()
		}
	})
	if l.heard.Load() <= before+3 {
		l.t.Fatalf("%s: no doorbell is heard", what)
	}
	l.t.Logf("%s: doorbells were heard %v after", what, time.Since(begin).Round(time.Millisecond))
}

// check waits until all that is left has ended, and holds what is stored against what was acknowledged.
func (l *load) check() {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), heal)
	defer cancel()
	left := int64(-1)
	l.every(ctx, func() {
		l.work(ctx, "last")
		left = l.nonterminal(ctx)
		if left == 0 {
			cancel()
		}
	})
	if left != 0 {
		l.t.Fatalf("%d executions never end", left)
	}
	gone, changed := 0, 0
	for _, id := range l.keys {
		r, err := l.store.Read(l.t.Context(), store.ReadRequest{ID: id, Scope: store.Scope{All: true}})
		if execution.Is(err, execution.CodeNotFound) {
			gone++
			continue
		}
		if err != nil || r.Control.Status != execution.Completed {
			l.t.Errorf("%s is %s: %v", id, r.Control.Status, err)
			continue
		}
		if _, ok := l.seen[id][string(r.Result)]; !ok {
			l.t.Errorf("%s ended as nobody asked for: %s", id, r.Result)
		}
		for _, a := range l.ends[id] {
			if a.result != string(r.Result) {
				changed++
			}
		}
	}
	l.t.Logf("figures: of %d executions %d are gone and %d ended twice; refused since: %v", len(l.keys), gone, changed, l.lost)
	if len(l.keys) < 100 {
		l.t.Errorf("%d executions are no load", len(l.keys))
	}
}

func (l *load) nonterminal(ctx context.Context) (n int64) {
	counts, err := l.store.Counts(ctx)
	if err != nil {
		return -1
	}
	for _, r := range counts.Revisions {
		if r.Revision == l.rev {
			n += r.Nonterminal
		}
	}
	return n
}

// follower reads one log through tails, and opens another where one fails, as whoever uses them must.
type follower struct {
	load    *load
	control execution.Control
	next    int64
	after   execution.LogID
	tail    store.Tail
}

// follow submits and claims an execution of its own.
func (k *kit) follow(l *load) *follower {
	k.Helper()
	k.rev.Revision = "followed"
	return &follower{load: l, control: k.start()}
}

// follows waits until a chunk that is appended from now on is read. What a failover took of the log is appended again, as long
// as the log itself is there.
func (f *follower) follows(k *kit, what string) {
	k.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(k.Context(), heal)
	defer cancel()
	f.next++
	beat := store.Beat{ID: f.control.ID, Ownership: owner(f.control), Lease: time.Hour, Chunks: chunks(1, f.next, strconv.FormatInt(f.next, 10))}
	err := f.load.again(ctx, func() error {
		out, err := k.store.Beat(ctx, []store.Beat{beat})
		beat.Repeat = true
		if err == nil {
			err = out[0].Err
		}
		return err
	})
	k.ok(err)
	for found := false; !found; {
		if ctx.Err() != nil {
			k.Fatalf("%s: the tail finds nothing", what)
		}
		found = f.read(ctx, k)
	}
	k.Logf("%s: the tail found a chunk %v after", what, time.Since(begin).Round(time.Millisecond))
}

// read reads once and tells whether there was something.
func (f *follower) read(ctx context.Context, k *kit) bool {
	var entries []store.Entries
	err := f.load.again(ctx, func() (err error) {
		if f.tail == nil {
			partition, _ := k.store.PartitionOf(f.control.ID)
			if f.tail, err = k.store.Tail(ctx, partition); err != nil {
				f.tail = nil
				return err
			}
		}
		if entries, err = f.tail.Read(ctx, []store.Position{{ID: f.control.ID, After: f.after}}, time.Second); err != nil {
			k.ok(f.tail.Close())
			f.tail = nil
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		k.Fatal(err)
	}
	for _, e := range entries {
		f.after = e.Entries[len(e.Entries)-1].ID
	}
	return len(entries) > 0
}

// A store heals by itself when Sentinels make the replica the primary, whatever became of the old one.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	servers := redistest.Replicated(t, redistest.Options{})
	k := openKit(t, redis.Config{URL: servers.URL(), Prefix: "failover", Timeout: time.Second, DialTimeout: time.Second})
	l, end := begin(t, k.store)
	f := k.follow(l)
	servers.AwaitReplicas() // or a failover may take what is followed
	l.flows("at first")
	f.follows(k, "at first")
	l.hears("at first")

	var old *redistest.Server
	l.during("killed", func() { old = servers.KillPrimary() })
	f.follows(k, "killed")
	l.hears("killed")
	l.during("back", func() { servers.Rejoin(old) }) // it may take writes before it learns that it is no longer the primary

	l.during("by request", func() {
		servers.Failover()
		servers.AwaitAgreement()
	})
	f.follows(k, "by request")
	l.hears("by request")

	old = servers.Primary()
	l.during("frozen", func() {
		old.Pause()
		servers.AwaitFailover(old)
		l.flows("while it is frozen")
		f.follows(k, "while it is frozen")
		old.Resume()
		servers.AwaitAgreement()
	})
	f.follows(k, "frozen")
	l.hears("frozen")
	end()
	l.check()
}

// A store heals by itself when a replica takes the place of a master of a cluster.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, redistest.Options{Replicas: 1})
	k := openKit(t, redis.Config{URL: servers.URL(), Prefix: "failover", Partitions: 4, Timeout: time.Second, DialTimeout: time.Second})
	l, end := begin(t, k.store)
	f := k.follow(l)
	home, _ := k.store.PartitionOf(f.control.ID)
	slot := k.store.ClockKey(home)
	servers.AwaitReplicas() // or a failover may take what is followed
	l.flows("at first")
	f.follows(k, "at first")
	l.hears("at first")

	l.during("by request", func() { servers.Failover(slot) })
	f.follows(k, "by request")
	l.hears("by request")

	old := servers.MasterOf(slot)
	l.during("killed", func() {
		old.Kill()
		servers.AwaitFailover(old, slot)
	})
	f.follows(k, "killed")
	l.hears("killed")
	l.during("back", func() { // it may take writes before it learns that it is no longer a master
		old.Restart()
		servers.AwaitAgreement()
	})

	old = servers.MasterOf(slot)
	l.during("frozen", func() {
		old.Pause()
		servers.AwaitFailover(old, slot)
		l.flows("while it is frozen")
		f.follows(k, "while it is frozen")
		old.Resume()
		servers.AwaitAgreement()
	})
	f.follows(k, "frozen")
	l.hears("frozen")
	end()
	l.check()
}
