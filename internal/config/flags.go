package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// EnvPrefix begins the name of every environment variable.
const EnvPrefix = "WINDROW_"

// envAnnotation marks a flag as one that can also be set by the environment.
const envAnnotation = "windrow_env"

// EnvName is the variable of the setting with that name. Redis has WINDROW_REDIS_URL, since that is what it holds.
func EnvName(setting string) string {
	if setting == "redis" {
		setting = "redis-url"
	}
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// Register adds a flag for every setting to fs, which writes to c. What c holds at that moment is the default.
func Register(fs *pflag.FlagSet, c *Config) {
	s := settings{fs}
	registerPlace(s, c)
	registerConnection(s, &c.Connection)
	registerTiming(s, c)
	registerLimits(s, c)
	registerHTTP(s, c)
	registerAccess(s, c)
}

// RegisterDoctor adds the settings that a check of a namespace has to know, as the servers have them.
func RegisterDoctor(fs *pflag.FlagSet, c *Config) {
	s := settings{fs}
	s.redis(c)
	registerConnection(s, &c.Connection)
	s.number(&c.Partitions, "partitions", "hash slots that executions are spread over, only to repair a namespace whose root is gone")
	s.span(&c.Lease, "lease", "the longest lease of the servers")
	s.span(&c.TerminalTTL, "terminal-ttl", "how long an ended execution is kept")
	s.span(&c.StreamTTL, "stream-ttl", "how long the event log of an ended execution is kept")
}

func (s settings) redis(c *Config) {
	s.secret(&c.Redis, "redis", "URL of Redis or Valkey: redis://, unix://, redis-sentinel://, redis+cluster://, rediss with TLS; as a variable it stays out of process lists")
	s.text(&c.Prefix, "key-prefix", "what every key begins with")
}

func registerPlace(s settings, c *Config) {
	s.text(&c.Addr, "addr", "host:port to listen on; port 0 takes any free one")
	s.redis(c)
	s.ack(&c.Ack, "ack", "what submissions, transitions, answers and cancel requests wait for: "+ackForm)
	s.span(&c.AckTimeout, "ack-timeout", "how long they wait for it")
	s.number(&c.Partitions, "partitions", "hash slots that executions are spread over, 1 to 32; fixed when a namespace is created")
	s.flag(&c.Compress, "compress", "compress large payloads and streamed chunks in Redis; only once every process is of a release that can read them")
	s.flag(&c.AllowEviction, "allow-eviction", "use a Redis whose maxmemory-policy is not noeviction, and which then loses executions at maxmemory")
	s.flag(&c.Demo, "demo", "serve the demo deployments")
	s.text(&c.Revision, "revision", "revision of the demo deployments (empty: 1)")
	s.text(&c.LogLevel, "log-level", "debug, info, warn or error")
	s.text(&c.LogFormat, "log-format", "text, json, or auto: text on a terminal, JSON elsewhere")
}

func registerTiming(s settings, c *Config) {
	s.number(&c.Slots, "slots", "attempts at once, a deployment (0: one a CPU)")
	s.span(&c.Lease, "lease", "how long a silent worker keeps its work")
	s.span(&c.CommitMargin, "commit-margin", "end of a lease in which nothing is committed (0: 1.5s or a tenth of the lease)")
	s.span(&c.Heartbeat, "heartbeat", "between renewals of a lease (0: a third of the lease)")
	s.span(&c.Poll, "poll", "between looks for work that no doorbell told of")
	s.span(&c.Maintenance, "maintenance", "between passes over lost leases, expired waits and old executions")
	s.span(&c.ShutdownGrace, "shutdown-grace", "how long running attempts may take to notice a shutdown")
	s.span(&c.DrainTimeout, "drain-timeout", "how long open HTTP requests may take to end at a shutdown")
	s.flag(&c.ReleaseOnClose, "release-on-close", "hand running work over at once at a shutdown, for hosts that kill soon")
	s.span(&c.FlushInterval, "flush-interval", "between batches of streamed chunks, and how long a chunk waits for others at most; the first after silence leaves at once")
	s.span(&c.TerminalTTL, "terminal-ttl", "how long an ended execution is kept")
	s.span(&c.StreamTTL, "stream-ttl", "how long the event log of an ended execution is kept")
	s.span(&c.RetryDelay, "retry-delay", "first delay of a retry; it doubles, with jitter")
	s.span(&c.RetryMaxDelay, "retry-max-delay", "longest delay of a retry")
}

func registerLimits(s settings, c *Config) {
	s.number(&c.MaxNonterminal, "max-nonterminal", "unfinished executions, a deployment (0: no limit)")
	s.number(&c.MaxOwned, "max-owner-nonterminal", "unfinished executions, an owner (0: no limit)")
	s.number(&c.Retries, "retries", "retries that the author's code is granted (0: none)")
	s.number(&c.LostLeases, "lost-leases", "the lost lease with this number fails the work")
	s.number(&c.Claims, "claims", "claims in a row without a checkpoint, wait or retry, after which the work fails")
	s.bytes(&c.PayloadBytes, "payload-bytes", "size of an input, checkpoint, result or answer")
	s.number(&c.JSONDepth, "json-depth", "levels of nested objects and arrays in a payload")
	s.number(&c.ProgressEvents, "progress-events", "progress events kept, the newest")
	s.bytes(&c.ProgressBytes, "progress-bytes", "size of one progress event")
	s.number(&c.HistoryChunks, "history-chunks", "streamed chunks kept, the newest")
	s.bytes(&c.HistoryBytes, "history-bytes", "size of all streamed chunks kept")
	s.bytes(&c.ChunkBytes, "chunk-bytes", "size of one streamed chunk")
}

func registerHTTP(s settings, c *Config) {
	s.bytes(&c.BodyBytes, "body-bytes", "size of a request body (0: room for the largest payload)")
	s.bytes(&c.HeaderBytes, "header-bytes", "size of a request's headers")
	s.span(&c.Keepalive, "keepalive", "between comments on a quiet event stream")
	s.flag(&c.Hayhooks, "hayhooks", "answer the routes of hayhooks, /{deployment}/run-durable and /{deployment}/executions/...")
	s.span(&c.Reconnect, "reconnect", "after which viewers that were cut off come back, by chance up to half of it sooner or later")
}

// settings adds flags that the environment can set too.
type settings struct{ fs *pflag.FlagSet }

func (s settings) text(p *string, name, usage string) {
	s.fs.StringVar(p, name, *p, usage)
	s.withEnv(name)
}

func (s settings) number(p *int, name, usage string) {
	s.fs.IntVar(p, name, *p, usage)
	s.withEnv(name)
}

func (s settings) flag(p *bool, name, usage string) {
	s.fs.BoolVar(p, name, *p, usage)
	s.withEnv(name)
}

func (s settings) span(p *time.Duration, name, usage string) {
	s.fs.Var((*span)(p), name, usage)
	s.withEnv(name)
}

func (s settings) bytes(p *Bytes, name, usage string) {
	s.fs.Var(p, name, usage)
	s.withEnv(name)
}

func (s settings) ack(p *Ack, name, usage string) {
	s.fs.Var(p, name, usage)
	s.withEnv(name)
}

func (s settings) password(p *Password, name, usage string) {
	s.fs.Var(passwordFlag{p}, name, usage)
	s.withEnv(name)
}

func (s settings) secret(p *Secret, name, usage string) {
	s.fs.Var(secretFlag{p}, name, usage)
	s.withEnv(name)
}

func (s settings) list(p *List, name, usage string) {
	s.fs.Var(&listFlag{list: p}, name, usage)
	s.withEnv(name)
}

func (s settings) withEnv(name string) {
	f := s.fs.Lookup(name)
	f.Usage += " [" + EnvName(name) + "]" + zeroDefault(f.DefValue)
	f.Annotations = map[string][]string{envAnnotation: {EnvName(name)}}
}

// zeroDefault shows a default that pflag leaves out.
func zeroDefault(value string) string {
	switch value {
	case "":
		return " (default unset)" // "none" is a value of --auth
	case "0":
		return " (default 0)"
	case "false":
		return " (default off)"
	}
	return ""
}

// LoadEnv sets every flag that the command line left alone and the environment names. An empty variable counts as unset.
// An error names the variables, never their values, which may be secret.
func LoadEnv(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var failed error
	fs.VisitAll(func(f *pflag.Flag) {
		names := f.Annotations[envAnnotation]
		if failed != nil || len(names) == 0 || f.Changed {
			return
		}
		value, ok := lookup(names[0])
		if !ok || value == "" {
			return
		}
		if err := fs.Set(f.Name, value); err != nil {
			failed = fmt.Errorf("%s: want %s: see --%s in --help", names[0], wanted(f.Value.Type()), f.Name)
		}
	})
	return failed
}

// wanted says how values of a flag's type are written.
func wanted(flagType string) string {
	switch flagType {
	case "duration":
		return durationForm
	case "bytes":
		return bytesForm
	case "ack":
		return ackForm
	case "bool":
		return "true or false"
	}
	return "a whole number" // texts and URLs can't be written wrongly
}
