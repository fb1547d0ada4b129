package redis_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// opened tries to open a store, and returns what it said and logged.
func opened(t *testing.T, c redis.Config) (string, error) {
	t.Helper()
	var log bytes.Buffer
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s, err := redis.New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	err = s.Open(t.Context())
	return log.String(), err
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q lacks %q", text, part)
		}
	}
}

// A server that may evict executions is refused, with the setting and the remedy.
func TestOpenRefusesEviction(t *testing.T) {
	t.Parallel()
	server := redistest.Private(t, redistest.Options{Args: []string{"--maxmemory-policy", "allkeys-lru"}})
	_, err := opened(t, redis.Config{URL: server.URL()})
	if err == nil {
		t.Fatal("it was opened")
	}
	contains(t, err.Error(), "maxmemory-policy", "allkeys-lru", "noeviction")
}

// A server that forgets everything is warned of, and one that keeps an append-only file is not.
func TestOpenWarnsOfNoPersistence(t *testing.T) {
	t.Parallel()
	log, err := opened(t, redis.Config{URL: redistest.Private(t, redistest.Options{}).URL()})
	if err != nil {
		t.Fatal(err)
	}
	contains(t, log, "appendonly", "save")
	log, err = opened(t, redis.Config{URL: redistest.Private(t, redistest.Options{AppendFsync: "everysec"}).URL()})
	if err != nil || log != "" {
		t.Errorf("%v, logged %q", err, log)
	}
}

// A user without INFO and CONFIG can open the store, with a warning; all keys and channels fit one pattern.
func TestOpenWithLeastRights(t *testing.T) {
	t.Parallel()
	server := redistest.Private(t, redistest.Options{})
	err := server.Client().Do(t.Context(), "ACL", "SETUSER", "app", "on", ">pw", "~windrow:*", "resetchannels", "&windrow:*", "+@all", "-info", "-config", "-@dangerous").Err()
	if err != nil {
		t.Fatal(err)
	}
	url := strings.Replace(server.URL(), "://", "://app:pw@", 1)
	log, err := opened(t, redis.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	contains(t, log, "INFO")
	k := openKit(t, redis.Config{URL: url, Prefix: "windrow"})
	c := k.start()
	k.stream(c, chunks(1, 0, "a"))
	k.complete(c)
	_, err = k.store.Maintain(t.Context(), 10)
	k.ok(err)
}

// Wrong credentials are no reason to tell them.
func TestOpenHidesCredentials(t *testing.T) {
	t.Parallel()
	server := redistest.Private(t, redistest.Options{})
	if err := server.Client().Do(t.Context(), "ACL", "SETUSER", "app", "on", ">right", "~*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	log, err := opened(t, redis.Config{URL: strings.Replace(server.URL(), "://", "://app:hunter2@", 1)})
	if execution.CodeOf(err) != execution.CodeUnavailable || strings.Contains(err.Error()+log, "hunter2") {
		t.Errorf("%v, logged %q", err, log)
	}
}

// A connection that can't be begun with names the settings that it comes from.
func TestOpenNamesSettings(t *testing.T) {
	t.Parallel()
	server := redistest.Private(t, redistest.Options{})
	if err := server.Client().ConfigSet(t.Context(), "requirepass", "right").Err(); err != nil {
		t.Fatal(err)
	}
	at := strings.TrimPrefix(server.URL(), "redis://")
	for url, want := range map[string][]string{
		"redis://" + at:        {"NOAUTH", "--redis-password (WINDROW_REDIS_PASSWORD)"},
		"redis://:wrong@" + at: {"WRONGPASS", "--redis-username (WINDROW_REDIS_USERNAME)"},
		"redis://:right@" + strings.TrimSuffix(at, "/0") + "/99": {"DB index", "--redis-db (WINDROW_REDIS_DB)"},
	} {
		_, err := opened(t, redis.Config{URL: url})
		if err == nil {
			t.Fatalf("%s was opened", url)
		}
		contains(t, err.Error(), want...)
		if _, err := redis.Diagnose(t.Context(), redis.Config{URL: url}, redis.Diagnosis{}); err == nil {
			t.Errorf("doctor looked at %s", url)
		} else {
			contains(t, err.Error(), want...)
		}
	}
}

// What a namespace was created with is fixed.
func TestNamespaceIsFixed(t *testing.T) {
	t.Parallel()
	prefix, url := redistest.Prefix(t), redistest.URL(t)
	for range 2 {
		if _, err := opened(t, redis.Config{URL: url, Prefix: prefix, Partitions: 2}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := opened(t, redis.Config{URL: url, Prefix: prefix, Partitions: 4})
	if err == nil {
		t.Fatal("another number of partitions was accepted")
	}
	contains(t, err.Error(), prefix, "2 partitions", "4", "key prefix")

	if err := redistest.Client(t).HSet(t.Context(), prefix+":namespace", "schema", "2").Err(); err != nil {
		t.Fatal(err)
	}
	_, err = opened(t, redis.Config{URL: url, Prefix: prefix, Partitions: 2})
	if err == nil {
		t.Fatal("a newer schema was accepted")
	}
	contains(t, err.Error(), "schema 2", "newer release")

	if err := redistest.Client(t).HDel(t.Context(), prefix+":namespace", "schema").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err = opened(t, redis.Config{URL: url, Prefix: prefix, Partitions: 2}); execution.CodeOf(err) != execution.CodeCorrupt {
		t.Errorf("error is %v", err)
	}
}

// A server that is down makes operations fail as unavailable, and the store works again when it is back.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	server := redistest.Private(t, redistest.Options{AppendFsync: "always"})
	k := openKit(t, redis.Config{URL: server.URL(), Prefix: "back", Timeout: time.Second})
	id := k.submit()
	server.Kill()
	k.refused(k.store.Check(t.Context()), execution.CodeUnavailable)
	_, err := k.store.Submit(t.Context(), k.submission())
	k.refused(err, execution.CodeUnavailable)
	server.Restart()
	k.ok(k.store.Check(t.Context()))
	if got := k.read(id).Control.Status; got != execution.Queued {
		t.Errorf("status %s", got)
	}
}

// A frozen server holds a call no longer than its context, or its timeout, allows.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	k := ownKit(t, redis.Config{Prefix: "frozen", Timeout: 300 * time.Millisecond})
	k.own.Pause()
	defer k.own.Resume()
	start := time.Now()
	k.refused(k.store.Check(t.Context()), execution.CodeUnavailable)
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("the check took %v", d)
	}
}

// A call on a frozen server ends with its context, canceled or past its deadline, and closing the store waits for nothing.
func TestCallsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	k := ownKit(t, redis.Config{Prefix: "frozen", Timeout: time.Hour})
	k.own.Pause()
	defer k.own.Resume()
	deadline, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	canceled, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	for _, call := range []struct {
		ctx  context.Context
		want error
	}{{deadline, context.DeadlineExceeded}, {canceled, context.Canceled}, {canceled, context.Canceled}} {
		_, err := k.store.Submit(call.ctx, k.submission())
		k.refused(err, execution.CodeUnavailable)
		if !errors.Is(err, call.want) {
			t.Errorf("%v is not %v", err, call.want)
		}
	}
	k.ok(k.store.Close())
}
