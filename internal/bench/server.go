package bench

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/config"

	"github.com/windrow-run/windrow/internal/store/redis"
)

// redisServer is the Redis that is measured: one of the benchmark's own, or the one that it was given.
type redisServer struct {
	client  *goredis.Client
	prefix  string // of what the benchmark keeps there
	url     string
	version string

	process *exec.Cmd // nil: it is somebody else's
	exited  chan struct{}
	dir     string
}

const (
	startPatience = 10 * time.Second
	startTries    = 20 // ports: another program may have taken one
	lowestPort    = 20000
	ports         = 12000 // below those that systems hand out by themselves
)

// openRedis starts a server, or attaches to the one at url. Close must be called.
func openRedis(ctx context.Context, url string) (*redisServer, error) {
	goredis.SetLogger(quiet{})
	s := &redisServer{prefix: "bench-" + strings.ToLower(rand.Text()[:12]), url: url}
	if url == "" {
		s.prefix = config.Default().Prefix // nobody else is there, and its length counts
		if err := s.start(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.attach(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// quiet keeps the client from writing to standard error what it also returns.
type quiet struct{}

// Printf says nothing.
func (quiet) Printf(context.Context, string, ...any) {}

func (s *redisServer) start(ctx context.Context) (err error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		if binary, err = exec.LookPath("valkey-server"); err != nil {
			return errors.New("neither redis-server nor valkey-server is on the PATH: install one, or name a server with --redis")
		}
	}
	if s.dir, err = os.MkdirTemp("", "windrow-bench-"); err != nil {
		return err
	}
	for range startTries {
		if err = s.try(ctx, binary, lowestPort+mathrand.IntN(ports)); err == nil {
			return nil
		}
		s.stop()
		if ctx.Err() != nil {
			break
		}
	}
	_ = os.RemoveAll(s.dir)
	return fmt.Errorf("start %s: %w", binary, err)
}

// try starts the server on a port, without persistence.
func (s *redisServer) try(ctx context.Context, binary string, port int) error {
	s.process = exec.Command(binary, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", s.dir, //nolint:noctx // stopped by Close, after what uses it
		"--logfile", filepath.Join(s.dir, "server.log"), "--save", "", "--appendonly", "no")
	if err := s.process.Start(); err != nil {
		s.process = nil
		return err
	}
	s.exited = make(chan struct{})
	go func() {
		_ = s.process.Wait() // how a server ends that is stopped does not matter
		close(s.exited)
	}()
	s.url = fmt.Sprintf("redis://127.0.0.1:%d", port)
	probe := goredis.NewClient(&goredis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", port), MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = probe.Close() }() // it only ever asked
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		info, err := probe.InfoMap(ctx, "server").Result()
		if err == nil && info["Server"]["process_id"] == strconv.Itoa(s.process.Process.Pid) {
			return nil
		}
		select {
		case <-s.exited:
			return errors.New("it ended before it answered")
		case <-ctx.Done():
			return cmp.Or(err, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// attach connects and makes sure that nothing is there under the prefix.
func (s *redisServer) attach(ctx context.Context) error {
	o, err := goredis.ParseURL(s.url)
	if err != nil {
		return errors.New("--redis: it must name one server: redis://[user:password@]host[:port][/database], rediss:// or unix://")
	}
	o.MaxRetries, o.ContextTimeoutEnabled = -1, true
	s.client = goredis.NewClient(o)
	info, err := s.client.InfoMap(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	s.version = cmp.Or(info["Server"]["valkey_version"], info["Server"]["redis_version"])
	keys, _, err := s.client.Scan(ctx, 0, s.prefix+":*", 1000).Result()
	if err == nil && len(keys) > 0 {
		err = fmt.Errorf("redis: the prefix %s is not empty", s.prefix)
	}
	return err
}

// Close stops a server of its own, or removes what the benchmark left in somebody else's.
func (s *redisServer) Close() {
	if s.client != nil {
		if s.process == nil {
			_ = s.clear() // the keys have a prefix of their own; there is nobody to tell
		}
		_ = s.client.Close()
	}
	s.stop()
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

func (s *redisServer) stop() {
	if s.process != nil {
		_ = s.process.Process.Kill() // it may have ended by itself
		<-s.exited
		s.process = nil
	}
}

// clear removes all keys under the prefix.
func (s *redisServer) clear() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for cursor := uint64(0); ; {
		keys, next, err := s.client.Scan(ctx, cursor, s.prefix+":*", 1000).Result()
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			if err := s.client.Unlink(ctx, keys...).Err(); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// empty makes the next case start from nothing.
func (s *redisServer) empty(ctx context.Context) error {
	if s.process != nil {
		return s.client.FlushAll(ctx).Err()
	}
	return s.clear()
}

// proxy stands between clients and the server. The URL is what clients are told.
func (s *redisServer) proxy(ctx context.Context) (p *Proxy, url string, err error) {
	if p, err = newProxy(ctx, s.dial, redis.Digests(redis.Config{})); err != nil {
		return nil, "", err
	}
	return p, s.urlAt("redis", p.Addr()), nil
}

// dial connects, and says nothing yet.
func (s *redisServer) dial(ctx context.Context) (net.Conn, error) {
	o := s.client.Options()
	conn, err := new(net.Dialer).DialContext(ctx, o.Network, o.Addr)
	if err == nil && o.TLSConfig != nil {
		conn = tls.Client(conn, o.TLSConfig)
	}
	return conn, err
}

// login connects, and says who it is and what it wants.
func (s *redisServer) login(ctx context.Context) (net.Conn, error) {
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	o := s.client.Options()
	words := [][]string{{"SELECT", strconv.Itoa(o.DB)}}
	switch {
	case o.Username != "":
		words = append([][]string{{"AUTH", o.Username, o.Password}}, words...)
	case o.Password != "":
		words = append([][]string{{"AUTH", o.Password}}, words...)
	}
	replies := bufio.NewReader(conn)
	for _, w := range words {
		_, err := conn.Write(command(w...))
		if err == nil {
			_, err = replies.ReadString('\n')
		}
		if err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

// urlAt is the URL of the server with another scheme and address.
func (s *redisServer) urlAt(scheme, addr string) string {
	_, rest, _ := strings.Cut(s.url, "://")
	user := ""
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user = rest[:at+1]
	}
	return fmt.Sprintf("%s://%s%s/%d", scheme, user, addr, s.client.Options().DB)
}

// load is what the server has done since it started.
type load struct {
	commands int64   // those that scripts ran included, those of the benchmark's own looks not
	cpu      float64 // seconds
	memory   int64   // bytes in use now
}

func (s *redisServer) load(ctx context.Context) (load, error) {
	var out load
	info, err := s.client.InfoMap(ctx, "commandstats", "cpu", "memory").Result()
	if err != nil {
		return out, fmt.Errorf("redis: %w", err)
	}
	for name, stats := range info["Commandstats"] {
		var calls int64
		if _, err := fmt.Sscanf(stats, "calls=%d", &calls); err == nil && !strings.HasPrefix(name, "cmdstat_info") {
			out.commands += calls
		}
	}
	for _, part := range []string{"used_cpu_sys", "used_cpu_user"} {
		v, err := strconv.ParseFloat(info["CPU"][part], 64)
		if err != nil {
			return out, fmt.Errorf("redis: INFO says no %s", part)
		}
		out.cpu += v
	}
	out.memory, err = strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
	return out, err
}
