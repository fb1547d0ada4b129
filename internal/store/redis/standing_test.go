package redis_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// news are the conditions that a store told of, such as "+restarted" and "-no_room", in their order.
type news struct {
	t  *testing.T
	ch chan string
}

// watchedKit opens a store on a server of the test's own, and tells of its conditions from then on.
func watchedKit(t *testing.T, server *redistest.Server, c redis.Config) (*kit, *news) {
	t.Helper()
	n := &news{t, make(chan string, 1000)}
	c.URL, c.Prefix, c.Timeout = server.URL(), "windrow", time.Second
	c.Condition = func(code string, holds bool) {
		if holds {
			n.ch <- "+" + code
		} else {
			n.ch <- "-" + code
		}
	}
	k := openKit(t, c)
	k.server = server
	for len(n.ch) > 0 {
		<-n.ch
	}
	return k, n
}

// await returns once that was told.
func (n *news) await(want string) {
	n.t.Helper()
	for deadline := time.After(20 * time.Second); ; {
		select {
		case got := <-n.ch:
			if got == want {
				return
			}
		case <-deadline:
			n.t.Fatalf("%s was never told", want)
		}
	}
}

// condition is the one with that code; nil: it does not hold.
func (k *kit) condition(code string) *store.Condition {
	all := k.store.Conditions()
	if i := slices.IndexFunc(all, func(c store.Condition) bool { return c.Code == code }); i >= 0 {
		return &all[i]
	}
	return nil
}

func (k *kit) root() map[string]string {
	k.Helper()
	root, err := k.server.Client().HGetAll(k.Context(), k.prefix+":namespace").Result()
	k.ok(err)
	return root
}

func (k *kit) maintain() {
	k.Helper()
	_, err := k.store.Maintain(k.Context(), 10)
	k.ok(err)
}

// A server that was restarted is noticed, whether or not an exchange failed meanwhile, and counts as a new epoch. Where nothing was
// lost nothing else is said.
func TestRestartIsNoticed(t *testing.T) {
	t.Parallel()
	for name, during := range map[string]func(*kit){
		"a call failed": func(k *kit) { k.refused(k.store.Check(k.Context()), execution.CodeUnavailable) },
		"no call":       func(*kit) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, n := watchedKit(t, redistest.Private(t, redistest.Options{AppendFsync: "always"}), redis.Config{})
			if got := k.root(); got["epoch"] != "1" || got["runs"] == "" {
				t.Errorf("root %v", got)
			}
			k.maintain()
			k.ok(k.store.Check(t.Context()))
			k.server.Kill()
			during(k)
			k.server.Restart()
			k.ok(k.store.Check(t.Context()))
			n.await("+restarted")
			k.maintain()
			c := k.condition("restarted")
			contains(t, c.Message, "restarted or replaced", "epoch 2 after 1")
			if c.Severe || time.Since(c.Since) > time.Minute || k.condition("data_lost") != nil || k.root()["epoch"] != "2" {
				t.Errorf("conditions %+v, root %v", k.store.Conditions(), k.root())
			}
		})
	}
}

// A process that starts later hears of no restart that another one has counted; one that finds other runs than were recorded counts them.
func TestEpochOfAnotherProcess(t *testing.T) {
	t.Parallel()
	server := redistest.Private(t, redistest.Options{AppendFsync: "always"})
	k, _ := watchedKit(t, server, redis.Config{})
	k.ok(k.store.Close())
	server.Restart()
	k, _ = watchedKit(t, server, redis.Config{})
	if k.condition("restarted") == nil || k.root()["epoch"] != "2" {
		t.Errorf("conditions %+v, root %v", k.store.Conditions(), k.root())
	}
	k, _ = watchedKit(t, server, redis.Config{})
	if k.condition("restarted") != nil || k.root()["epoch"] != "2" {
		t.Errorf("conditions %+v, root %v", k.store.Conditions(), k.root())
	}
}

// A namespace that somebody emptied is created anew, in a new epoch, and the loss is told.
func TestEmptiedNamespace(t *testing.T) {
	t.Parallel()
	k, n := watchedKit(t, redistest.Private(t, redistest.Options{}), redis.Config{Partitions: 2})
	k.maintain()
	k.ok(k.server.Client().FlushAll(t.Context()).Err())
	k.maintain()
	n.await("+data_lost")
	contains(t, k.condition("data_lost").Message, "emptied", "is gone")
	k.ok(k.store.Check(t.Context()))
	n.await("+data_lost")
	contains(t, k.condition("data_lost").Message, "created anew", "epoch 2 after 1")
	if got := k.root(); got["epoch"] != "2" || got["partitions"] != "2" || got["schema"] != "1" || got["created"] == "" {
		t.Errorf("root %v", got)
	}
	k.ok(k.store.Check(t.Context()))
	k.maintain()
	if len(n.ch) > 0 {
		t.Errorf("%s was told as well", <-n.ch)
	}
}

// A server that came back with an older copy of its data gives itself away by the stamp of maintenance.
func TestOlderCopyIsNoticed(t *testing.T) {
	t.Parallel()
	k, n := watchedKit(t, redistest.Private(t, redistest.Options{}), redis.Config{})
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	k.ok(k.server.Client().Set(t.Context(), k.key("stamp"), strconv.FormatInt(old.UnixMilli(), 10), 0).Err())
	k.ok(k.server.Client().Save(t.Context()).Err())
	k.maintain()
	k.maintain()
	if k.condition("data_lost") != nil {
		t.Fatalf("conditions %+v", k.store.Conditions())
	}
	k.server.Restart()
	k.maintain()
	n.await("+data_lost")
	contains(t, k.condition("data_lost").Message, "older data", old.UTC().Format(time.RFC3339))
}

// A policy that turns wrong makes the process unready and is told of, while work goes on; once it is right again all is well.
func TestEvictionTurnsWrong(t *testing.T) {
	t.Parallel()
	k, n := watchedKit(t, redistest.Private(t, redistest.Options{}), redis.Config{})
	k.ok(k.server.Client().ConfigSet(t.Context(), "maxmemory-policy", "volatile-ttl").Err())
	k.store.Doubt()
	k.submit()
	n.await("+eviction")
	c := k.condition("eviction")
	contains(t, c.Message, "volatile-ttl", "noeviction", "--allow-eviction", "WINDROW_ALLOW_EVICTION")
	if !c.Severe {
		t.Error("it is not severe")
	}
	k.refused(k.store.Check(t.Context()), execution.CodeUnavailable)
	k.submit()
	k.ok(k.server.Client().ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
	n.await("-eviction")
	k.ok(k.store.Check(t.Context()))
}

// An operator may take eviction upon himself, and is told of it.
func TestAllowEviction(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"allkeys-lru", "volatile-lru"} {
		server := redistest.Private(t, redistest.Options{Args: []string{"--maxmemory-policy", policy}})
		if _, err := opened(t, redis.Config{URL: server.URL()}); err == nil {
			t.Errorf("%s was accepted", policy)
		}
		log, err := opened(t, redis.Config{URL: server.URL(), AllowEviction: true})
		if err != nil {
			t.Fatal(err)
		}
		contains(t, log, policy, "executions are lost")
		k, _ := watchedKit(t, server, redis.Config{AllowEviction: true})
		if c := k.condition("eviction"); c == nil || c.Severe {
			t.Errorf("condition %+v", c)
		}
		k.ok(k.store.Check(t.Context()))
	}
}

// A namespace that turns out to be another one is neither read nor written, until it is the right one again.
func TestAnotherNamespaceAnswers(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]struct{ wrong, right, message string }{
		"partitions": {"2", "1", "--partitions (WINDROW_PARTITIONS) to 2"},
		"schema":     {"2", "1", "newer release"},
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			k, n := watchedKit(t, redistest.Private(t, redistest.Options{}), redis.Config{})
			id := k.submit()
			set := func(value string) {
				t.Helper()
				k.ok(k.server.Client().HSet(t.Context(), k.prefix+":namespace", field, value).Err())
			}
			set(change.wrong)
			k.store.Doubt()
			k.read(id)
			n.await("+namespace")
			before := k.root()
			contains(t, k.condition("namespace").Message, change.message)
			_, err := k.store.Submit(t.Context(), k.submission())
			k.refused(err, execution.CodeUnavailable)
			var e *execution.Error
			if !errors.As(err, &e) || !e.Unchanged || strings.Contains(e.Message, "windrow") {
				t.Errorf("error %+v", e)
			}
			_, err = k.store.Read(t.Context(), store.ReadRequest{ID: id, Scope: store.Scope{All: true}})
			k.refused(err, execution.CodeUnavailable)
			_, err = k.store.Tail(t.Context(), 0)
			k.refused(err, execution.CodeUnavailable)
			k.refused(k.store.Check(t.Context()), execution.CodeUnavailable)
			if got := k.root(); got["epoch"] != before["epoch"] || got["runs"] != before["runs"] {
				t.Errorf("root %v, was %v", got, before)
			}
			set(change.right)
			n.await("-namespace")
			k.read(id)
			k.ok(k.store.Check(t.Context()))
		})
	}
}

// A server that refuses submissions says so to who counts, and no longer than it does.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	for code, setting := range map[string]struct{ name, wrong, right, message string }{
		"no_room":   {"maxmemory", "1", "0", "maxmemory"},
		"no_writes": {"min-replicas-to-write", "1", "0", "NOREPLICAS"},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			k, _ := watchedKit(t, redistest.Private(t, redistest.Options{}), redis.Config{Partitions: 2})
			look := func(value string) *store.Condition {
				t.Helper()
				k.ok(k.server.Client().ConfigSet(t.Context(), setting.name, value).Err())
				_, err := k.store.Counts(t.Context())
				k.ok(err)
				return k.condition(code)
			}
			if c := look(setting.right); c != nil {
				t.Errorf("at first %+v", c)
			}
			c := look(setting.wrong)
			if c == nil || !c.Severe || !strings.Contains(c.Message, setting.message) {
				t.Errorf("then %+v", c)
			}
			if c := look(setting.right); c != nil {
				t.Errorf("at last %+v", c)
			}
			if n := k.server.Client().Exists(t.Context(), k.key("none")).Val(); n != 0 {
				t.Error("the probe wrote")
			}
		})
	}
}

// While nothing fails a check costs nothing: exchanges are what they were.
func TestNoCheckWithoutReason(t *testing.T) {
	t.Parallel()
	k, _ := watchedKit(t, redistest.Private(t, redistest.Options{}), redis.Config{})
	k.ok(k.store.TellScripts(t.Context()))
	m := newMonitor(t, k.server)
	client, _ := m.during(func() {
		for range 20 {
			k.complete(k.start())
			k.maintain()
		}
	})
	for _, name := range client {
		if name != "EVALSHA" {
			t.Errorf("%s was sent", name)
		}
	}
}

// Now and then servers that never failed are checked as well, once each time.
func TestCheckNowAndThen(t *testing.T) {
	t.Parallel()
	k, n := watchedKit(t, redistest.Private(t, redistest.Options{}), redis.Config{})
	k.ok(k.server.Client().FlushAll(t.Context()).Err())
	k.ok(k.store.Check(t.Context()))
	if len(n.ch) > 0 || len(k.root()) > 0 {
		t.Fatalf("checked too early: root %v", k.root())
	}
	k.store.CheckIsDue()
	k.ok(k.store.Check(t.Context()))
	n.await("+data_lost")
	k.ok(k.store.Check(t.Context()))
	if got := k.root(); got["epoch"] != "2" {
		t.Errorf("root %v", got)
	}
}

// A tail whose connection broke does not go on as if nothing had happened, also where it was not blocked then: entries that were
// read may be gone.
func TestTailOverARestart(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]bool{"at rest": false, "blocked": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Private(t, redistest.Options{})
			k := openKit(t, redis.Config{URL: server.URL(), Prefix: "tail"})
			k.server = server
			tail, err := k.store.Tail(t.Context(), 0)
			k.ok(err)
			c := k.start()
			log := store.Position{ID: c.ID}
			if _, err := tail.Read(t.Context(), []store.Position{log}, time.Millisecond); err != nil {
				t.Fatal(err)
			}
			var done <-chan readResult
			if read {
				done = blocked(t.Context(), k, tail, log)
			}
			server.Restart()
			if read {
				k.refused(k.returns("the restart", done).err, execution.CodeUnavailable)
			} else {
				_, err := tail.Read(t.Context(), []store.Position{log}, time.Millisecond)
				k.refused(err, execution.CodeUnavailable)
			}
			_, err = tail.Read(t.Context(), []store.Position{log}, time.Millisecond)
			k.ok(err)
		})
	}
}

// A server that came back with an older copy of its data: fences grow across the loss, whoever worked before it is refused, and
// what was lost may be done again without a contradiction.
func TestClaimsAfterALoss(t *testing.T) {
	t.Parallel()
	k, _ := watchedKit(t, redistest.Private(t, redistest.Options{}), redis.Config{})
	id := k.submit()
	k.ok(k.server.Client().Save(t.Context()).Err())

	old := k.poll(1).Claimed[0].Control
	k.stream(old, chunks(1, 0, "a"))
	sub := k.submission()
	sub.Key = store.Key{Deployment: sub.Deployment, Value: "k"}
	_, err := k.store.Submit(t.Context(), sub)
	k.ok(err)
	done := k.owned(old)
	after := k.do(old, execution.Checkpoint{Owned: done, Data: []byte(`{"at":1}`), Lease: lease})

	k.server.Restart()
	_, err = k.store.FindKey(t.Context(), sub.Key)
	k.refused(err, execution.CodeNotFound)
	again := k.submission()
	again.Key = sub.Key
	r, err := k.store.Submit(t.Context(), again)
	k.ok(err)
	if r.Replayed || r.Record.Control.ID != again.ID {
		t.Errorf("submitted %+v", r)
	}
	_, err = k.store.Transition(t.Context(), old, execution.Checkpoint{Owned: done, Data: []byte(`{"at":1}`), Lease: lease})
	k.refused(err, execution.CodeLeaseLost) // the operation is not said to be done

	request := k.request(1)
	request.Worker = "w2"
	p, err := k.store.Poll(t.Context(), request)
	k.ok(err)
	if len(p.Claimed) != 1 || p.Claimed[0].Control.ID != id || p.Claimed[0].Control.Fence <= old.Fence {
		t.Fatalf("claimed %+v after fence %d", p.Claimed, old.Fence)
	}
	current := p.Claimed[0].Control
	for _, stale := range []execution.Control{old, after} {
		_, err := k.store.Transition(t.Context(), stale, execution.Complete{Owned: k.owned(stale), Result: []byte(`1`)})
		k.refused(err, execution.CodeLeaseLost)
		k.refused(k.stream(stale, chunks(1, 1, "b")).Err, execution.CodeLeaseLost)
	}
	if got := k.complete(current); got.Status != execution.Completed {
		t.Errorf("status %s", got.Status)
	}
}
