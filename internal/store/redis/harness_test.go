package redis_test

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// standing is a store in a namespace of its own whose clock stands still.
func standing(tb testing.TB, partitions int, limits store.Limits) (*redis.Store, *movable) {
	tb.Helper()
	return standingAt(tb, redis.Config{URL: redistest.URL(tb), Partitions: partitions, Limits: limits})
}

func standingAt(tb testing.TB, c redis.Config) (*redis.Store, *movable) {
	tb.Helper()
	prefix := redistest.Prefix(tb)
	c.Prefix = prefix
	c = redis.StandingClock(c)
	s, err := redis.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { closeStore(tb, s) })
	clock := &movable{t: tb, store: s, client: redistest.Client(tb), prefix: prefix}
	clock.set(time.Now())
	if err := s.Open(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return s, clock
}

func closeStore(tb testing.TB, s *redis.Store) {
	tb.Helper()
	if err := s.Close(); err != nil {
		tb.Errorf("close: %v", err)
	}
}

// movable is the clock of one namespace.
type movable struct {
	t      testing.TB
	store  *redis.Store
	client goredis.UniversalClient
	prefix string
	now    int64 // microseconds
}

func (m *movable) set(to time.Time) {
	m.now = to.UnixMicro()
	m.write()
}

func (m *movable) write() {
	m.t.Helper()
	for p := range m.store.Partitions() {
		if err := m.client.Set(m.ctx(), m.store.ClockKey(p), strconv.FormatInt(m.now, 10), 0).Err(); err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m *movable) ctx() context.Context { return context.Background() }

// advance moves the clock, and with it the end of what has one of its own. The backstop of ended executions stays: it is a
// day behind maintenance, which tests call when they like.
func (m *movable) advance(d time.Duration) {
	m.t.Helper()
	m.step(d)
	for _, kind := range []string{":l:*", ":batch:*", ":turn:*"} {
		for _, key := range redistest.Keys(m.t, m.prefix+":{*}"+kind) {
			m.age(key, d)
		}
	}
}

// step moves the clock alone, in one write, so that others may use the store meanwhile.
func (m *movable) step(d time.Duration) {
	m.t.Helper()
	m.now += d.Microseconds()
	m.write()
}

func (m *movable) age(key string, d time.Duration) {
	m.t.Helper()
	left, err := m.client.PTTL(m.ctx(), key).Result()
	if err == nil && left > 0 {
		err = m.client.PExpire(m.ctx(), key, left-d).Err()
	}
	if err != nil {
		m.t.Fatal(err)
	}
}
