package config

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
)

// Problem is one setting that is out of range.
type Problem struct {
	Setting string // its flag, without dashes
	Limit   string // what it must be
	Remedy  string // what to do; empty: what the limit says
}

func (p *Problem) Error() string {
	text := fmt.Sprintf("--%s (%s): %s", p.Setting, EnvName(p.Setting), p.Limit)
	if p.Remedy != "" {
		text += ": " + p.Remedy
	}
	return text
}

// problems collects what is wrong.
type problems []error

func (p *problems) add(setting, remedy, limit string, args ...any) {
	*p = append(*p, &Problem{Setting: setting, Limit: fmt.Sprintf(limit, args...), Remedy: remedy})
}

func (p *problems) number(setting string, value, low, high int) {
	if value < low || value > high {
		p.add(setting, "", "%d is not between %d and %d", value, low, high)
	}
}

func (p *problems) span(setting string, value, low, high time.Duration) {
	if value < low || value > high {
		l, h, v := span(low), span(high), span(value)
		p.add(setting, "", "%s is not between %s and %s", v.String(), l.String(), h.String())
	}
}

func (p *problems) bytes(setting string, value, low, high Bytes) {
	if value < low || value > high {
		p.add(setting, "", "%s is not between %s and %s", value.String(), low.String(), high.String())
	}
}

// ValidateDoctor is Validate for the settings of [RegisterDoctor].
func (c Config) ValidateDoctor() error {
	var p problems
	c.checkConnection(&p)
	if c.Redis != "" && !validRedis(c.Redis) {
		p.add("redis", "write it as redis://user:password@host:6379/0", "it is not the URL of a Redis")
	}
	p.number("partitions", c.Partitions, 0, 32)
	return errors.Join(p...)
}

// Validate reports every setting of a completed configuration that is out of range, each as a [*Problem].
func (c Config) Validate() error {
	var p problems
	c.checkPlace(&p)
	c.checkConnection(&p)
	c.checkAck(&p)
	c.checkLease(&p)
	c.checkTimes(&p)
	c.checkCounts(&p)
	c.checkSizes(&p)
	c.checkLog(&p)
	c.checkAccess(&p)
	return errors.Join(p...)
}

// RequireRedis reports that no store was named where one is needed.
func (c Config) RequireRedis() error {
	if c.Redis != "" || c.Connection.Hosts != "" {
		return nil
	}
	return &Problem{Setting: "redis", Limit: "no Redis is named",
		Remedy: "set " + EnvName("redis") + " to a URL such as redis://localhost:6379/0, or " + EnvName("redis-hosts") + ", " +
			"or try the command dev, which needs none"}
}

func (c Config) checkPlace(p *problems) {
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		p.add("addr", "write it as 127.0.0.1:8080, or :8080 for every interface", "%q is not host:port", c.Addr)
	}
	if c.Redis != "" && !validRedis(c.Redis) {
		p.add("redis", "write it as redis://user:password@host:6379/0", "it is not the URL of a Redis")
	}
	if !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`).MatchString(c.Prefix) {
		p.add("key-prefix", "", "it must have 1 to 64 bytes: a letter, then letters, digits, '_', '.' or '-'")
	}
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`).MatchString(c.Revision) {
		p.add("revision", "", "it must have 1 to 64 bytes: a letter or digit, then letters, digits, '_', '.' or '-'")
	}
}

// exchangeTimeout is how long the runtime waits for an exchange.
const exchangeTimeout = 3 * time.Second

func (c Config) checkAck(p *problems) {
	most := min(exchangeTimeout, c.Connection.Timeout)
	if c.Ack != (Ack{}) && (c.AckTimeout < time.Millisecond || c.AckTimeout >= most) {
		p.add("ack-timeout", "lower it", "%v is not between 1ms and the %v that an exchange may take", c.AckTimeout, most)
	}
}

// validRedis looks at the scheme; the store checks the rest. A wrong URL is never quoted, since it may hold a password.
func validRedis(s Secret) bool {
	scheme, rest, ok := strings.Cut(s.Reveal(), "://")
	return ok && rest != "" && (scheme == "unix" || strings.HasPrefix(scheme, "redis"))
}

func (c Config) checkLease(p *problems) {
	p.span("lease", c.Lease, 300*time.Millisecond, time.Hour)
	if c.CommitMargin <= 0 || c.Lease < 3*c.CommitMargin {
		p.add("commit-margin", "raise --lease, or leave the margin at 0", "%v is not between 0 and a third of the lease of %v",
			c.CommitMargin, c.Lease)
		return // what follows from a wrong margin says nothing
	}
	if c.Heartbeat <= 0 || c.Heartbeat > (c.Lease-c.CommitMargin)/2 {
		p.add("heartbeat", "lower it, or leave it at 0",
			"%v leaves no room for a second try within the lease of %v", c.Heartbeat, c.Lease)
	}
}

func (c Config) checkTimes(p *problems) {
	p.span("poll", c.Poll, 10*time.Millisecond, time.Hour)
	p.span("maintenance", c.Maintenance, 10*time.Millisecond, time.Hour)
	p.span("shutdown-grace", c.ShutdownGrace, 0, time.Hour)
	p.span("drain-timeout", c.DrainTimeout, 0, time.Hour)
	p.span("flush-interval", c.FlushInterval, time.Millisecond, 10*time.Second)
	p.span("terminal-ttl", c.TerminalTTL, time.Second, 3650*day)
	p.span("stream-ttl", c.StreamTTL, time.Second, 3650*day)
	if c.StreamTTL > c.TerminalTTL {
		p.add("stream-ttl", "lower it, or raise --terminal-ttl", "an event log can't be kept for longer than its execution")
	}
	p.span("retry-delay", c.RetryDelay, time.Millisecond, day)
	p.span("retry-max-delay", c.RetryMaxDelay, time.Millisecond, 30*day)
	if c.RetryDelay > c.RetryMaxDelay {
		p.add("retry-delay", "lower it, or raise --retry-max-delay", "%v is over the longest delay of %v",
			c.RetryDelay, c.RetryMaxDelay)
	}
	p.span("keepalive", c.Keepalive, time.Second, 15*time.Second)
	p.span("reconnect", c.Reconnect, 100*time.Millisecond, time.Minute)
}

func (c Config) checkCounts(p *problems) {
	p.number("partitions", c.Partitions, 1, 32)
	p.number("slots", c.Slots, 0, 10_000) // 0 has been replaced, but may be asked for
	p.number("max-nonterminal", c.MaxNonterminal, 0, 1_000_000_000)
	p.number("max-owner-nonterminal", c.MaxOwned, 0, 1_000_000_000)
	p.number("json-depth", c.JSONDepth, 1, 10_000)
	p.number("progress-events", c.ProgressEvents, 1, 10_000)
	p.number("history-chunks", c.HistoryChunks, 1, execution.MaxBatchChunks) // what an attempt buffers must fit one batch
	p.number("retries", c.Retries, 0, 1_000_000)
	p.number("lost-leases", c.LostLeases, 1, 1_000_000)
	p.number("claims", c.Claims, 1, 1_000_000)
}

func (c Config) checkSizes(p *problems) {
	const kb, mb = Bytes(1e3), Bytes(1e6)
	p.bytes("payload-bytes", c.PayloadBytes, kb, 100*mb)
	p.bytes("progress-bytes", c.ProgressBytes, 100, mb)
	p.bytes("history-bytes", c.HistoryBytes, kb, 1000*mb)
	p.bytes("chunk-bytes", c.ChunkBytes, 1, 10*mb)
	p.bytes("header-bytes", c.HeaderBytes, 4*kb, mb)
	if c.ChunkBytes > c.HistoryBytes {
		p.add("chunk-bytes", "lower it, or raise --history-bytes", "one chunk would not fit the history of %s",
			c.HistoryBytes.String())
	}
	if c.BodyBytes < c.PayloadBytes {
		p.add("body-bytes", "raise it, or leave it at 0", "a payload of %s would not fit the body", c.PayloadBytes.String())
	}
}

func (c Config) checkLog(p *problems) {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel) {
		p.add("log-level", "", "%q is not debug, info, warn or error", c.LogLevel)
	}
	if !slices.Contains([]string{"auto", "text", "json"}, c.LogFormat) {
		p.add("log-format", "", "%q is not auto, text or json", c.LogFormat)
	}
}
