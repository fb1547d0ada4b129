package cli_test

import (
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
)

var update = flag.Bool("update", false, "rewrite the golden output of doctor")

// namespace makes one with three queued executions, and returns its prefix and their ids.
func namespace(t *testing.T) (prefix string, ids []string) {
	t.Helper()
	prefix = redistest.Prefix(t)
	s, err := redis.New(redis.Config{URL: redistest.URL(t), Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		out, err := s.Submit(t.Context(), store.Submission{Submit: execution.Submit{ID: s.NewID(store.Key{}), Deployment: "story",
			Revision: "r1", Budgets: execution.DefaultBudgets(), Input: []byte(`"secret"`)}})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, out.Record.Control.ID)
	}
	return prefix, ids
}

// harm does something to a key of the namespace.
func harm(t *testing.T, command ...any) {
	t.Helper()
	if err := redistest.Client(t).Do(t.Context(), command...).Err(); err != nil {
		t.Fatal(err)
	}
}

// doctor runs the command and holds its exit code and what it prints, with names in place of what differs in each run.
func doctor(t *testing.T, prefix string, ids []string, code int, args ...string) string {
	t.Helper()
	p := &program{env: map[string]string{"WINDROW_REDIS_URL": redistest.URL(t), "WINDROW_KEY_PREFIX": prefix}}
	if got := p.run(t.Context(), append([]string{"doctor"}, args...)...); got != code {
		t.Errorf("%v: exit code %d, want %d; %s", args, got, code, p.err.String())
	}
	if p.err.Len() > 0 && code != 2 {
		t.Errorf("standard error has %q", p.err.String())
	}
	printed := regexp.MustCompile(`(?m)^\d+ keys|"keys": \d+`).ReplaceAllString(p.out.String(), "N keys") // a repair changes how many a scan meets
	return strings.NewReplacer(prefix, "PREFIX", ids[0], "ID0", ids[1], "ID1", ids[2], "ID2").Replace(printed)
}

// What doctor prints, and its exit code: healthy, with findings, repaired, with what can't be repaired.
func TestDoctorOutput(t *testing.T) {
	t.Parallel()
	prefix, ids := namespace(t)
	var said strings.Builder
	step := func(code int, args ...string) {
		t.Helper()
		said.WriteString("$ doctor " + strings.Join(args, " ") + "\n" + doctor(t, prefix, ids, code, args...) + "\n")
	}
	step(0)
	harm(t, "DEL", prefix+":{0}:c:"+ids[0])
	harm(t, "HSET", prefix+":{0}:c:"+ids[1], "a", "secret")
	harm(t, "SET", prefix+":{0}:what\n", "secret")
	step(1)
	step(1, "--repair")
	harm(t, "DEL", prefix+":{0}:what\n")
	step(0, "--json")
	harm(t, "ZREM", prefix+":{0}:ready:story@r1", ids[2])
	step(1, "--json")
	step(0, "--repair", "--rate", "100")
	const golden = "testdata/doctor.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(said.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), said.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What could not be checked is exit code 2, with the reason and nothing on standard output; no password shows.
func TestDoctorCannotCheck(t *testing.T) {
	t.Parallel()
	for want, args := range map[string]string{
		"no Redis is named":                    "",
		"did not answer":                       "--redis redis://:sesame@127.0.0.1:1",
		"it is not the URL of a Redis":         "--redis http://:sesame@h",
		"there is no namespace":                "--redis " + redistest.URL(t) + " --key-prefix nobody",
		"--rate: 0 is not between 1":           "--redis redis://:sesame@h --rate 0",
		"-1 is not between 0 and 32":           "--redis redis://:sesame@h --partitions -1",
		"--redis-hosts (WINDROW_REDIS_HOSTS":   "--redis redis://h --redis-hosts h --redis-password sesame",
		"--redis-tls-ca (WINDROW_REDIS_TLS_CA": "--redis-hosts h --redis-tls --redis-tls-ca absent.pem --redis-password sesame",
		"unknown flag: --bogus":                "--bogus",
	} {
		p := &program{}
		code := p.run(t.Context(), append([]string{"doctor"}, strings.Fields(args)...)...)
		said := p.err.String()
		if code != 2 || !strings.Contains(said, want) || strings.Contains(said, "sesame") || p.out.Len() > 0 {
			t.Errorf("%s: exit code %d, %q, printed %q; want 2 with %q", args, code, said, p.out.String(), want)
		}
	}
}

// JSON is one document, also where nothing was found.
func TestDoctorJSON(t *testing.T) {
	t.Parallel()
	prefix, _ := namespace(t)
	p := &program{}
	if code := p.run(t.Context(), "doctor", "--redis", redistest.URL(t), "--key-prefix", prefix, "--json"); code != 0 {
		t.Fatalf("exit code %d: %s", code, p.err.String())
	}
	var got any
	if err := json.Unmarshal(p.out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"prefix": prefix, "partitions": 1.0, "keys": 11.0, "findings": []any{}, "unverified": []any{}}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
