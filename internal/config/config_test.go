package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/windrow-run/windrow/internal/config"
)

// load reads a command line and an environment as the server commands do.
func load(args []string, env map[string]string) (config.Config, error) {
	c := config.Default()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.Register(fs, &c)
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	err := config.LoadEnv(fs, func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	})
	return c.Complete(), err
}

// A server that is told nothing has settings that are valid.
func TestDefault(t *testing.T) {
	t.Parallel()
	c, err := load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if c.CommitMargin != 1500*time.Millisecond || c.Heartbeat != 10*time.Second || c.Slots < 1 || c.BodyBytes <= c.PayloadBytes {
		t.Errorf("derived settings: %+v", c)
	}
}

// A flag wins over its variable, a variable over the default, and an empty variable is none.
func TestOrder(t *testing.T) {
	t.Parallel()
	env := map[string]string{"WINDROW_LEASE": "3s", "WINDROW_RETRIES": "7", "WINDROW_POLL": "", "WINDROW_DEMO": "true",
		"WINDROW_TERMINAL_TTL": "2d", "WINDROW_PAYLOAD_BYTES": "64KiB", "WINDROW_REDIS_URL": "redis://u:pw@h:1/2"}
	c, err := load([]string{"--retries=5", "--history-bytes", "2MB"}, env)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{c.Lease, c.Retries, c.Poll, c.Demo, c.TerminalTTL, c.PayloadBytes, c.HistoryBytes, c.Redis.Reveal(), c.CommitMargin}
	want := []any{3 * time.Second, 5, 5 * time.Second, true, 48 * time.Hour, config.Bytes(65536), config.Bytes(2_000_000),
		"redis://u:pw@h:1/2", 300 * time.Millisecond}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Every setting can be set by the environment, and help names its variable and its default.
func TestEverySettingHasAVariable(t *testing.T) {
	t.Parallel()
	c := config.Default()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.Register(fs, &c)
	fs.VisitAll(func(f *pflag.Flag) {
		one := pflag.NewFlagSet("one", pflag.ContinueOnError)
		one.AddFlag(f)
		if shown := one.FlagUsages(); !strings.Contains(shown, "["+config.EnvName(f.Name)+"] (default ") {
			t.Errorf("--%s: %s", f.Name, shown)
		}
		err := config.LoadEnv(fs, func(name string) (string, bool) { return "\x00 no value", name == config.EnvName(f.Name) })
		if text := slices.Contains([]string{"string", "url", "secret", "list"}, f.Value.Type()); text != (err == nil) {
			t.Errorf("--%s set to nonsense: %v", f.Name, err)
		}
		if err != nil && (!strings.Contains(err.Error(), config.EnvName(f.Name)) || strings.Contains(err.Error(), "no value")) {
			t.Errorf("--%s: %v", f.Name, err)
		}
	})
	help := fs.FlagUsages()
	for _, want := range []string{"(default 30s)", "(default 7d)", "(default 1h)", "(default 100ms)", "(default 1MB)",
		"(default 64KB)", "--lease duration", "--payload-bytes bytes"} {
		if !strings.Contains(help, want) {
			t.Errorf("help lacks %q", want)
		}
	}
}

// What is out of range is named with its flag and its variable, all of it at once.
func TestProblems(t *testing.T) {
	t.Parallel()
	for args, settings := range map[string]string{
		"--lease=1ms":                         "lease",
		"--lease=3s --commit-margin=1500ms":   "commit-margin",
		"--heartbeat=20s":                     "heartbeat",
		"--partitions=33":                     "partitions",
		"--partitions=0 --retries=-1":         "partitions retries",
		"--addr=8080":                         "addr",
		"--redis=http://h":                    "redis",
		"--redis=redis://":                    "redis",
		"--redis=:%":                          "redis",
		"--key-prefix={a}":                    "key-prefix",
		"--revision=-":                        "revision",
		"--stream-ttl=8d":                     "stream-ttl",
		"--retry-delay=2m":                    "retry-delay",
		"--keepalive=16s":                     "keepalive",
		"--chunk-bytes=2MB":                   "chunk-bytes",
		"--body-bytes=10KB":                   "body-bytes",
		"--payload-bytes=1":                   "payload-bytes",
		"--log-level=loud":                    "log-level",
		"--log-format=xml":                    "log-format",
		"--slots=-1":                          "slots",
		"--redis-db=-2 --redis-pool=0":        "redis-db redis-pool",
		"--redis-timeout=2h":                  "redis-timeout",
		"--redis-dial-timeout=0s":             "redis-dial-timeout",
		"--ack=fsync --ack-timeout=3s":        "ack-timeout",
		"--ack=replicas=2 --redis-timeout=1s": "ack-timeout",
		"--redis-hosts=/run/redis.sock --redis-master=m":       "redis-hosts",
		"--redis=unix:///s --redis-tls":                        "redis-tls",
		"--auth=basic":                                         "auth",
		"--addr=:8080":                                         "auth",
		"--addr=0.0.0.0:8080":                                  "auth",
		"--addr=[::]:8080":                                     "auth",
		"--addr=10.0.0.1:8080":                                 "auth",
		"--addr=example.com:8080":                              "auth",
		"--auth=none --api-keys=x":                             "auth",
		"--api-keys=x --api-keys-file=y":                       "api-keys",
		"--stream-secret=short":                                "stream-secret",
		"--jwt-issuer=i":                                       "jwt-issuer",
		"--jwks-url=https://h/":                                "jwt-issuer",
		"--jwt-issuer=i --jwt-audience=a --jwks-url=http://h/": "jwks-url",
		"--jwt-issuer=i --jwt-audience=a --jwks-url=https://h/ --jwt-algorithms=HS256": "jwt-algorithms",
		"--jwt-issuer=i --jwt-audience=a --jwks-url=https://h/ --jwt-algorithms=none":  "jwt-algorithms",
		"--jwt-issuer=i --jwt-audience=a --jwks-url=https://h/ --jwt-owner-claim=":     "jwt-issuer",
		"--cors-origin=*":                    "cors-origin",
		"--cors-origin=https://h/,https://h": "cors-origin",
		"--admin-addr=80":                    "admin-addr",
		"--history-chunks=10001":             "history-chunks",
		"--reconnect=90ms":                   "reconnect",
		"--tls-cert=c":                       "tls-cert",
		"--tls-key=k":                        "tls-cert",
		"--rate-limit=-1":                    "rate-limit rate-burst",
		"--max-viewers=-1":                   "max-viewers",
		"--jwt-leeway=1h":                    "jwt-leeway",
	} {
		c, err := load(strings.Fields(args), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.SplitSeq(fmt.Sprint(c.Validate()), "\n") {
			name, _, _ := strings.Cut(strings.TrimPrefix(line, "--"), " ")
			got = append(got, name)
			if !strings.Contains(line, config.EnvName(name)) {
				t.Errorf("%s: %s", args, line)
			}
		}
		if strings.Join(got, " ") != settings {
			t.Errorf("%s: %v", args, got)
		}
	}
}

// A check of a namespace asks Redis and no server: it has no setting of who may call one.
func TestDoctorSettings(t *testing.T) {
	t.Parallel()
	c := config.Default()
	fs := pflag.NewFlagSet("doctor", pflag.ContinueOnError)
	config.RegisterDoctor(fs, &c)
	var names []string
	fs.VisitAll(func(f *pflag.Flag) {
		if !strings.HasPrefix(f.Name, "redis-") { // how it is reached
			names = append(names, f.Name)
		}
	})
	want := []string{"key-prefix", "lease", "partitions", "redis", "stream-ttl", "terminal-ttl"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

// What nobody but this machine can reach, or what says who may call it, is fit to be served.
func TestAccessIsFit(t *testing.T) {
	t.Parallel()
	for args, authenticates := range map[string]bool{
		"": false, "--addr=127.0.0.1:0": false, "--addr=localhost:80": false, "--addr=[::1]:80": false, "--addr=127.9.9.9:80": false,
		"--addr=:80 --auth=none": false, "--addr=:80 --api-keys-file=f": true, "--addr=:80 --api-keys=k": true,
		"--addr=:80 --jwt-issuer=i --jwt-audience=a --jwks-url=https://h/":                                      true,
		"--jwt-issuer=i --jwt-audience=a --jwks-url=http://127.0.0.1:1/":                                        true,
		"--cors-origin=https://a.example --cors-origin=http://localhost:3000,https://b.example --admin-addr=:9": false,
	} {
		c, err := load(strings.Fields(args), nil)
		if err != nil || c.Validate() != nil || c.Authenticates() != authenticates {
			t.Errorf("%s: %v, %v, %v", args, err, c.Validate(), c.Authenticates())
		}
	}
	c, err := load(strings.Fields("--cors-origin=https://a,https://b --cors-origin=https://c --jwt-algorithms=ES256 --rate-limit=5"), nil)
	if diff := cmp.Diff(config.List{"https://a", "https://b", "https://c"}, c.CORSOrigins); diff != "" || err != nil ||
		!slices.Equal(c.JWTAlgorithms, config.List{"ES256"}) || c.RateBurst != 10 {
		t.Errorf("%v, %+v, %v", diff, c.Access, err)
	}
}

// Without Redis, serve says which variable is missing.
func TestRequireRedis(t *testing.T) {
	t.Parallel()
	var p *config.Problem
	if err := config.Default().RequireRedis(); !errors.As(err, &p) || !strings.Contains(err.Error(), "WINDROW_REDIS_URL") {
		t.Errorf("%v", err)
	}
	c, err := load([]string{"--redis", "rediss://h"}, nil)
	if err != nil || c.RequireRedis() != nil {
		t.Errorf("%v, %v", err, c.RequireRedis())
	}
}

// Hosts stand for a URL, which credentials never enter.
func TestHosts(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--redis-hosts=h:1": "redis://h:1/",
		"--redis-hosts=h --redis-tls --redis-username=u":              "rediss://h/",
		"--redis-hosts=a,b:2 --redis-master=m/%":                      "redis-sentinel://a,b:2/m%2F%25",
		"--redis-hosts=a,b --redis-cluster --redis-tls":               "rediss+cluster://a,b/",
		"--redis-hosts=/run/a?b.sock --redis-password=sesame":         "unix:///run/a%3Fb.sock",
		"--redis-hosts=h --redis-sentinel-password=sesame --lease=1s": "redis://h/",
	} {
		c, err := load(strings.Fields(args), nil)
		if err != nil || c.Redis.Reveal() != want || c.RequireRedis() != nil || c.Validate() != nil || c.Complete().Redis != c.Redis {
			t.Errorf("%s: %s, %v, %v", args, c.Redis.Reveal(), err, c.Validate())
		}
	}
}

// What a change waits for is one of three.
func TestAck(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]config.Ack{"primary": {}, "replicas=2": {Replicas: 2}, "fsync": {Fsync: true}} {
		c, err := load([]string{"--ack", text}, nil)
		if err != nil || c.Ack != want || c.Ack.String() != text {
			t.Errorf("%s: %+v, %v", text, c.Ack, err)
		}
	}
	for _, text := range []string{"replicas", "replicas=0", "replicas=-1", "replicas=101", "replicas=x", "2", "always"} {
		if _, err := load(nil, map[string]string{"WINDROW_ACK": text}); err == nil || !strings.Contains(err.Error(), "primary, replicas=N or fsync") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// However a configuration is printed, its password does not show.
func TestSecret(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://user:sesame@host:6379/0?password=sesame", "redis://:sesame@host", "redis://sesame%zz@host", "unix:///run/x?password=sesame",
	} {
		c, err := load([]string{"--redis", url, "--redis-password", "sesame", "--redis-sentinel-password=sesame",
			"--stream-secret", "sesame", "--api-keys", "sesame"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		slog.New(slog.NewJSONHandler(&log, nil)).Info("start", "config", c, "redis", c.Redis)
		slog.New(slog.NewTextHandler(&log, nil)).Info("start", "config", c, "redis", c.Redis)
		fs := pflag.NewFlagSet("help", pflag.ContinueOnError)
		config.Register(fs, &c)
		shown := fmt.Sprintf("%v %+v %#v %s %q %s %s %v %v %s", c, c, c, c.Redis, c.Redis, encoded, log.String(), c.Validate(),
			c.Connection.Password, fs.FlagUsages())
		if strings.Contains(shown, "sesame") {
			t.Errorf("%s shows in %s", url, shown)
		}
		if c.Redis.Reveal() != url {
			t.Errorf("revealed %s", c.Redis.Reveal())
		}
	}
}
