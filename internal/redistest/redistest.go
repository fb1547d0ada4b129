package redistest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

const (
	// commandTimeout bounds each thing the harness itself asks a server.
	commandTimeout = 30 * time.Second
	// scanCount is how many keys a step of the clean-up looks at.
	scanCount = 1000
	// prefixLength is the number of random characters of a prefix: 60 bits.
	prefixLength = 12
)

// shared is the server of this test process. It is the one piece of state that
// a package must hold for tests that know nothing of each other.
var shared = &harness{around: surroundings{getenv: os.Getenv, lookPath: exec.LookPath, docker: dockerAnswers}}

// harness starts at most one server and remembers how that went.
type harness struct {
	around surroundings

	mu      sync.Mutex // guards the following
	started bool
	url     string
	err     error
	stop    func() error
	client  redis.UniversalClient // of all tests; nil: nobody asked for one
}

// URL returns the URL of the shared server of this test process, started when
// first asked for. The test fails at once, with the remedies, when there is none.
func URL(t testing.TB) string {
	t.Helper()
	return shared.mustURL(t)
}

// Client returns a client of the shared server, or of all that stand in its
// place. All tests of the process share it, so that it may be asked for again
// and again.
func Client(t testing.TB) redis.UniversalClient {
	t.Helper()
	return shared.mustClient(t)
}

// Keys returns the keys of the shared server that match a pattern, of all masters.
func Keys(t testing.TB, pattern string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	var mu sync.Mutex
	var all []string
	err := scan(ctx, Client(t), pattern, func(_ *redis.Client, keys []string) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, keys...)
		return nil
	})
	if err != nil {
		t.Fatalf("list the keys %s: %v", pattern, err)
	}
	return all
}

// Prefix returns a key prefix that no other test has, free of characters that
// mean something in a pattern or a hash tag. All keys of the shared server that
// start with it are removed when the test ends.
func Prefix(t testing.TB) string {
	t.Helper()
	client := Client(t)
	prefix := "t" + strings.ToLower(rand.Text()[:prefixLength])
	t.Cleanup(func() {
		if err := removeKeys(client, prefix); err != nil {
			t.Errorf("remove the keys under %s: %v", prefix, err)
		}
	})
	return prefix
}

// Version is what a server says it is.
type Version struct {
	Product             string // "redis" or "valkey"
	Major, Minor, Patch int    // of the product itself, not of what it is compatible with
}

// String returns, for example, "redis 7.0.15".
func (v Version) String() string {
	return fmt.Sprintf("%s %d.%d.%d", v.Product, v.Major, v.Minor, v.Patch)
}

// ServerVersion returns the version of the shared server.
func ServerVersion(t testing.TB) Version {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	info, err := Client(t).Info(ctx, "server").Result()
	if err != nil {
		t.Fatalf("ask the server for its version: %v", err)
	}
	version, err := parseVersion(info)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return version
}

// Main runs the tests of a package, stops the shared server if one was
// started, and then fails the run if goroutines were left behind:
//
//	func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }
//
// The options go to goleak.
func Main(m *testing.M, options ...goleak.Option) int {
	redis.SetLogger(silent{})
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintf(os.Stderr, "redistest: stop the server: %v\n", err)
		code = max(code, 1)
	}
	if code != 0 {
		return code // a failed test often leaves goroutines; naming them would hide the failure
	}
	if err := goleak.Find(options...); err != nil {
		fmt.Fprintf(os.Stderr, "goleak: %v\n", err)
		return 1
	}
	return 0
}

// silent drops what the client of Redis would print: it comes back as errors too.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// mustURL returns the server's URL, starting it first if need be. A failure is
// remembered: what is missing for one test is missing for all.
func (h *harness) mustURL(t testing.TB) string {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.started {
		h.started = true
		h.url, h.stop, h.err = h.around.open()
	}
	if h.err != nil {
		t.Fatalf("%v", h.err)
	}
	return h.url
}

func (h *harness) mustClient(t testing.TB) redis.UniversalClient {
	t.Helper()
	url := h.mustURL(t)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.client == nil {
		client, err := clientOf(url)
		if err != nil {
			t.Fatalf("the URL of the server: %v", err)
		}
		h.client = client
	}
	return h.client
}

// close stops the server, if one was started.
func (h *harness) close() (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.client != nil {
		err = h.client.Close()
		h.client = nil
	}
	if h.stop == nil {
		return err
	}
	stop := h.stop
	h.stop = nil
	return errors.Join(err, stop())
}

// open brings up a server from wherever it is to come.
func (s surroundings) open() (url string, stop func() error, err error) {
	src, err := s.locate()
	if err != nil {
		return "", nil, err
	}
	switch src.from {
	case fromPath:
		return s.openBinary(src.value)
	case fromDocker:
		return runContainer(src.value)
	default:
		return src.value, func() error { return nil }, checkURL(src.value)
	}
}

// openBinary starts servers without persistence, in the topology that is asked for.
func (s surroundings) openBinary(binary string) (url string, stop func() error, err error) {
	topology, err := s.topology()
	if err != nil {
		return "", nil, err
	}
	servers, err := startSet(topology, binary, Options{})
	if err != nil {
		return "", nil, err
	}
	return servers.url, servers.stop, nil
}

// checkURL makes sure that a server answers where WINDROW_TEST_REDIS_URL points.
func checkURL(url string) error {
	options, err := redis.ParseURL(url)
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", envURL, err, remedies)
	}
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }() // it only asked
	if err := client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("%s: no answer: %w\n%s", envURL, err, remedies)
	}
	return nil
}

func loopbackURL(port int) string { return "redis://127.0.0.1:" + strconv.Itoa(port) + "/0" }

// removeKeys unlinks every key under prefix.
func removeKeys(client redis.UniversalClient, prefix string) error {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	return scan(ctx, client, prefix+"*", func(node *redis.Client, keys []string) error {
		_, err := node.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, key := range keys { // one by one: they may lie in several slots
				pipe.Unlink(ctx, key)
			}
			return nil
		})
		return err
	})
}

// scan hands out the keys of all masters that match a pattern, a bounded step at a time. On a cluster several calls of f may
// run at once.
func scan(ctx context.Context, client redis.UniversalClient, pattern string, f func(node *redis.Client, keys []string) error) error {
	return eachMaster(ctx, client, func(ctx context.Context, node *redis.Client) error {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, pattern, scanCount).Result()
			if err == nil && len(keys) > 0 {
				err = f(node, keys)
			}
			if err != nil || next == 0 {
				return err
			}
			cursor = next
		}
	})
}

// parseVersion reads a version from the server section of INFO. Valkey reports
// the Redis version that it is compatible with beside its own.
func parseVersion(info string) (Version, error) {
	v := Version{Product: "redis"}
	number := infoField(info, "redis_version")
	if own := infoField(info, "valkey_version"); own != "" {
		v.Product, number = "valkey", own
	}
	if _, err := fmt.Sscanf(number, "%d.%d.%d", &v.Major, &v.Minor, &v.Patch); err != nil {
		return Version{}, fmt.Errorf("server version %q: %w", number, err)
	}
	return v, nil
}
