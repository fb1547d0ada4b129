package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"strings"

	"github.com/windrow-run/windrow/internal/config"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
	"github.com/windrow-run/windrow/internal/telemetry"
)

// newRedis makes the store from the settings, with what stands in the files that they name.
func newRedis(c config.Config, limits store.Limits, log *slog.Logger, m *telemetry.Metrics) (*redis.Store, error) {
	rc, err := RedisConfig(c)
	if err != nil {
		return nil, err
	}
	rc.Partitions, rc.Limits, rc.AllowEviction, rc.Compress = c.Partitions, limits, c.AllowEviction, c.Compress
	rc.Ack = redis.Ack{Replicas: c.Ack.Replicas, Fsync: c.Ack.Fsync, Timeout: c.AckTimeout}
	rc.Logger, rc.Observe, rc.Condition = log, observe(m), m.StoreCondition
	s, err := redis.New(rc)
	if err != nil {
		return nil, RedisProblem(c, err)
	}
	return s, nil
}

// RedisConfig is how the settings say that Redis is reached, with what stands in the files that they name, and the key prefix. An
// error is a [*config.Problem].
func RedisConfig(c config.Config) (redis.Config, error) {
	n := c.Connection
	rc := redis.Config{URL: c.Redis.Reveal(), Username: n.Username, SentinelUsername: n.SentinelUsername,
		PoolSize: n.Pool, DialTimeout: n.DialTimeout, Timeout: n.Timeout, Prefix: c.Prefix}
	if n.DB >= 0 {
		rc.Database = &n.DB
	}
	var err error
	if rc.Password, err = password(n.Password, "redis-password-file", n.PasswordFile); err != nil {
		return rc, err
	}
	if rc.SentinelPassword, err = password(n.SentinelPassword, "redis-sentinel-password-file", n.SentinelPasswordFile); err != nil {
		return rc, err
	}
	rc.TLS, err = clientTLS(n)
	return rc, err
}

// RedisProblem says which setting a store could not be made from.
func RedisProblem(c config.Config, err error) error {
	if wrong, ok := errors.AsType[*redis.SettingError](err); ok {
		return &config.Problem{Setting: settingOf(wrong.Field), Limit: wrong.Reason,
			Remedy: "change it, or --redis (" + config.EnvName("redis") + ")"}
	}
	if c.Connection.Hosts != "" { // all but the place was valid before
		return &config.Problem{Setting: "redis-hosts", Limit: err.Error()}
	}
	return &config.Problem{Setting: "redis", Limit: err.Error()}
}

// settingOf is the setting of a field of redis.Config.
func settingOf(field string) string {
	return map[string]string{"Username": "redis-username", "Password": "redis-password", "Database": "redis-db",
		"SentinelUsername": "redis-sentinel-username", "SentinelPassword": "redis-sentinel-password",
		"TLS": "redis-tls-skip-verify"}[field]
}

// password is the one that is set, or the first line of the file.
func password(set config.Password, setting, file string) (string, error) {
	if file == "" {
		return set.Reveal(), nil
	}
	text, err := read(setting, file)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", &config.Problem{Setting: setting, Limit: "its first line is empty", Remedy: "write the password there"}
	}
	return line, nil
}

func read(setting, file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, &config.Problem{Setting: setting, Limit: err.Error()}
	}
	return text, nil
}

// clientTLS is how the settings want TLS; nil: they say nothing of it.
func clientTLS(n config.Connection) (*tls.Config, error) {
	if !n.NeedsTLS() {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: n.ServerName,
		InsecureSkipVerify: n.SkipVerify} //nolint:gosec // as the operator asks for
	if n.CA != "" {
		text, err := read("redis-tls-ca", n.CA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, &config.Problem{Setting: "redis-tls-ca", Limit: "it holds no certificate in PEM"}
		}
	}
	if n.Cert != "" {
		pair, err := tls.LoadX509KeyPair(n.Cert, n.Key)
		if err != nil {
			return nil, &config.Problem{Setting: "redis-tls-cert", Limit: err.Error()}
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
