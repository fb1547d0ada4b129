package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// Open checks the servers and the namespace, which it creates where there is none. An error of CodeUnavailable passes;
// any other says which setting is in the way, and what to do.
func (s *Store) Open(ctx context.Context) error { return advised(s.open(ctx)) }

func (s *Store) open(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	seen, err := s.inspect(ctx)
	if err == nil {
		err = seen.refusal() // before anything is written
	}
	if err == nil {
		err = s.attach(ctx, seen)
	}
	if err == nil {
		err = seen.refusal()
	}
	if err == nil {
		s.standing.learn(seen)
	}
	return err
}

// advised adds to an error that a connection begins with which settings it comes from. Only operators see it.
func advised(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, a := range advice {
		if strings.Contains(text, a.sign) {
			return fmt.Errorf("%w: %s", err, a.remedy)
		}
	}
	return err
}

var advice = []struct{ sign, remedy string }{
	{"WRONGPASS", checkLogin},
	{"NOAUTH", checkLogin},
	{"DB index is out of range", "name another database by --redis-db (WINDROW_REDIS_DB) or in the URL, or raise databases of Redis"},
	{"x509: ", "check --redis-tls-ca (WINDROW_REDIS_TLS_CA) and --redis-tls-server-name (WINDROW_REDIS_TLS_SERVER_NAME)"},
}

const checkLogin = "check --redis-username (WINDROW_REDIS_USERNAME), --redis-password (WINDROW_REDIS_PASSWORD) or what the URL says"

// inspection is what a look at the servers and at the namespace showed. Its methods may be called by several goroutines.
type inspection struct {
	mu    sync.Mutex         // guards the following
	found map[string]finding // by the code of the condition
	runs  map[string]string  // id of each server's run, by address; empty where it is not told
	root  namespace
}

// finding is a condition that holds.
type finding struct {
	message string
	severe  bool
}

func (i *inspection) addf(code string, severe bool, format string, args ...any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.found[code] = finding{fmt.Sprintf(format, args...), severe}
}

// refusal is the first reason, if any, for which the servers must not be used.
func (i *inspection) refusal() error {
	for _, code := range []string{conditionVersion, conditionEviction, conditionNamespace, conditionAck} {
		if f, ok := i.found[code]; ok && f.severe {
			return errors.New(f.message)
		}
	}
	return nil
}

// inspect looks at every master. An error says that it could not.
func (s *Store) inspect(ctx context.Context) (*inspection, error) {
	seen := &inspection{found: map[string]finding{}, runs: map[string]string{}}
	var err error
	if many, ok := s.client.(*goredis.ClusterClient); ok {
		err = many.ForEachMaster(ctx, func(ctx context.Context, node *goredis.Client) error { return s.checkServer(ctx, node, seen) })
	} else if node, ok := s.client.(*goredis.Client); ok {
		err = s.checkServer(ctx, node, seen)
	}
	return seen, err
}

// checkServer notes why a server can't keep executions, or may lose them.
func (s *Store) checkServer(ctx context.Context, node *goredis.Client, seen *inspection) error {
	text, err := node.Info(ctx).Result()
	if err != nil && strings.Contains(err.Error(), "NOPERM") {
		seen.addf(conditionUnchecked, false, "Redis does not let this user run INFO: version, settings and restarts are not checked: allow it, or see to them by hand")
		return nil
	}
	if err != nil {
		return translate(err)
	}
	info := parseInfo(text)
	seen.ran(node.Options().Addr, info["run_id"])
	if err := checkVersion(info); err != nil {
		seen.addf(conditionVersion, true, "%s", err)
	}
	s.checkEviction(ctx, node, info, seen)
	s.checkPersistence(ctx, node, info, seen)
	if err := s.checkAck(info); err != nil {
		seen.addf(conditionAck, true, "%s", err)
	}
	return nil
}

// parseInfo reads the lines "name:value" of INFO.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			info[name] = value
		}
	}
	return info
}

func checkVersion(info map[string]string) error {
	name, version, need := "Redis", info["redis_version"], [2]int{6, 2}
	if v, ok := info["valkey_version"]; ok {
		name, version, need = "Valkey", v, [2]int{7, 2}
	}
	major, minor := majorMinor(version)
	if major < need[0] || major == need[0] && minor < need[1] {
		return fmt.Errorf("server is %s %s: Redis 6.2 or newer, or Valkey 7.2 or newer, is needed: upgrade it", name, version)
	}
	return nil
}

func majorMinor(version string) (major, minor int) {
	a, rest, _ := strings.Cut(version, ".")
	b, _, _ := strings.Cut(rest, ".")
	major, _ = strconv.Atoi(a)
	minor, _ = strconv.Atoi(b)
	return major, minor
}

// checkEviction refuses a policy under which the server may drop executions, unless the operator takes that upon himself.
func (s *Store) checkEviction(ctx context.Context, node *goredis.Client, info map[string]string, seen *inspection) {
	policy := info["maxmemory_policy"]
	if policy == "" {
		policy = node.ConfigGet(ctx, "maxmemory-policy").Val()["maxmemory-policy"]
	}
	switch {
	case policy == "":
		seen.addf(conditionUnchecked, false, "Redis does not tell its maxmemory-policy: it must be noeviction: allow INFO or CONFIG GET, or see to it by hand")
	case policy == "noeviction":
	case s.config.AllowEviction:
		seen.addf(conditionEviction, false, "maxmemory-policy of Redis is %q, which was allowed: at maxmemory executions are lost", policy)
	default:
		seen.addf(conditionEviction, true, "maxmemory-policy of Redis is %q: executions could be evicted: set it to noeviction, "+
			"or accept their loss with --allow-eviction (WINDROW_ALLOW_EVICTION)", policy)
	}
}

// checkPersistence warns where a restart of the server loses everything.
func (s *Store) checkPersistence(ctx context.Context, node *goredis.Client, info map[string]string, seen *inspection) {
	if info["aof_enabled"] == "1" {
		return
	}
	values, err := node.ConfigGet(ctx, "save").Result()
	if err != nil || values["save"] != "" {
		return // snapshots, or no permission to ask
	}
	seen.addf(conditionNoPersistence, false, "Redis has neither appendonly nor save set: a restart of the server loses all executions")
}

// Check implements [store.Store].
func (s *Store) Check(ctx context.Context) error {
	if err := s.standing.unfit(); err != nil {
		return err
	}
	calls := make([]call, s.config.Partitions)
	for p := range calls {
		calls[p] = call{script: s.scripts.check, anchor: s.keys.anchor(p)}
	}
	for _, r := range s.exchange(ctx, calls...) {
		if r.err != nil {
			return r.err
		}
	}
	return nil
}
