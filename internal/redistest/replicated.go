package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

const (
	masterName = "windrow"
	sentinels  = 3
	// What Sentinels are told: they take a primary for dead after a second, and two of them must say so.
	sentinelRules = "sentinel monitor " + masterName + " 127.0.0.1 %d 2\n" +
		"sentinel down-after-milliseconds " + masterName + " 1000\n" +
		"sentinel failover-timeout " + masterName + " 3000\n"
)

// startReplicated starts a primary, its replica and their Sentinels, and waits until these agree.
func (s *set) startReplicated(binary string, options Options) error {
	args := append([]string{"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"}, options.args()...)
	primary, err := s.start(binary, freePort, args)
	if err != nil {
		return err
	}
	replica, err := s.start(binary, freePort, args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	if err := replica.client.ReplicaOf(ctx, "127.0.0.1", strconv.Itoa(primary.port)).Err(); err != nil {
		return err
	}
	if err := settle(func(ctx context.Context) error { return inSync(ctx, replica) }); err != nil {
		return err
	}
	var addrs []string
	for range sentinels {
		n, err := s.startSentinel(binary, primary)
		if err != nil {
			return err
		}
		addrs = append(addrs, n.addr())
	}
	s.url = "redis-sentinel://" + strings.Join(addrs, ",") + "/" + masterName
	if err := settle(s.sentinelsAgree); err != nil {
		return fmt.Errorf("wait for the Sentinels: %w", err)
	}
	return nil
}

func (s *set) startSentinel(binary string, primary *node) (*node, error) {
	dir, err := newDir()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(sentinelFile(dir), fmt.Appendf(nil, sentinelRules, primary.port), 0o600); err != nil {
		return nil, err
	}
	n, err := startNode(binary, dir, freePort, nil)
	if err != nil {
		return nil, err
	}
	s.sentinels = append(s.sentinels, n)
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	// What it takes a Sentinel to see that a primary should be a replica. Redis 6.2 can't be told, and takes 20 s for it.
	_ = n.client.Do(ctx, "SENTINEL", "DEBUG", "INFO-PERIOD", 1000, "PUBLISH-PERIOD", 500).Err()
	return n, nil
}

// sentinelsAgree returns nil when all Sentinels know each other and name the same primary, and each finds it and its replica
// well and in sync.
func (s *set) sentinelsAgree(ctx context.Context) error {
	primary, err := s.named(ctx)
	if err != nil {
		return err
	}
	for _, n := range s.sentinels {
		if err := finds(ctx, n, primary); err != nil {
			return fmt.Errorf("by the Sentinel %s: %w", n.addr(), err)
		}
	}
	for _, n := range s.nodes {
		if err := inSync(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// named is the primary that all Sentinels name, once it takes itself for one.
func (s *set) named(ctx context.Context) (*node, error) {
	var primary *node
	for _, n := range s.sentinels {
		said, err := n.client.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName).StringSlice()
		if err != nil {
			return nil, err
		}
		if primary == nil {
			primary = s.onPort(said[1])
		}
		if primary != s.onPort(said[1]) {
			return nil, errors.New("several primaries are named")
		}
	}
	info, err := primary.client.Info(ctx, "replication").Result()
	if err != nil {
		return nil, err
	}
	if role := infoField(info, "role"); role != "master" {
		return nil, fmt.Errorf("the primary that Sentinels name is a %s", role)
	}
	return primary, nil
}

func (s *set) onPort(port string) *node {
	if s.nodes[0].URL() == "redis://127.0.0.1:"+port+"/0" {
		return s.nodes[0]
	}
	return s.nodes[1]
}

// finds returns nil when a Sentinel finds all well.
func finds(ctx context.Context, n *node, primary *node) error {
	sentinel := redis.NewSentinelClient(n.client.Options())
	defer func() { _ = sentinel.Close() }() // it only asked
	master, err := sentinel.Master(ctx, masterName).Result()
	if err != nil {
		return err
	}
	if master["flags"] != "master" || master["port"] != strconv.Itoa(primary.port) || master["num-other-sentinels"] != strconv.Itoa(sentinels-1) {
		return fmt.Errorf("primary is %s on port %s, and %s others are known", master["flags"], master["port"], master["num-other-sentinels"])
	}
	replicas, err := sentinel.Replicas(ctx, masterName).Result()
	if err != nil {
		return err
	}
	if len(replicas) != 1 || replicas[0]["flags"] != "slave" || replicas[0]["master-link-status"] != "ok" ||
		replicas[0]["master-port"] != strconv.Itoa(primary.port) {
		return fmt.Errorf("replicas are %v", replicas)
	}
	others, err := sentinel.Sentinels(ctx, masterName).Result()
	if err != nil {
		return err
	}
	for _, other := range others {
		// What another said of a former primary (master_down) may stand here for long.
		if strings.Contains(other["flags"], "s_down") || strings.Contains(other["flags"], "disconnected") {
			return fmt.Errorf("another is %s", other["flags"])
		}
	}
	return nil
}

// ReplicatedServers are a primary with a replica and three Sentinels, of one test alone.
type ReplicatedServers struct{ *Servers }

// Replicated starts a primary, a replica and three Sentinels for this test alone. They end with the test. The test fails, with
// the remedies, when there is no server binary.
func Replicated(t testing.TB, options Options) *ReplicatedServers {
	t.Helper()
	return &ReplicatedServers{shared.around.own(t, sentinel, options)}
}

// Primary returns the server that all Sentinels name as the primary, once they agree.
func (r *ReplicatedServers) Primary() *Server {
	r.t.Helper()
	var primary *node
	r.await("look for the primary", func(ctx context.Context) (err error) {
		primary, err = r.set.named(ctx)
		return err
	})
	return r.server(primary)
}

// Replica returns the server that is not the primary.
func (r *ReplicatedServers) Replica() *Server {
	r.t.Helper()
	primary := r.Primary()
	if primary.node == r.set.nodes[0] {
		return r.server(r.set.nodes[1])
	}
	return r.server(r.set.nodes[0])
}

// KillPrimary ends the primary with SIGKILL and returns it when the replica has taken its place.
func (r *ReplicatedServers) KillPrimary() *Server {
	r.t.Helper()
	old := r.Primary()
	old.Kill()
	r.AwaitFailover(old)
	return old
}

// Rejoin starts a killed server again, as the replica of the present primary, and returns when all agree.
func (r *ReplicatedServers) Rejoin(s *Server) {
	r.t.Helper()
	if err := s.restart("--replicaof", "127.0.0.1", strconv.Itoa(r.Primary().port)); err != nil {
		r.t.Fatal(err)
	}
	r.AwaitAgreement()
}

// Failover has the Sentinels make the replica the primary, and returns when all name it. For some seconds more the old one
// takes itself for a primary too: see AwaitAgreement.
func (r *ReplicatedServers) Failover() {
	r.t.Helper()
	old := r.Primary()
	r.await("fail over", func(ctx context.Context) error {
		return r.set.sentinels[0].client.Do(ctx, "SENTINEL", "FAILOVER", masterName).Err()
	})
	r.AwaitFailover(old)
}

// AwaitFailover returns when all Sentinels name another primary than old.
func (r *ReplicatedServers) AwaitFailover(old *Server) {
	r.t.Helper()
	r.await("wait for the failover", func(ctx context.Context) error {
		primary, err := r.set.named(ctx)
		if err == nil && primary == old.node {
			err = errors.New("the old primary is still named")
		}
		return err
	})
}

// AwaitAgreement returns when all Sentinels agree, and the replica has what the primary had.
func (r *ReplicatedServers) AwaitAgreement() {
	r.t.Helper()
	r.await("wait for the Sentinels", r.set.sentinelsAgree)
}
