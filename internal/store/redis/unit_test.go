package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// Tags lie in equal ranges of slots, one each, and are the same forever: they are part of every key.
func TestPartitionTags(t *testing.T) {
	t.Parallel()
	for n := 1; n <= maxPartitions; n++ {
		for i, tag := range partitionTags(n) {
			if at := slotOf(tag) * n / slots; at != i {
				t.Errorf("of %d partitions tag %d, %q, lies in range %d", n, i, tag, at)
			}
		}
	}
	if diff := cmp.Diff([]string{"3", "2", "1", "0"}, partitionTags(4)); diff != "" {
		t.Errorf("tags of 4 partitions changed (-want +got):\n%s", diff)
	}
}

// Slots are those of a cluster: the specification's own example, and an example of its hash tags.
func TestSlotOf(t *testing.T) {
	t.Parallel()
	if got := slotOf("123456789"); got != 0x31C3 {
		t.Errorf("slot %#x, want 0x31c3", got)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	k := newKeyspace("windrow", 1)
	got := []string{k.namespace(), k.anchor(0), k.log(0, "id"), k.wake(0, "x"), k.bell(0)}
	want := []string{"windrow:namespace", "windrow:{0}:", "windrow:{0}:l:id", "windrow:{0}:wake:x", "windrow:{0}:bell"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Key digests depend on where one part ends and the next begins.
func TestKeyDigest(t *testing.T) {
	t.Parallel()
	seen := map[[32]byte]store.Key{}
	for _, k := range []store.Key{{}, {Owner: "ab", Value: "c"}, {Owner: "a", Value: "bc"}, {Deployment: "ab", Value: "c"}, {Value: "abc"}} {
		if other, ok := seen[keyDigest(k)]; ok {
			t.Errorf("%v and %v have one digest", k, other)
		}
		seen[keyDigest(k)] = k
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	counts := map[byte]int{}
	for i := range 32 * 100 {
		id := newID(i % 32)
		if p, ok := partitionOf(id, 32); !ok || p != i%32 || len(id) > 24 {
			t.Fatalf("id %q leads to %d, %t", id, p, ok)
		}
		for _, c := range []byte(id[1:]) {
			counts[c]++
		}
	}
	if len(counts) != len(alphabet) {
		t.Errorf("ids use %d characters", len(counts))
	}
	for _, id := range []string{"", "0", newID(0) + "x", newID(0)[1:], strings.Repeat("0", 22) + "-", newID(3)} {
		if _, ok := partitionOf(id, 3); ok {
			t.Errorf("%q passes for an id", id)
		}
	}
}

// The shares of a ceiling add up to it, and none is zero.
func TestShare(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 7, 32} {
		for _, ceiling := range []int64{1, 5, 32, 100, 1000} {
			total := int64(0)
			for p := range n {
				part := share(ceiling, p, n)
				if part < 1 {
					t.Errorf("share %d of %d in %d is %d", p, ceiling, n, part)
				}
				total += part
			}
			if total != max(ceiling, int64(n)) {
				t.Errorf("shares of %d in %d add up to %d", ceiling, n, total)
			}
		}
	}
	if got := share(0, 0, 4); got != 0 {
		t.Errorf("share of no ceiling is %d", got)
	}
}

// The partitions asked for an amount are asked for exactly that amount together.
func TestPortion(t *testing.T) {
	t.Parallel()
	for _, count := range []int{0, 1, 5, 64} {
		for n := 1; n <= 32; n++ {
			total := int64(0)
			for i := range n {
				total += max(portion(count, i, n), 0)
			}
			if total != int64(count) {
				t.Errorf("portions of %d in %d add up to %d", count, n, total)
			}
		}
	}
}

// The tries of a submission are different partitions.
func TestStep(t *testing.T) {
	t.Parallel()
	for n := 2; n <= maxPartitions; n++ {
		id := newID(0)
		seen := map[int]bool{}
		for try := range min(moreTries+1, n) {
			seen[try*step(id, n)%n] = true
		}
		if len(seen) != min(moreTries+1, n) {
			t.Errorf("of %d partitions %d are tried", n, len(seen))
		}
	}
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	type parsed struct {
		Addrs                              []string
		User, Password, Master, ServerName string
		SentinelUser, SentinelPassword     string
		DB                                 int
		Kind                               topology
		TLS, Insecure                      bool
	}
	tests := map[string]parsed{
		"redis://localhost":             {Addrs: []string{"localhost:6379"}},
		"redis://":                      {Addrs: []string{"localhost:6379"}},
		"redis://u:p%40@h:1/3":          {Addrs: []string{"h:1"}, User: "u", Password: "p@", DB: 3},
		"redis://[::1]:7000?db=2":       {Addrs: []string{"[::1]:7000"}, DB: 2},
		"redis://[::1]":                 {Addrs: []string{"[::1]:6379"}},
		"redis://::1":                   {Addrs: []string{"[::1]:6379"}},
		"redis://:0700/1?db=1":          {Addrs: []string{"localhost:700"}, DB: 1},
		"redis://:%40%3A%2F%3F%23%25@h": {Addrs: []string{"h:6379"}, Password: "@:/?#%"},
		"rediss://:secret@h":            {Addrs: []string{"h:6379"}, Password: "secret", TLS: true},
		"rediss://h?skip_verify=true":   {Addrs: []string{"h:6379"}, TLS: true, Insecure: true},
		"unix:///run/redis.sock?db=1":   {Addrs: []string{"/run/redis.sock"}, DB: 1},
		"unix://u:p@/run/redis.sock":    {Addrs: []string{"/run/redis.sock"}, User: "u", Password: "p"},
		"redis-sentinel://u:p@a:1,b/main/4?sentinel_username=s&sentinel_password=x": {Addrs: []string{"a:1", "b:6379"}, User: "u", Password: "p",
			Master: "main", DB: 4, Kind: sentinel, SentinelUser: "s", SentinelPassword: "x"},
		"rediss-sentinel://a/main":   {Addrs: []string{"a:6379"}, Master: "main", Kind: sentinel, TLS: true},
		"redis+cluster://a:1,b:2":    {Addrs: []string{"a:1", "b:2"}, Kind: cluster},
		"rediss+cluster://u:p@a,b:2": {Addrs: []string{"a:6379", "b:2"}, User: "u", Password: "p", Kind: cluster, TLS: true},
	}
	for raw, want := range tests {
		to, err := parseURL(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		o := to.options
		got := parsed{Addrs: o.Addrs, User: o.Username, Password: o.Password, Master: o.MasterName, DB: o.DB, Kind: to.kind,
			SentinelUser: o.SentinelUsername, SentinelPassword: o.SentinelPassword}
		if o.TLSConfig != nil {
			got.TLS, got.ServerName, got.Insecure = true, o.TLSConfig.ServerName, o.TLSConfig.InsecureSkipVerify
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
}

// A URL that can't be used is refused with the reason, and without what stands in it.
func TestParseURLRefuses(t *testing.T) {
	t.Parallel()
	for raw, reason := range map[string]string{
		"localhost:6379":                          "no scheme",
		"http://u:hunter2@h":                      "scheme is none of",
		"redis://u:hunter2@h/x":                   "database",
		"redis://u:hunter2@h/-1":                  "database",
		"redis://u:hunter2@h?hunter2=1":           "parameter is none of",
		"redis://u:hunter2@h?skip_verify=true":    "needs TLS",
		"redis://u:hunter2%zz@h":                  "malformed",
		"redis-sentinel://u:hunter2@a,b":          "names no master",
		"redis+cluster://u:hunter2@a,b/1":         "no databases",
		"rediss-cluster://u:hunter2@a,b/hunter2":  "scheme is none of",
		"redis-sentinel://u:hunter2@a,b/main/two": "database",
	} {
		_, err := New(Config{URL: raw})
		if err == nil || !strings.Contains(err.Error(), reason) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error is %v, want one with %q", raw, err, reason)
		}
	}
}

// Nothing is sent twice by itself on any topology.
func TestClientsDoNotRetry(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"redis://h", "redis-sentinel://h/main", "redis+cluster://h"} {
		client, err := connect(Config{URL: raw}.withDefaults())
		if err != nil {
			t.Fatal(err)
		}
		switch c := client.(type) {
		case *goredis.Client:
			if c.Options().MaxRetries > 0 {
				t.Errorf("%s: retries %d times", raw, c.Options().MaxRetries)
			}
		case *goredis.ClusterClient:
			if c.Options().MaxRetries > 0 {
				t.Errorf("%s: retries %d times", raw, c.Options().MaxRetries)
			}
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
	if cmd := (call{}).command(t.Context(), false); !cmd.NoRetry() || !cmd.Clone().NoRetry() {
		t.Error("a call may be sent again by a cluster's client")
	}
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		"the Redis URL is not set": {},
		"key prefix":               {URL: "redis://h", Prefix: "a{b}"},
		"partitions: 33":           {URL: "redis://h", Partitions: 33},
		"partitions: -1":           {URL: "redis://h", Partitions: -1},
		"pool size":                {URL: "redis://h", PoolSize: -1},
		"timeout is negative":      {URL: "redis://h", Timeout: -1},
		"chunks or bytes":          {URL: "redis://h", Limits: store.Limits{HistoryChunks: -1}},
		"time to live":             {URL: "redis://h", Limits: store.Limits{TerminalTTL: -48 * time.Hour}},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error is %v, want one with %q", c, err, want)
		}
	}
}

func TestPackRoundTrip(t *testing.T) {
	t.Parallel()
	numbers := []int64{0, 1, 127, 128, 255, 256, 65535, 65536, math.MaxUint32, math.MaxUint32 + 1, execution.MaxInteger, -1, -33, math.MinInt64}
	texts := []int{0, 1, 31, 32, 255, 256, 65535, 65536}
	var p packer
	p.array(3).array(len(numbers))
	want := []any{[]any{}, []any{}, []any{}}
	for _, n := range numbers {
		p.number(n)
		want[0] = append(want[0].([]any), n)
	}
	p.array(len(texts))
	for _, n := range texts {
		s := strings.Repeat("\x00", n)
		p.text(s)
		want[1] = append(want[1].([]any), s)
	}
	p.array(20)
	for range 20 {
		p.flag(true)
		want[2] = append(want[2].([]any), int64(1))
	}
	got, err := unpack(string(p.bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Whatever bytes come in place of a packed reply, they are refused and nothing else happens.
func FuzzUnpack(f *testing.F) {
	f.Add("\x93\x01\xa1x\x90")
	f.Add("\xdd\xff\xff\xff\xff")
	f.Add("\xdb\xff\xff\xff\xff")
	f.Add("\xcb12345678")
	f.Fuzz(func(t *testing.T, data string) {
		v, err := unpack(data)
		if err == nil && v == nil {
			t.Error("neither value nor error")
		}
		if _, err := decodeControl(data); err == nil {
			t.Error("a control was made of nothing")
		}
	})
}

type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

func TestTranslate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err       error
		want      execution.Code
		unchanged bool
	}{
		{serverError("OOM command not allowed when used memory > 'maxmemory'. script: 1, on @user_script:3."), execution.CodeUnavailable, true},
		{serverError("ERR Error running script (call to f_1): @user_script:3: -OOM command not allowed"), execution.CodeUnavailable, true},
		{serverError("LOADING Redis is loading the dataset in memory"), execution.CodeUnavailable, true},
		{serverError("READONLY You can't write against a read only replica."), execution.CodeUnavailable, true},
		{serverError("MASTERDOWN Link with MASTER is down"), execution.CodeUnavailable, true},
		{serverError("CLUSTERDOWN The cluster is down"), execution.CodeUnavailable, true},
		{serverError("BUSY Redis is busy running a script."), execution.CodeUnavailable, true},
		{serverError("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"), execution.CodeUnavailable, true},
		{serverError("NOSCRIPT No matching script. Please use EVAL."), execution.CodeUnavailable, true},
		{serverError("MOVED 1 127.0.0.1:1"), execution.CodeUnavailable, true},
		{serverError("NOPERM this user has no permissions"), execution.CodeUnavailable, false},
		{serverError("ERR max number of clients reached"), execution.CodeUnavailable, true},
		{serverError("ERR Script attempted to access a non local key in a cluster node"), execution.CodeUnavailable, false},
		{serverError("WRONGTYPE Operation against a key holding the wrong kind of value"), execution.CodeCorrupt, false},
		{serverError("ERR unknown command, TASKS"), execution.CodeInternal, false},
		{io.EOF, execution.CodeUnavailable, false},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, execution.CodeUnavailable, true},
		{context.DeadlineExceeded, execution.CodeUnavailable, false},
		{context.Canceled, execution.CodeUnavailable, false},
		{goredis.ErrClosed, execution.CodeUnavailable, false},
		{fmt.Errorf("x: %w", execution.Errorf(execution.CodeCapacity, "full")), execution.CodeCapacity, false},
	}
	for _, test := range tests {
		err := translate(test.err)
		if got := execution.CodeOf(err); got != test.want {
			t.Errorf("%v has code %s, want %s", test.err, got, test.want)
		}
		var e *execution.Error
		if errors.As(err, &e) && e.Unchanged != test.unchanged {
			t.Errorf("%v: for certain nothing was changed: %t, want %t", test.err, e.Unchanged, test.unchanged)
		}
		if e != nil && strings.Contains(e.Message, test.err.Error()) {
			t.Errorf("%v is shown to clients", test.err)
		}
		if !errors.Is(err, test.err) {
			t.Errorf("%v is not wrapped", test.err)
		}
	}
	if translate(nil) != nil {
		t.Error("no error became one")
	}
}

func TestCheckVersion(t *testing.T) {
	t.Parallel()
	for info, ok := range map[string]bool{
		"redis_version:6.2.0\r\n": true, "redis_version:6.0.16\r\n": false, "redis_version:7.0.15\r\n": true, "redis_version:5.0.1\r\n": false,
		"redis_version:10.0.0\r\n": true, "redis_version:7.2.4\r\nvalkey_version:7.2.5\r\n": true,
		"redis_version:7.2.4\r\nvalkey_version:7.0.0\r\n": false, "redis_version:7.2.4\r\nvalkey_version:8.1.1\r\n": true, "": false,
	} {
		if err := checkVersion(parseInfo(info)); (err == nil) != ok {
			t.Errorf("%q: %v", info, err)
		}
	}
}

// Only a reply that begins with the word proves that nothing ran.
func TestIsUnknownScript(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"NOSCRIPT No matching script. Please use EVAL.": true,
		"ERR user_script:3: NOSCRIPT said a script":     false,
		"WRONGTYPE Operation":                           false,
	} {
		if got := isUnknownScript(translate(serverError(text))); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
	if isUnknownScript(nil) || isUnknownScript(io.EOF) {
		t.Error("no reply became one")
	}
}
