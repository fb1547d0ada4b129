package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// settleTimeout bounds each wait for several servers to agree. A Sentinel that finds itself on a stalled machine does
	// nothing for 30 s.
	settleTimeout = 90 * time.Second
	// settleInterval is the pause between two looks at servers that are to agree.
	settleInterval = 20 * time.Millisecond
)

// set is the servers of one topology.
type set struct {
	url       string
	nodes     []*node // that hold data
	sentinels []*node
}

// startSet starts what the topology has.
func startSet(topology, binary string, options Options) (s *set, err error) {
	s = &set{}
	switch topology {
	case cluster:
		err = s.startCluster(binary, options)
	case sentinel:
		err = s.startReplicated(binary, options)
	default:
		err = s.startSingle(binary, options)
	}
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *set) startSingle(binary string, options Options) error {
	n, err := s.start(binary, freePort, options.args())
	if err == nil {
		s.url = n.URL()
	}
	return err
}

// start starts a server that holds data.
func (s *set) start(binary string, pick func() (int, error), args []string) (*node, error) {
	dir, err := newDir()
	if err != nil {
		return nil, err
	}
	n, err := startNode(binary, dir, pick, args)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.nodes = append(s.nodes, n)
	return n, nil
}

func newDir() (string, error) {
	dir, err := os.MkdirTemp("", "windrow-redis-")
	if err != nil {
		return "", fmt.Errorf("directory of the server: %w", err)
	}
	return dir, nil
}

// all are the servers, with the Sentinels first: what they see must not become a failover when all are ended.
func (s *set) all() []*node {
	return append(slices.Clip(s.sentinels), s.nodes...)
}

// stop ends the servers and removes what they left.
func (s *set) stop() error {
	var failures []error
	for _, n := range s.all() {
		n.giveUp()
		failures = append(failures, os.RemoveAll(n.dir))
	}
	return errors.Join(failures...)
}

// settle waits until check finds nothing to wait for.
func settle(check func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	return poll(ctx, settleInterval, nil, func() error { return check(ctx) })
}

// Servers are those of one test alone, in some topology, which may freeze them. They end with the test.
type Servers struct {
	set    *set
	t      testing.TB
	client redis.UniversalClient
}

// Own starts servers in the topology of the shared one, for this test alone. The test fails, with the remedies, when there is
// no server binary.
func Own(t testing.TB, options Options) *Servers {
	t.Helper()
	topology, err := shared.around.topology()
	if err != nil {
		t.Fatal(err)
	}
	return shared.around.own(t, topology, options)
}

func (s surroundings) own(t testing.TB, topology string, options Options) *Servers {
	t.Helper()
	servers, err := startSet(topology, s.needBinary(t), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servers.stop(); err != nil {
			t.Errorf("stop the servers: %v", err)
		}
	})
	client, err := clientOf(servers.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // a test may have closed it before
	return &Servers{set: servers, t: t, client: client}
}

// URL returns the URL of the servers, in the form that the Redis store takes.
func (s *Servers) URL() string { return s.set.url }

// Client returns a client of the servers, closed when the test ends.
func (s *Servers) Client() redis.UniversalClient { return s.client }

// EachMaster calls f with a client of each server that takes writes.
func (s *Servers) EachMaster(f func(ctx context.Context, node *redis.Client) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	if err := eachMaster(ctx, s.client, f); err != nil {
		s.t.Fatal(err)
	}
}

// Pause freezes all servers with SIGSTOP.
func (s *Servers) Pause() {
	s.t.Helper()
	s.send(syscall.SIGSTOP)
}

// Resume lets paused servers go on.
func (s *Servers) Resume() {
	s.t.Helper()
	s.send(syscall.SIGCONT)
}

func (s *Servers) send(sig syscall.Signal) {
	s.t.Helper()
	for _, n := range s.set.all() {
		if err := n.signal(sig); err != nil {
			s.t.Fatal(err)
		}
	}
}

// AwaitReplicas returns when all replicas have what their masters had at the call: what was written before it survives each
// failover that follows.
func (s *Servers) AwaitReplicas() {
	s.t.Helper()
	var offsets map[string]int64 // of the masters, by port
	s.await("ask the masters", func(ctx context.Context) (err error) {
		offsets, err = s.set.masterOffsets(ctx)
		return err
	})
	s.await("wait for the replicas", func(ctx context.Context) error {
		for _, n := range s.set.up() {
			if err := hasAll(ctx, n, offsets); err != nil {
				return err
			}
		}
		return nil
	})
}

// masterOffsets is how much each master has written for its replicas, by its port.
func (s *set) masterOffsets(ctx context.Context) (map[string]int64, error) {
	offsets := map[string]int64{}
	for _, n := range s.up() {
		info, err := n.client.Info(ctx, "replication").Result()
		if err != nil {
			return nil, err
		}
		if infoField(info, "role") != "master" {
			continue
		}
		if offsets[strconv.Itoa(n.port)], err = strconv.ParseInt(infoField(info, "master_repl_offset"), 10, 64); err != nil {
			return nil, err
		}
	}
	return offsets, nil
}

// hasAll returns nil when the server is no replica, or one that has what its master had at its offset.
func hasAll(ctx context.Context, n *node, offsets map[string]int64) error {
	info, err := n.client.Info(ctx, "replication").Result()
	if err != nil || infoField(info, "role") != "slave" {
		return err
	}
	want, known := offsets[infoField(info, "master_port")]
	has, err := strconv.ParseInt(infoField(info, "slave_repl_offset"), 10, 64)
	if err == nil && (!known || has < want) {
		err = fmt.Errorf("replica %s is at %d, its master was at %d", n.addr(), has, want)
	}
	return err
}

// await ends the test when check never comes to nil.
func (s *Servers) await(what string, check func(ctx context.Context) error) {
	s.t.Helper()
	if err := settle(check); err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}

func (s *Servers) server(n *node) *Server { return &Server{node: n, t: s.t} }

func eachMaster(ctx context.Context, client redis.UniversalClient, f func(ctx context.Context, node *redis.Client) error) error {
	switch c := client.(type) {
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, f)
	case *redis.Client:
		return f(ctx, c)
	default:
		return fmt.Errorf("client of unknown kind %T", client)
	}
}

// clientOf makes a client for the forms of URL that the harness hands out.
func clientOf(url string) (redis.UniversalClient, error) {
	if hosts, ok := strings.CutPrefix(url, "redis+cluster://"); ok {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(hosts, ",")}), nil
	}
	if rest, ok := strings.CutPrefix(url, "redis-sentinel://"); ok {
		hosts, master, _ := strings.Cut(rest, "/")
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: master, SentinelAddrs: strings.Split(hosts, ",")}), nil
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(options), nil
}
