package e2e

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/redistest"
)

// What has passed its retention goes, with all that belongs to it, and fast: afterwards Redis holds what it held before.
func TestRetention(t *testing.T) {
	count, ttl, memory := 2_000, 3*time.Second, int64(4<<20) // a small part of which is noise
	if long() {
		count, ttl, memory = 100_000, 90*time.Second, 2<<20
	}
	f := newFleet(t, 1, redistest.Options{}, start, "--max-nonterminal", "0", "--terminal-ttl", ttl.String(), "--slots", "50",
		"--stream-ttl", ttl.String())
	f.submit("echo", `1`) // what every namespace has, and the scripts
	f.atRest()
	before := f.usedMemory()

	var all sync.WaitGroup
	const submitters = 16
	for range submitters {
		all.Go(func() {
			for range count / submitters {
				f.ask(http.StatusAccepted, "POST", "/v1/deployments/echo/executions", `{"input":"a piece of work"}`)
			}
		})
	}
	all.Wait()
	f.atRest()
	f.down(0).kill() // nobody removes until all of it is overdue
	full := f.redis.Client().DBSize(f.ctx).Val()
	eventually(t, f.ctx, "all retention is over", func() bool {
		last := f.redis.Client().ZRevRangeWithScores(f.ctx, f.key("retention"), 0, 0).Val()
		return len(last) == 1 && int64(last[0].Score) < time.Now().UnixMilli()
	})
	overdue := f.redis.Client().ZCard(f.ctx, f.key("retention")).Val()
	begin := time.Now()
	f.replace(0)
	eventually(t, f.ctx, "nothing is overdue", func() bool { return f.redis.Client().ZCard(f.ctx, f.key("retention")).Val() == 0 })
	took := time.Since(begin)
	rate := float64(overdue) / took.Seconds()
	t.Logf("figures: %d keys; %d executions removed in %s, start of the process included: %.0f a second", full, overdue, took, rate)
	if overdue >= 10_000 && rate < 2000 {
		t.Errorf("%.0f are removed a second, at least 2,000", rate)
	}
	roots := []string{"windrow:namespace", f.key("served"), f.key("workers"), f.key("stamp")}
	eventually(t, f.ctx, "only the roots are left", func() bool {
		left := f.redis.Client().Keys(f.ctx, "*").Val()
		return !slices.ContainsFunc(left, func(key string) bool { return !slices.Contains(roots, key) && !f.brief(key) })
	})
	eventually(t, f.ctx, "memory is back", func() bool { return f.usedMemory()-before < memory })
	t.Logf("figures: %d bytes more than before", f.usedMemory()-before)
}

// brief reports whether the key goes by itself soon: the batch that a poll remembers.
func (f *fleet) brief(key string) bool {
	left := f.redis.Client().PTTL(f.ctx, key).Val()
	return left > 0 && left <= time.Minute
}

func (f *fleet) usedMemory() int64 {
	f.t.Helper()
	info, err := f.redis.Client().InfoMap(context.WithoutCancel(f.ctx), "memory").Result()
	if err != nil {
		f.t.Fatal(err)
	}
	n, err := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}
