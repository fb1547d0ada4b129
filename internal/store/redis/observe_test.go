package redis_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// Each exchange is told of once, by the name of its script.
func TestObserve(t *testing.T) {
	t.Parallel()
	type exchange struct {
		Script              string
		Exchanges, Commands int
		Outcome             string
	}
	var mu sync.Mutex
	var seen []exchange
	server := redistest.Private(t, redistest.Options{})
	k := openKit(t, redis.Config{URL: server.URL(), Partitions: 3, Timeout: time.Second,
		Observe: func(script string, exchanges, commands int, d time.Duration, outcome string) {
			mu.Lock()
			defer mu.Unlock()
			if d <= 0 {
				t.Errorf("%s took %v", script, d)
			}
			seen = append(seen, exchange{script, exchanges, commands, outcome})
		}})
	k.ok(k.store.TellScripts(t.Context()))
	seen = nil
	k.submit()
	k.ok(k.store.Check(t.Context()))
	server.Kill()
	if k.store.Check(t.Context()) == nil {
		t.Error("a dead server passed the check")
	}
	want := []exchange{{"submit", 1, 1, "ok"}, {"check", 1, 3, "ok"}, {"check", 1, 3, "store_unavailable"}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
