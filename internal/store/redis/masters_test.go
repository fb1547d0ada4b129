package redis_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/faultkit"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// The work of a namespace spreads over the masters: the busiest of three spends far less than what one alone spends on the same
// executions. It is more than a third, since a server that is not busy pays for each connection what a busy one pays for many at once.
func TestBudgetMasters(t *testing.T) {
	executions := faultkit.Count(t, 3000, 60_000)
	one := loadedMasters(t, 1, executions)
	three := loadedMasters(t, 3, executions)
	t.Logf("figures: CPU of Redis for an execution: one master %s, three masters %s", one, three)
	if len(one) != 1 || len(three) != 3 {
		t.Fatalf("%d and %d masters have worked, want 1 and 3", len(one), len(three))
	}
	if three[2] > one[0]*2/3 {
		t.Errorf("the busiest of three masters spends %s, one alone %s", three[2], one[0])
	}
	if three[0] < three[2]/2 {
		t.Errorf("the idlest of three masters spends %s, the busiest %s", three[0], three[2])
	}
}

// loadedMasters runs executions on a cluster, in six partitions, and returns the CPU time that each master spent for one, the
// idlest first.
func loadedMasters(t *testing.T, masters, executions int) []time.Duration {
	t.Helper()
	cluster := redistest.Cluster(t, redistest.Options{Masters: masters})
	k := openKit(t, redis.Config{URL: cluster.URL(), Partitions: 6})
	c := &crowd{T: t, store: k.store, revs: []store.Revision{{Deployment: "kind", Revision: "1"}}}
	c.spread(100, c.finish) // scripts become known
	before := spentBy(cluster)
	c.spread(executions, c.finish)
	var each []time.Duration
	for addr, after := range spentBy(cluster) {
		each = append(each, (after-before[addr])/time.Duration(executions))
	}
	slices.Sort(each)
	return each
}

// spentBy is the CPU time that each master has spent so far, by its address.
func spentBy(cluster *redistest.ClusterServers) map[string]time.Duration {
	var mu sync.Mutex
	out := map[string]time.Duration{}
	cluster.EachMaster(func(ctx context.Context, node *goredis.Client) error {
		info, err := node.InfoMap(ctx, "cpu").Result()
		if err != nil {
			return err
		}
		var total time.Duration
		for _, kind := range []string{"used_cpu_sys", "used_cpu_user"} {
			seconds, err := strconv.ParseFloat(info["CPU"][kind], 64)
			if err != nil {
				return err
			}
			total += time.Duration(seconds * float64(time.Second))
		}
		mu.Lock()
		defer mu.Unlock()
		out[node.Options().Addr] = total
		return nil
	})
	return out
}
