package redistest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Three masters share the slots evenly, and a client finds a key wherever it lies.
func TestCluster(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	c := Cluster(t, Options{})
	masters := map[string]bool{}
	for _, key := range []string{"{a}", "{b}", "{c}", "{d}", "{e}", "{f}"} {
		if err := c.Client().Set(ctx, key, key, 0).Err(); err != nil {
			t.Fatalf("set: %v", err)
		}
		master := c.MasterOf(key)
		if got := master.Client().Get(ctx, key).Val(); got != key {
			t.Errorf("the master of %s has %q", key, got)
		}
		masters[master.URL()] = true
	}
	if len(masters) != 3 || strings.Count(c.URL(), ",") != 2 {
		t.Errorf("keys lie on %d masters of %s, want 3", len(masters), c.URL())
	}
}

// A replica takes over, by request and when its master dies, and the old master comes back as a replica.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	c := Cluster(t, Options{Replicas: 1})
	if err := c.Client().Set(ctx, "key", "value", 0).Err(); err != nil {
		t.Fatalf("set: %v", err)
	}
	c.AwaitReplicas()
	first, second := c.MasterOf("key"), c.ReplicaOf("key")
	c.Failover("key")
	if got := c.MasterOf("key"); got.node != second.node {
		t.Errorf("master is %s, want %s", got.URL(), second.URL())
	}
	second.Kill()
	c.AwaitFailover(second, "key")
	second.Restart()
	c.AwaitAgreement()
	if got := c.MasterOf("key"); got.node != first.node || c.ReplicaOf("key").node != second.node {
		t.Errorf("master is %s, want %s", got.URL(), first.URL())
	}
	if got := first.Client().Get(ctx, "key").Val(); got != "value" {
		t.Errorf("the key holds %q after two failovers", got)
	}
}

// The replica takes over, by request and when the primary dies, as often as one likes.
func TestReplicated(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	r := Replicated(t, Options{})
	first := r.Primary()
	if err := r.Client().Set(ctx, "key", "value", 0).Err(); err != nil {
		t.Fatalf("set: %v", err)
	}
	r.AwaitReplicas()
	if got := r.Replica().Client().Get(ctx, "key").Val(); got != "value" {
		t.Fatalf("the replica has %q, want the value", got)
	}
	if killed := r.KillPrimary(); killed.node != first.node || r.Primary().node == first.node {
		t.Fatalf("%s was killed and %s took over, the primary was %s", killed.URL(), r.Primary().URL(), first.URL())
	}
	r.Rejoin(first)
	if r.Replica().node != first.node {
		t.Error("who was killed did not come back as the replica")
	}
	r.Failover()
	if r.Primary().node != first.node {
		t.Error("the replica did not become the primary")
	}
	if got := first.Client().Get(ctx, "key").Val(); got != "value" {
		t.Errorf("the key holds %q after two failovers", got)
	}
}

// The shared server may be several, which end with the test process.
func TestTopologyOfTheSharedServer(t *testing.T) {
	t.Parallel()
	for topology, want := range map[string]string{cluster: "redis+cluster://", sentinel: "redis-sentinel://"} {
		t.Run(topology, func(t *testing.T) {
			t.Parallel()
			h := &harness{around: surroundings{lookPath: exec.LookPath, getenv: func(name string) string {
				return map[string]string{envTopology: topology, envBinary: os.Getenv(envBinary)}[name]
			}}}
			if url := h.mustURL(t); !strings.HasPrefix(url, want) {
				t.Errorf("URL is %s", url)
			}
			client, ctx := h.mustClient(t), testContext(t)
			for _, key := range []string{"x{a}", "x{b}", "x{c}"} {
				if err := client.Set(ctx, key, "1", 0).Err(); err != nil {
					t.Errorf("set: %v", err)
				}
			}
			if err := removeKeys(client, "x"); err != nil {
				t.Errorf("remove keys: %v", err)
			}
			left := false
			err := scan(ctx, client, "*", func(_ *redis.Client, _ []string) error { left = true; return nil })
			if err != nil || left {
				t.Errorf("keys are left: %t, %v", left, err)
			}
			if err := h.close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

// Freezing all servers of a test leaves none that answers.
func TestPauseOfAll(t *testing.T) {
	t.Parallel()
	for topology, servers := range map[string]int{single: 1, cluster: 3, sentinel: 5} {
		t.Run(topology, func(t *testing.T) {
			t.Parallel()
			s := shared.around.own(t, topology, Options{})
			if n := len(s.set.all()); n != servers {
				t.Errorf("%d servers, want %d", n, servers)
			}
			s.Pause()
			for _, n := range s.set.all() {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				if err := n.client.Ping(ctx).Err(); err == nil {
					t.Errorf("%s answers", n.addr())
				}
				cancel()
			}
			s.Resume()
			s.EachMaster(func(ctx context.Context, node *redis.Client) error { return node.Ping(ctx).Err() })
		})
	}
}
