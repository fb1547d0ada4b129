package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/api/durabletest"
	"github.com/windrow-run/windrow/internal/cli"
	"github.com/windrow-run/windrow/internal/config"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/server"
	"github.com/windrow-run/windrow/internal/telemetry"
)

// whole makes a server as the real program does.
func whole(c config.Config, deployments []durable.Deployment, log *slog.Logger) (cli.Server, error) {
	metrics := telemetry.New()
	s, err := server.NewStore(c, log, metrics)
	if err != nil {
		return nil, err
	}
	app, err := server.New(server.Params{Config: c, Deployments: deployments, Logger: log, Store: s, Metrics: metrics})
	if err != nil {
		return nil, err
	}
	return app, nil
}

// What is wrong with a command line or its environment is exit code 2 and names the flag or the variable; no password shows.
func TestServeRefusesSettings(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args string
		env  string // NAME=value
		want []string
	}{
		"no Redis":          {"", "", []string{"WINDROW_REDIS_URL", "redis://localhost:6379/0", "the command dev"}},
		"empty Redis":       {"", "WINDROW_REDIS_URL=", []string{"WINDROW_REDIS_URL", "no Redis is named"}},
		"wrong scheme":      {"", "WINDROW_REDIS_URL=http://:sesame@h", []string{"WINDROW_REDIS_URL", "redis://user:password@host:6379/0"}},
		"unknown scheme":    {"--redis redis+tls://:sesame@h", "", []string{"--redis (WINDROW_REDIS_URL)", "scheme is none of redis, rediss"}},
		"unknown parameter": {"", "WINDROW_REDIS_URL=redis://:sesame@h?sesame=1", []string{"--redis (WINDROW_REDIS_URL)", "none of db"}},
		"malformed URL":     {"", "WINDROW_REDIS_URL=redis://:sesame%zz@h", []string{"--redis (WINDROW_REDIS_URL)", "malformed"}},
		"no database":       {"", "WINDROW_REDIS_URL=redis://:sesame@h/sesame", []string{"--redis (WINDROW_REDIS_URL)", "database is not a number"}},
		"unknown flag":      {"--bogus", "", []string{"unknown flag: --bogus", "windrow serve --help"}},
		"argument":          {"now", "", []string{"no arguments", "windrow serve --help"}},
		"duration":          {"--lease x", "", []string{"--lease", "such as 500ms, 30s, 1h or 7d"}},
		"number":            {"--slots x", "", []string{"--slots", "integer"}},
		"bytes":             {"--payload-bytes x", "", []string{"--payload-bytes", "64KB or 64KiB"}},
		"switch":            {"--demo=x", "", []string{"--demo", "true or false"}},
		"duration variable": {"", "WINDROW_LEASE=sesame", []string{"WINDROW_LEASE: want a duration such as 500ms, 30s, 1h or 7d", "--lease"}},
		"number variable":   {"", "WINDROW_SLOTS=sesame", []string{"WINDROW_SLOTS: want a whole number", "--slots"}},
		"bytes variable":    {"", "WINDROW_PAYLOAD_BYTES=sesame", []string{"WINDROW_PAYLOAD_BYTES: want an amount of bytes such as", "--payload-bytes"}},
		"switch variable":   {"", "WINDROW_DEMO=sesame", []string{"WINDROW_DEMO: want true or false", "--demo"}},
		"text variable":     {"--redis redis://h", "WINDROW_LOG_LEVEL=loud", []string{"--log-level (WINDROW_LOG_LEVEL)", "debug, info, warn or error"}},
		"range":             {"--redis redis://h", "WINDROW_LEASE=1ms", []string{"--lease (WINDROW_LEASE)", "1ms is not between 300ms and 1h"}},
		"slots":             {"--redis redis://h --slots -1", "", []string{"-1 is not between 0 and 10000"}},
		"two at once":       {"--redis redis://h --addr 80 --partitions 33", "", []string{"--addr (WINDROW_ADDR)", "--partitions (WINDROW_PARTITIONS)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			variable, value, _ := strings.Cut(tc.env, "=")
			p := &program{env: map[string]string{variable: value}, newServer: whole}
			code := p.run(t.Context(), append([]string{"serve"}, strings.Fields(tc.args)...)...)
			said := p.err.String()
			for _, want := range tc.want {
				if !strings.Contains(said, want) {
					t.Errorf("no %q in %q", want, said)
				}
			}
			if code != 2 || p.out.Len() > 0 || !strings.Contains(tc.args, "sesame") && strings.Contains(said, "sesame") {
				t.Errorf("exit %d, stdout %q, stderr %q", code, &p.out, said)
			}
		})
	}
}

// A Redis that can't keep executions is refused with the reason and the remedy, an address in use with its flag: exit code 1.
func TestServeRefusesPlaces(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	evicting := redistest.Private(t, redistest.Options{Args: []string{"--maxmemory-policy", "allkeys-lru"}})
	for name, tc := range map[string]struct {
		redis, addr string
		want        []string
	}{
		"evicts":      {evicting.URL(), "127.0.0.1:0", []string{"maxmemory-policy", "allkeys-lru", "set it to noeviction"}},
		"too old":     {old(t), "127.0.0.1:0", []string{"Redis 6.0.9", "Redis 6.2 or newer, or Valkey 7.2 or newer", "upgrade"}},
		"port in use": {evicting.URL(), taken.Addr().String(), []string{"--addr (WINDROW_ADDR)", taken.Addr().String(), "port 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &program{env: map[string]string{"WINDROW_REDIS_URL": tc.redis, "WINDROW_LOG_LEVEL": "error"}, newServer: whole}
			code := p.run(t.Context(), "serve", "--addr", tc.addr)
			for _, want := range append(tc.want, "windrow: ") {
				if !strings.Contains(p.err.String(), want) {
					t.Errorf("no %q in %q", want, &p.err)
				}
			}
			if code != 1 || strings.Contains(p.err.String(), "sesame") {
				t.Errorf("exit %d, stderr %q", code, &p.err)
			}
		})
	}
}

// old is the URL of something that answers as a Redis of a version from before what is needed.
func old(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() { answerAsOld(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		served.Wait()
	})
	return "redis://:sesame@" + l.Addr().String()
}

// answerAsOld answers one connection until it closes.
func answerAsOld(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		var words, size int
		if _, err := fmt.Fscanf(in, "*%d\r\n", &words); err != nil {
			return
		}
		command := ""
		for i := range words {
			if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
				return
			}
			word := make([]byte, size+2)
			if _, err := io.ReadFull(in, word); err != nil {
				return
			}
			if i == 0 {
				command = strings.ToLower(string(word[:size]))
			}
		}
		answer := "+OK\r\n"
		switch command {
		case "hello":
			answer = "-ERR unknown command\r\n"
		case "info":
			const info = "redis_version:6.0.9\r\nmaxmemory_policy:noeviction\r\n"
			answer = fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

// lines hands out the lines of a log as they are written.
type lines struct{ to chan string }

func (l lines) Write(p []byte) (int, error) {
	l.to <- string(p)
	return len(p), nil
}

// A process that the demo ends says so: it would otherwise be gone without a trace.
func TestCrashIsLogged(t *testing.T) {
	t.Parallel()
	p := &program{newServer: func(_ config.Config, all []durable.Deployment, _ *slog.Logger) (cli.Server, error) {
		i := slices.IndexFunc(all, func(d durable.Deployment) bool { return d.Name() == "crash" })
		e, err := durabletest.Submit(all[i], struct{}{})
		if err != nil {
			return nil, err
		}
		e.Run(t.Context())
		return nil, errors.New("enough")
	}}
	if p.run(t.Context(), "dev"); !strings.Contains(p.err.String(), "crash ends this process") {
		t.Errorf("stderr %q", &p.err)
	}
}

// A Redis that is not there at the start is waited for: the log says so without the password, the server is alive and not ready,
// and it stops when it is told to.
func TestServeWaitsForRedis(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	log := lines{make(chan string, 100)}
	var out strings.Builder
	main := cli.Main{Stdout: &out, Stderr: log, NewServer: whole, LookupEnv: func(name string) (string, bool) {
		return "redis://user:sesame@127.0.0.1:1/0", name == "WINDROW_REDIS_URL"
	}}
	code := make(chan int, 1)
	go func() { code <- main.Run(ctx, []string{"serve", "--addr", "127.0.0.1:0", "--log-format", "json"}) }()
	url, waits, all := "", false, ""
	for url == "" || !waits {
		text := <-log.to
		all += text
		var line struct{ Msg, URL, Error string }
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if line.Msg == "listening" {
			url = line.URL
		}
		waits = waits || strings.Contains(line.Msg, "trying again") && strings.Contains(line.Error, "127.0.0.1:1")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, status := range map[string]int{"/livez": 200, "/status": 200, "/readyz": 503, "/v1/executions/e1": 503} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != status || strings.Contains(string(body), "sesame") {
			t.Errorf("%s: %d, %v: %s", path, resp.StatusCode, err, body)
		}
	}
	stop()
	if c := <-code; c != 0 || strings.Contains(all+out.String(), "sesame") {
		t.Errorf("exit %d, log %s, stdout %s", c, all, &out)
	}
}
