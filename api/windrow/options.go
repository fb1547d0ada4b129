package windrow

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/windrow-run/windrow/internal/config"
)

// Options are the settings of a [Server]. The zero value of a field takes its default; [None] stands where zero itself is
// meant. They apply to deployments that do not set their own.
type Options struct {
	// RedisURL names Redis or Valkey: redis://user:password@host:6379/0, rediss:// with TLS, unix://, redis-sentinel:// or
	// redis+cluster://. Default: state is kept in memory and ends with the process.
	RedisURL string
	// KeyPrefix begins every key. Default: windrow.
	KeyPrefix string
	// Partitions is the number of hash slots that executions are spread over, 1 to 32. It is fixed when a namespace is
	// created. Default: 1.
	Partitions int
	// AllowEviction accepts a Redis whose maxmemory-policy is not noeviction, which then loses executions at maxmemory. Default:
	// such a Redis is refused.
	AllowEviction bool
	// Compress has large payloads and streamed chunks compressed in Redis. Turn it on only once every process on the namespace is of a
	// release that can read them. Default: off.
	Compress bool
	// Addr is the host:port to listen on; port 0 takes any free one. Default: the server does not listen, and the host
	// mounts [Server.Handler] where it likes, at the root of a host name.
	Addr string
	// Auth is "none" where nobody has to say who they are. It must be set where Addr is not on loopback and neither API keys nor
	// an issuer are named. Default: whoever they name may call.
	Auth string
	// APIKeysFile lists the API keys that are accepted, as `windrow keys new` makes them; changes take effect by themselves.
	// Default: none.
	APIKeysFile string
	// StreamSecret signs the stream tokens of browsers, with at least 32 bytes that all servers share. Default: only a server
	// that keeps its state in memory gives such tokens out.
	StreamSecret string
	// JWTIssuer, JWTAudience and JWKSURL name whose JWTs are accepted, for whom they must be, and where the issuer's keys are.
	// Default: no JWT is accepted.
	JWTIssuer, JWTAudience, JWKSURL string
	// Logger gets the log. Default: none.
	Logger *slog.Logger

	// Slots is how many attempts run at once, a deployment. Default: one a CPU.
	Slots int
	// MaxUnfinished is how many executions of a deployment may be unfinished at once; a submission beyond is refused.
	// Default: 1,000. None: no limit.
	MaxUnfinished int
	// Lease is how long a silent worker keeps its work, from 300 ms. Default: 30 s.
	Lease time.Duration
	// Poll is the time between looks for work that nothing else told of. Default: 5 s.
	Poll time.Duration
	// Maintenance is the time between passes over lost leases, expired waits and old executions. Default: 5 s.
	Maintenance time.Duration
	// FlushInterval is the time between batches of streamed chunks; the first leaves at once. Default: 100 ms.
	FlushInterval time.Duration
	// ShutdownGrace is how long running attempts may take to end once Run is told to stop, before their contexts end, and
	// then once more. Default: 5 s. None: no time.
	ShutdownGrace time.Duration
	// DrainTimeout is how long open HTTP requests may take to end after that. Default: 5 s. None: no time.
	DrainTimeout time.Duration
	// ReleaseOnClose hands running work over at once at a shutdown, for hosts that are killed soon.
	ReleaseOnClose bool

	// Retries is how often a retry is granted. Default: 2. None: never.
	Retries int
	// LostLeases is the number of the lost lease that fails an execution. Default: 3.
	LostLeases int
	// Claims is how many attempts in a row may end without a new checkpoint, wait or retry. Default: 20.
	Claims int
	// RetryDelay is the first delay of a retry, and RetryMaxDelay the longest. Defaults: 1 s and 60 s.
	RetryDelay    time.Duration
	RetryMaxDelay time.Duration

	// PayloadBytes bounds an input, checkpoint, result or answer. Default: 1,000,000.
	PayloadBytes int64
	// HistoryChunks and HistoryBytes bound the streamed output that is kept, the newest. Defaults: 1,000 and 1,000,000.
	HistoryChunks int
	HistoryBytes  int64
	// TerminalTTL is how long an ended execution is kept, and StreamTTL how long its event log. Defaults: 7 days and 1 hour.
	TerminalTTL time.Duration
	StreamTTL   time.Duration
}

// None stands in [Options] where zero would take the default.
const None = -1

// config completes the options and checks them.
func (o Options) config() (config.Config, error) {
	c := config.Default()
	c.Redis, c.Slots, c.ReleaseOnClose = config.Secret(o.RedisURL), o.Slots, o.ReleaseOnClose
	set(&c.Prefix, o.KeyPrefix)
	set(&c.Partitions, o.Partitions)
	set(&c.AllowEviction, o.AllowEviction)
	set(&c.Compress, o.Compress)
	set(&c.Addr, o.Addr)
	set(&c.Auth, o.Auth)
	set(&c.APIKeysFile, o.APIKeysFile)
	set(&c.StreamSecret, config.Password(o.StreamSecret))
	set(&c.JWTIssuer, o.JWTIssuer)
	set(&c.JWTAudience, o.JWTAudience)
	set(&c.JWKSURL, o.JWKSURL)
	set(&c.Lease, o.Lease)
	set(&c.Poll, o.Poll)
	set(&c.Maintenance, o.Maintenance)
	set(&c.FlushInterval, o.FlushInterval)
	set(&c.LostLeases, o.LostLeases)
	set(&c.Claims, o.Claims)
	set(&c.RetryDelay, o.RetryDelay)
	set(&c.RetryMaxDelay, o.RetryMaxDelay)
	set(&c.PayloadBytes, config.Bytes(o.PayloadBytes))
	set(&c.HistoryChunks, o.HistoryChunks)
	set(&c.HistoryBytes, config.Bytes(o.HistoryBytes))
	set(&c.TerminalTTL, o.TerminalTTL)
	set(&c.StreamTTL, o.StreamTTL)
	setOrNone(&c.MaxNonterminal, o.MaxUnfinished)
	setOrNone(&c.Retries, o.Retries)
	setOrNone(&c.ShutdownGrace, o.ShutdownGrace)
	setOrNone(&c.DrainTimeout, o.DrainTimeout)
	c = c.Complete()
	return c, inOptions(c.Validate())
}

func set[T comparable](into *T, value T) {
	var zero T
	if value != zero {
		*into = value
	}
}

// setOrNone is set for a setting that may also be none at all.
func setOrNone[T int | time.Duration](into *T, value T) {
	set(into, value)
	if value == None {
		*into = 0
	}
}

// inOptions says what is wrong with settings in terms of the options. Any other error stays as it is.
func inOptions(err error) error {
	if _, ok := errors.AsType[*config.Problem](err); !ok {
		return err
	}
	flags := regexp.MustCompile(`--[a-z-]+`)
	var lines []string
	for _, e := range flatten(err) {
		line := e.Error()
		if p, ok := errors.AsType[*config.Problem](e); ok {
			line = strings.TrimSuffix("option "+optionOf(p.Setting)+": "+p.Limit+": "+p.Remedy, ": ")
		}
		lines = append(lines, flags.ReplaceAllStringFunc(line, optionOf))
	}
	return fmt.Errorf("windrow: %s", strings.Join(lines, "\n"))
}

func flatten(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// optionOf is the field for a setting, as its flag names it.
func optionOf(setting string) string {
	setting = strings.TrimPrefix(setting, "--")
	if setting == "redis" {
		return "RedisURL"
	}
	if setting == "max-nonterminal" {
		return "MaxUnfinished"
	}
	var name strings.Builder
	for word := range strings.SplitSeq(setting, "-") {
		if slices.Contains([]string{"ttl", "api", "jwt", "jwks", "url"}, word) {
			word = strings.ToUpper(word)
		}
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String()
}
