package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/execution"
)

// Open checks the servers and the namespace, which it creates where there is none. An error of CodeUnavailable passes;
// any other says which setting is in the way, and what to do.
func (s *Store) Open(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	var err error
	if many, ok := s.client.(*goredis.ClusterClient); ok {
		err = many.ForEachMaster(ctx, s.checkServer)
	} else if node, ok := s.client.(*goredis.Client); ok {
		err = s.checkServer(ctx, node)
	}
	if err != nil {
		return err
	}
	return s.attach(ctx)
}

// checkServer refuses a server that can't keep executions, and warns of one that may lose them.
func (s *Store) checkServer(ctx context.Context, node *goredis.Client) error {
	text, err := node.Info(ctx).Result()
	if err != nil && strings.Contains(err.Error(), "NOPERM") {
		s.config.Logger.Warn("Redis does not let this user run INFO: version and settings are not checked")
		return nil
	}
	if err != nil {
		return translate(err)
	}
	info := parseInfo(text)
	if err := checkVersion(info); err != nil {
		return err
	}
	if err := s.checkEviction(ctx, node, info); err != nil {
		return err
	}
	s.checkPersistence(ctx, node, info)
	return s.checkAck(info)
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

// checkEviction refuses a policy under which the server may drop executions.
func (s *Store) checkEviction(ctx context.Context, node *goredis.Client, info map[string]string) error {
	policy := info["maxmemory_policy"]
	if policy == "" {
		policy = node.ConfigGet(ctx, "maxmemory-policy").Val()["maxmemory-policy"]
	}
	if policy == "" {
		s.config.Logger.Warn("Redis does not tell its maxmemory-policy: it must be noeviction")
	} else if policy != "noeviction" {
		return fmt.Errorf("maxmemory-policy of Redis is %q: executions could be evicted; set it to noeviction", policy)
	}
	return nil
}

// checkPersistence warns where a restart of the server loses everything.
func (s *Store) checkPersistence(ctx context.Context, node *goredis.Client, info map[string]string) {
	if info["aof_enabled"] == "1" {
		return
	}
	values, err := node.ConfigGet(ctx, "save").Result()
	if err != nil || values["save"] != "" {
		return // snapshots, or no permission to ask
	}
	s.config.Logger.Warn("Redis has neither appendonly nor save set: a restart of the server loses all executions")
}

// attach compares the namespace with what this process was told, and creates it where there is none.
func (s *Store) attach(ctx context.Context) error {
	c := call{script: s.scripts.attach, anchor: s.keys.namespace(), args: []any{execution.SchemaVersion, s.config.Partitions}}
	replies := s.exchange(ctx, c)
	if replies[0].err != nil {
		return replies[0].err
	}
	r := read(replies[0].value)
	schema, errSchema := strconv.Atoi(r.text())
	partitions, errPartitions := strconv.Atoi(r.text())
	switch {
	case r.err != nil || errSchema != nil || errPartitions != nil:
		return corrupt(fmt.Errorf("namespace %s can't be read", s.keys.namespace()))
	case schema > execution.SchemaVersion:
		return fmt.Errorf("namespace %q is of storage schema %d and this release knows %d: run a newer release, or use another key prefix",
			s.config.Prefix, schema, execution.SchemaVersion)
	case partitions != s.config.Partitions:
		return fmt.Errorf("namespace %q was created with %d partitions and the setting says %d: set it to %d, or use another key prefix",
			s.config.Prefix, partitions, s.config.Partitions, partitions)
	}
	return nil
}

// Check implements [store.Store].
func (s *Store) Check(ctx context.Context) error {
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
