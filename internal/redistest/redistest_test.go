package redistest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
)

// deadline bounds each wait of these tests.
const deadline = 30 * time.Second

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx
}

// The shared server comes from where the environment says; CI runs this with
// each of the three ways.
func TestSharedServerAnswers(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	if first, second := URL(t), URL(t); first != second {
		t.Errorf("two servers in one process: %s and %s", first, second)
	}
	key := Prefix(t) + ":greeting"
	client := Client(t)
	if err := client.Set(ctx, key, "hello", 0).Err(); err != nil {
		t.Fatalf("set: %v", err)
	}
	if got := client.Get(ctx, key).Val(); got != "hello" {
		t.Errorf("got %q, want hello", got)
	}
	if v := ServerVersion(t); v.Major < 6 {
		t.Errorf("server is %v, want 6 or newer", v)
	}
}

// A running server is used as it is, and a URL where nobody answers is an error.
func TestServerByURL(t *testing.T) {
	t.Parallel()
	server := Private(t, Options{})
	around := place{env: map[string]string{envURL: server.URL()}}.surroundings()
	url, stop, err := around.open()
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	if url != server.URL() {
		t.Errorf("URL %s, want %s", url, server.URL())
	}
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := server.Client().Ping(testContext(t)).Err(); err != nil {
		t.Errorf("the harness stopped a server that it did not start: %v", err)
	}
	server.Kill()
	if _, _, err := around.open(); err == nil || !strings.Contains(err.Error(), remedies) {
		t.Errorf("error %v does not name the remedies", err)
	}
}

// A binary is started, and gone with its directory after stop.
func TestServerByPath(t *testing.T) {
	t.Parallel()
	around := surroundings{getenv: func(string) string { return "" }, lookPath: exec.LookPath}
	url, stop, err := around.open()
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatalf("parse %s: %v", url, err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	dir := client.ConfigGet(testContext(t), "dir").Val()["dir"]
	if err := stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
	if err := client.Ping(testContext(t)).Err(); err == nil {
		t.Error("the server still answers")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("directory %q is still there: %v", dir, err)
	}
}

//nolint:tparallel // looks at what the subtest left once its clean-up has run
func TestPrefixRemovesItsKeysOnly(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	client, outer := Client(t), Prefix(t)
	var inner string
	t.Run("inner", func(t *testing.T) {
		inner = Prefix(t)
		for i := range 50 {
			client.Set(ctx, inner+":"+strconv.Itoa(i), "x", 0)
		}
		if err := client.Set(ctx, outer+":kept", "x", 0).Err(); err != nil {
			t.Fatalf("set: %v", err)
		}
	})
	if keys := Keys(t, inner+"*"); len(keys) != 0 {
		t.Errorf("%d keys are left", len(keys))
	}
	if n := client.Exists(ctx, outer+":kept").Val(); n != 1 {
		t.Error("a key of another test is gone")
	}
	if strings.ContainsAny(inner, "{}*?[]^-:") {
		t.Errorf("prefix %q has a character with a meaning", inner)
	}
}

func TestRestartKeepsDataWithAOF(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	server := Private(t, Options{AppendFsync: "always"})
	url := server.URL()
	if err := server.Client().Set(ctx, "kept", "yes", 0).Err(); err != nil {
		t.Fatalf("set: %v", err)
	}
	server.Kill()
	if err := server.Client().Ping(ctx).Err(); err == nil {
		t.Error("a killed server answers")
	}
	server.Restart()
	if got := server.Client().Get(ctx, "kept").Val(); got != "yes" || server.URL() != url {
		t.Errorf("got %q at %s, want yes at %s", got, server.URL(), url)
	}
}

func TestRestartWithoutAOFIsEmpty(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	server := Private(t, Options{Args: []string{"--maxmemory", "64mb"}})
	if got := server.Client().ConfigGet(ctx, "maxmemory").Val()["maxmemory"]; got != "67108864" {
		t.Errorf("maxmemory %q, want 67108864", got)
	}
	server.Client().Set(ctx, "lost", "yes", 0)
	server.Restart()
	if n := server.Client().DBSize(ctx).Val(); n != 0 {
		t.Errorf("%d keys survived", n)
	}
}

// A paused server accepts connections and answers none, until it is resumed.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	server := Private(t, Options{})
	server.Pause()
	connection, err := net.Dial("tcp", server.Client().Options().Addr)
	if err != nil {
		t.Fatalf("dial a paused server: %v", err)
	}
	defer connection.Close()
	if _, err := connection.Write([]byte("PING\r\n")); err != nil {
		t.Fatalf("write: %v", err)
	}
	reply := make([]byte, 7)
	if err := connection.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatalf("deadline: %v", err)
	}
	if n, err := connection.Read(reply); err == nil {
		t.Errorf("a paused server answered %q", reply[:n])
	}
	server.Resume()
	if err := connection.SetReadDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatalf("deadline: %v", err)
	}
	if n, err := connection.Read(reply); err != nil || string(reply[:n]) != "+PONG\r\n" {
		t.Errorf("after resume: %q, %v", reply[:n], err)
	}
}

// The watchdog ends a server whose test process died without stopping it; the
// closed pipe is all that it sees of such a death.
func TestWatchdogKillsAnOrphan(t *testing.T) {
	t.Parallel()
	server := Private(t, Options{})
	server.mu.Lock()
	p := server.process
	server.mu.Unlock()
	if err := p.pipe.Close(); err != nil {
		t.Fatalf("close the pipe: %v", err)
	}
	select {
	case <-p.exited:
	case <-testContext(t).Done():
		t.Fatal("the server outlived its test process")
	}
	if got := p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(); got != syscall.SIGKILL {
		t.Errorf("ended by %v, want SIGKILL", got)
	}
}

// A server that took a port first is never mistaken for the one just started.
func TestLaunchRefusesATakenPort(t *testing.T) {
	t.Parallel()
	server := Private(t, Options{})
	p, err := launch(server.binary, t.TempDir(), server.port, nil)
	if err == nil {
		p.kill()
		t.Fatal("two servers on one port")
	}
	if !strings.Contains(err.Error(), errExited.Error()) {
		t.Errorf("error %v, want %v", err, errExited)
	}
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, info string
		want       Version
	}{
		{"Redis", "# Server\r\nredis_version:7.0.15\r\nprocess_id:1\r\n", Version{"redis", 7, 0, 15}},
		{"Valkey names both", "redis_version:7.2.4\r\nvalkey_version:8.1.0\r\n", Version{"valkey", 8, 1, 0}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseVersion(test.info)
			if err != nil {
				t.Fatalf("parse: %v", err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("version (-want +got):\n%s", diff)
			}
		})
	}
	if v, err := parseVersion("redis_version:\r\n"); err == nil {
		t.Errorf("parsed nothing as %v", v)
	}
}
