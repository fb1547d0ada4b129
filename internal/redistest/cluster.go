package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

const (
	slots          = 16384
	defaultMasters = 3
	// How long a member of a cluster may be silent before the others take it for dead, in milliseconds. Where nobody could
	// take its place, that only turns a stall of the machine into a failure.
	nodeTimeout, patientTimeout = "1000", "15000"
)

// startCluster starts the members, makes them know each other, and waits until they agree.
func (s *set) startCluster(binary string, options Options) error {
	masters := options.Masters
	if masters == 0 {
		masters = defaultMasters
	}
	timeout := patientTimeout
	if options.Replicas > 0 {
		timeout = nodeTimeout
	}
	args := append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", timeout, "--cluster-replica-validity-factor", "0",
		"--cluster-migration-barrier", "100", "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"}, options.args()...)
	var addrs []string
	for range masters * (1 + options.Replicas) {
		n, err := s.start(binary, freeClusterPort, args)
		if err != nil {
			return err
		}
		addrs = append(addrs, n.addr())
	}
	s.url = "redis+cluster://" + strings.Join(addrs, ",")
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	if err := s.join(ctx, masters); err != nil {
		return fmt.Errorf("join the cluster: %w", err)
	}
	if err := settle(s.clusterAgrees); err != nil {
		return fmt.Errorf("wait for the cluster: %w", err)
	}
	return nil
}

// join gives the first nodes their slots, introduces the others, and makes them replicas in turn.
func (s *set) join(ctx context.Context, masters int) error {
	for i, n := range s.nodes {
		if err := n.client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return err
		}
		for _, other := range s.nodes[:i] {
			if err := n.client.ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(other.port)).Err(); err != nil {
				return err
			}
		}
		if i >= masters {
			continue
		}
		if err := n.client.ClusterAddSlotsRange(ctx, slots*i/masters, slots*(i+1)/masters-1).Err(); err != nil {
			return err
		}
	}
	for i, n := range s.nodes[masters:] {
		id, err := s.nodes[i%masters].client.ClusterMyID(ctx).Result()
		if err != nil {
			return err
		}
		// A node takes nobody for its master whom it does not know yet.
		if err := poll(ctx, settleInterval, nil, func() error { return n.client.ClusterReplicate(ctx, id).Err() }); err != nil {
			return err
		}
	}
	return nil
}

// clusterAgrees returns nil when each member that is up says that the cluster works, all tell of the same slots and of each
// other, and no replica lags behind for want of a connection.
func (s *set) clusterAgrees(ctx context.Context) error {
	first, known := "", 0
	for _, n := range s.up() {
		info, err := n.client.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		if state := infoField(info, "cluster_state"); state != "ok" {
			return fmt.Errorf("%s says that the cluster is %s", n.addr(), state)
		}
		said, members, err := layout(ctx, n)
		if err != nil {
			return err
		}
		if first == "" {
			first, known = said, members
		}
		if said != first {
			return fmt.Errorf("%s says %q, another %q", n.addr(), said, first)
		}
		if err := inSync(ctx, n); err != nil {
			return err
		}
	}
	if want := len(s.up()); known != want {
		return fmt.Errorf("%d members are known, want %d: %s", known, want, first)
	}
	return nil
}

// up are the nodes that were not killed.
func (s *set) up() []*node {
	return slices.DeleteFunc(slices.Clone(s.nodes), func(n *node) bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.process == nil
	})
}

// layout is what a member says of all slots, in a form that compares, and how many members serve them.
func layout(ctx context.Context, n *node) (text string, members int, err error) {
	ranges, err := slotsOf(ctx, n)
	if err != nil {
		return "", 0, err
	}
	serving := map[string]bool{}
	var lines []string
	for _, r := range ranges {
		var addrs []string
		for _, member := range r.Nodes {
			serving[member.Addr] = true
			addrs = append(addrs, member.Addr)
		}
		slices.Sort(addrs[min(1, len(addrs)):]) // the master comes first
		lines = append(lines, fmt.Sprintf("%05d-%d:%s", r.Start, r.End, strings.Join(addrs, ",")))
	}
	slices.Sort(lines)
	return strings.Join(lines, " "), len(serving), nil
}

// slotsOf is what a member says of all slots. CLUSTER SHARDS, which is to take its place, is not there before Redis 7.
func slotsOf(ctx context.Context, n *node) ([]redis.ClusterSlot, error) {
	return n.client.ClusterSlots(ctx).Result() //nolint:staticcheck // see above
}

// inSync returns nil when the server is no replica, or one that has all that its master had.
func inSync(ctx context.Context, n *node) error {
	info, err := n.client.Info(ctx, "replication").Result()
	if err != nil {
		return err
	}
	if infoField(info, "role") == "slave" && infoField(info, "master_link_status") != "up" {
		return fmt.Errorf("replica %s has lost its master", n.addr())
	}
	return nil
}

// ClusterServers are a cluster of one test alone.
type ClusterServers struct{ *Servers }

// Cluster starts a cluster for this test alone. It ends with the test. The test fails, with the remedies, when there is no
// server binary.
func Cluster(t testing.TB, options Options) *ClusterServers {
	t.Helper()
	return &ClusterServers{shared.around.own(t, cluster, options)}
}

// MasterOf returns the master that holds a key, as the members that are up see it.
func (c *ClusterServers) MasterOf(key string) *Server {
	c.t.Helper()
	return c.member(key, 0)
}

// ReplicaOf returns the first replica of the master that holds a key.
func (c *ClusterServers) ReplicaOf(key string) *Server {
	c.t.Helper()
	return c.member(key, 1)
}

// member returns the i-th member that serves a key: the master, then its replicas.
func (c *ClusterServers) member(key string, i int) (found *Server) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	for _, n := range c.set.up() {
		slot, err := n.client.ClusterKeySlot(ctx, key).Result()
		if err != nil {
			continue // frozen, perhaps
		}
		ranges, err := slotsOf(ctx, n)
		if err != nil {
			continue
		}
		for _, r := range ranges {
			if int(slot) >= r.Start && int(slot) <= r.End && i < len(r.Nodes) {
				return c.at(r.Nodes[i].Addr)
			}
		}
	}
	c.t.Fatalf("no member %d serves the key", i)
	return nil
}

func (c *ClusterServers) at(addr string) *Server {
	for _, n := range c.set.nodes {
		if n.addr() == addr {
			return c.server(n)
		}
	}
	c.t.Fatalf("no member has the address %s", addr)
	return nil
}

// Failover makes a replica the master of what holds a key, without loss, and returns when all agree.
func (c *ClusterServers) Failover(key string) {
	c.t.Helper()
	old, next := c.MasterOf(key), c.ReplicaOf(key)
	c.await("fail over", func(ctx context.Context) error { return next.client.ClusterFailover(ctx).Err() })
	c.await("wait for the failover", func(ctx context.Context) error { return c.set.masterIsNot(ctx, old.node, key) })
	c.AwaitAgreement()
}

// AwaitFailover returns when the members that answer have another master than old for a key.
func (c *ClusterServers) AwaitFailover(old *Server, key string) {
	c.t.Helper()
	c.await("wait for the failover", func(ctx context.Context) error { return c.set.masterIsNot(ctx, old.node, key) })
}

// masterIsNot returns nil when all others say that a master other than old holds the key.
func (s *set) masterIsNot(ctx context.Context, old *node, key string) error {
	for _, n := range s.up() {
		if n == old {
			continue
		}
		slot, err := n.client.ClusterKeySlot(ctx, key).Result()
		if err != nil {
			return err
		}
		ranges, err := slotsOf(ctx, n)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(ranges, func(r redis.ClusterSlot) bool {
			return int(slot) >= r.Start && int(slot) <= r.End && r.Nodes[0].Addr == old.addr()
		}) {
			return errors.New(n.addr() + " still has the old master")
		}
	}
	return nil
}

// AwaitAgreement returns when all members that are up agree, and replicas have what their masters had.
func (c *ClusterServers) AwaitAgreement() {
	c.t.Helper()
	c.await("wait for the cluster", c.set.clusterAgrees)
}
