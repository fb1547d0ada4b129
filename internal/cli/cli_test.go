package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/internal/cli"
	"github.com/windrow-run/windrow/internal/config"
	"github.com/windrow-run/windrow/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// program is one run of the command line.
type program struct {
	env       map[string]string
	in        string
	newServer func(config.Config, []durable.Deployment, *slog.Logger) (cli.Server, error)
	out, err  bytes.Buffer
}

func (p *program) run(ctx context.Context, args ...string) int {
	main := cli.Main{Stdin: strings.NewReader(p.in), Stdout: &p.out, Stderr: &p.err, NewServer: p.newServer,
		Exit: func(int) {}, LookupEnv: func(name string) (string, bool) {
			value, ok := p.env[name]
			return value, ok
		}}
	return main.Run(ctx, args)
}

// fake is a Windrow server that answers each request with what is scripted for its method and path, and records bodies.
type fake struct {
	url     string
	mu      sync.Mutex
	bodies  []string
	answers map[string][]string // a problem where it begins with {"status"
}

func serve(t *testing.T, answers map[string][]string) *fake {
	t.Helper()
	f := &fake{answers: answers}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	f.url = s.URL
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		body = append(body, " key="+key...)
	}
	f.bodies = append(f.bodies, strings.TrimSpace(string(body)+" "+r.Header.Get("Last-Event-ID")))
	name := r.Method + " " + r.URL.Path
	if len(f.answers[name]) == 0 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	answer := f.answers[name][0]
	f.answers[name] = f.answers[name][1:]
	var status int
	if n, _ := fmt.Sscanf(answer, `{"status":%d`, &status); n == 1 {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
	}
	_, _ = io.WriteString(w, answer) // what does not arrive fails the test of the command
}

const (
	queued    = `{"execution_id":"e1","status":"queued","sequence":1,"result":1e400}`
	completed = "id: 1-end\nevent: completed\ndata: {\"execution_id\":\"e1\",\"status\":\"completed\",\"attempt\":2,\"result\":{\"n\":1.0}}\n\n"
	failed    = "id: 1-end\nevent: failed\ndata: {\"execution_id\":\"e1\",\"status\":\"failed\",\"error\":" +
		"{\"type\":\"Quota\",\"code\":\"quota\",\"message\":\"No more today.\"}}\n\n"
	canceled = "id: 1-end\nevent: canceled\ndata: {\"execution_id\":\"e1\",\"status\":\"canceled\"}\n\n"
	story    = "id: 1-1\nevent: status\ndata: {\"status\":\"running\",\"attempt\":1}\n\n" +
		"id: 1-2\nevent: chunk\ndata: {\"attempt\":1,\"payload\":{\"index\":0,\"text\":\"Once \"}}\n\n" +
		"id: 1-3\nevent: progress\ndata: {\"sequence\":1,\"kind\":\"paragraph\",\"message\":\"Told.\"}\n\n" +
		"id: 1-4\nevent: chunk\ndata: {\"attempt\":1,\"payload\":\"upon\"}\n\n"
	listPath = "GET /v1/executions"
	listed   = `{"items":[{"execution_id":"e1","deployment":"story","revision":"1","status":"queued","attempt":0,"labels":{"team":"a","n":"1"},"created_at":"2026-01-02T03:04:05.678Z"},` +
		`{"execution_id":"e2","deployment":"story","revision":"1","status":"waiting","attempt":2,"labels":{},"created_at":"2026-01-02T03:04:05.678Z"}],"next_cursor":"c"}`
	listEnd    = `{"items":[],"next_cursor":null}`
	erased     = `{"executions":1,"unfinished":1,"keys":2,"kept":1,"more":false}`
	erasedPart = `{"executions":3,"unfinished":0,"keys":0,"kept":0,"more":true}`
	bulkHead   = `{"as_of":"2026-01-02T03:04:05.678Z","done":%d,"matched":%d,"total":%d,"failed":%d,"failures":%s,"skipped":%s,"stopped":%s,"cursor":%s,"confirmation":%s,"dry_run":%v}`
	submitPath = "POST /v1/deployments/story/executions"
	streamPath = "GET /v1/executions/e1/stream"
)

// Answers to bulk requests.
var (
	countedPart = fmt.Sprintf(bulkHead, 0, 2, 2, 0, "[]", "{}", "null", `"c0"`, "null", true)
	counted     = fmt.Sprintf(bulkHead, 0, 3, 5, 0, "[]", "{}", "null", "null", `"ok"`, true)
	bulkPart    = fmt.Sprintf(bulkHead, 0, 2, 2, 1, `[{"execution_id":"e9","problem":{"detail":"It can't be read."}}]`, `{"not_found":1}`, "null", `"c1"`, "null", false)
	bulkEnd     = fmt.Sprintf(bulkHead, 3, 3, 5, 0, "[]", "{}", "null", "null", "null", false)
	bulkStopped = fmt.Sprintf(bulkHead, 0, 0, 0, 0, "[]", "{}", `{"status":409,"code":"more_match","detail":"More match."}`, `"c1"`, "null", false)
)

// Each client command is its request, prints what it was asked for, and exits with what came of it.
func TestClientCommands(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "input.json")
	if err := os.WriteFile(file, []byte(`{"from":"file"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	pretty := "{\n  \"execution_id\": \"e1\",\n  \"status\": \"queued\",\n  \"sequence\": 1,\n  \"result\": 1e400\n}\n"
	waiting := "id: 1-1\nevent: status\ndata: {\"status\":\"waiting\",\"waiting\":{\"message\":\"Ship it?\"}}\n\n"
	for name, tc := range map[string]struct {
		args    string
		in      string
		answers map[string][]string
		code    int
		out     string
		err     string // part of standard error
		bodies  []string
	}{
		"submit":              {"submit story", "", map[string][]string{submitPath: {queued}}, 0, "e1\n", "", []string{`{"input":{}}`}},
		"submit labels":       {"submit story 1 --label a=b --label c=d", "", map[string][]string{submitPath: {queued}}, 0, "e1\n", "", []string{`{"input":1,"labels":{"a":"b","c":"d"}}`}},
		"submit JSON":         {"submit story 1e400 --key k", "", map[string][]string{submitPath: {queued}}, 0, "e1\n", "", []string{`{"input":1e400} key=k`}},
		"submit priority":     {"submit story 1 --priority 9", "", map[string][]string{submitPath: {queued}}, 0, "e1\n", "", []string{`{"input":1,"priority":9}`}},
		"submit later":        {"submit story 1 --delay 90m", "", map[string][]string{submitPath: {queued}}, 0, "e1\n", "", []string{`{"delay":5400,"input":1}`}},
		"submit in time":      {"submit story 1 --queue-ttl 1m --deadline 2030-01-31T09:00:00+01:00", "", map[string][]string{submitPath: {queued}}, 0, "e1\n", "", []string{`{"deadline":"2030-01-31T08:00:00Z","input":1,"queue_ttl":60}`}},
		"submit at a time":    {"submit story 1 --run-at 2030-01-31T09:00:00.5+01:00", "", map[string][]string{submitPath: {queued}}, 0, "e1\n", "", []string{`{"input":1,"run_at":"2030-01-31T08:00:00.5Z"}`}},
		"submit stdin":        {"submit story -", "[1]\n", map[string][]string{submitPath: {queued}}, 0, "e1\n", "", []string{`{"input":[1]}`}},
		"submit file":         {"submit story @" + file, "", map[string][]string{submitPath: {queued}}, 0, "e1\n", "", []string{`{"input":{"from":"file"}}`}},
		"submit no file":      {"submit story @/none", "", nil, 1, "", "no such file", nil},
		"submit no JSON":      {"submit story {chunks:1}", "", nil, 2, "", "not JSON", nil},
		"submit broken stdin": {"submit story -", "{", nil, 2, "", "what standard input holds is not JSON", nil},
		"submit broken file":  {"submit story @" + broken, "", nil, 2, "", "what " + broken + " holds is not JSON", nil},
		"submit empty key":    {"submit story 1 --key=", "", nil, 2, "", "--key: the key is empty", nil},
		"submit odd key":      {"submit story 1 --key a\x01b", "", nil, 1, "", "windrow: the idempotency key must have no control characters", nil},
		"resume empty key":    {"resume e1 1 --key=", "", nil, 2, "", "--key: the key is empty", nil},
		"resume no answer":    {"resume e1", "", nil, 2, "", "resume takes an id and an answer", nil},
		"submit refused": {"submit story 1", "", map[string][]string{submitPath: {
			`{"status":422,"code":"invalid_input","detail":"It does not fit.","errors":[{"pointer":"","message":"must be an object"}]}`}},
			1, "", "windrow: It does not fit. (422 invalid_input)\n  \"\" must be an object", []string{`{"input":1}`}},
		"submit wait":  {"submit story --wait", "", map[string][]string{submitPath: {queued}, streamPath: {story + completed}}, 0, "{\"n\":1.0}\n", "e1\n", []string{`{"input":{}}`, ""}},
		"submit both":  {"submit story --wait --watch", "", nil, 2, "", "don't go together", nil},
		"submit watch": {"submit story --watch", "", map[string][]string{submitPath: {queued}, streamPath: {completed}}, 0, "{\"n\":1.0}\n", "e1\ncompleted at attempt 2", []string{`{"input":{}}`, ""}},
		"get":          {"get e1", "", map[string][]string{"GET /v1/executions/e1": {queued}}, 0, pretty, "", []string{""}},
		"get wait": {"get e1 --wait", "", map[string][]string{streamPath: {completed}}, 0, "{\n  \"execution_id\": \"e1\",\n  \"status\": \"completed\",\n" +
			"  \"attempt\": 2,\n  \"result\": {\n    \"n\": 1.0\n  }\n}\n", "", []string{""}},
		"get wait, canceled": {"get e1 --wait", "", map[string][]string{streamPath: {canceled}}, 4, "{\n  \"execution_id\": \"e1\",\n  \"status\": \"canceled\"\n}\n", "", []string{""}},
		"result":             {"result e1", "", map[string][]string{"GET /v1/executions/e1/result": {`{"n":1e400}`}}, 0, "{\"n\":1e400}\n", "", []string{""}},
		"result none":        {"result e1", "", map[string][]string{"GET /v1/executions/e1/result": {`{"status":404,"code":"no_result","detail":"The execution is running."}`}}, 1, "", "windrow: The execution is running. (404 no_result)", []string{""}},
		"input":              {"input e1", "", map[string][]string{"GET /v1/executions/e1/input": {`[1.0]`}}, 0, "[1.0]\n", "", []string{""}},
		"history":            {"history e1 --limit 3", "", map[string][]string{historyPath: {past}}, 0, pastTable, "", []string{""}},
		"history JSON":       {"history e1 --json", "", map[string][]string{historyPath: {`{"entries":[{"cause":"submitted"}]}`}}, 0, "{\n  \"entries\": [\n    {\n      \"cause\": \"submitted\"\n    }\n  ]\n}\n", "", []string{""}},
		"history nothing":    {"history e2", "", nil, 1, "", "windrow: Not Found (404)", []string{""}},
		"get nothing":        {"get e2", "", nil, 1, "", "windrow: Not Found (404)", []string{""}},
		"resume": {`resume e1 {"approved":true} --key k --sequence 3`, "", map[string][]string{"POST /v1/executions/e1/resume": {queued}},
			0, pretty, "", []string{`{"input":{"approved":true},"sequence":3} key=k`}},
		"cancel":         {"cancel e1 --reason why", "", map[string][]string{"POST /v1/executions/e1/cancel": {queued}}, 0, pretty, "", []string{`{"reason":"why"}`}},
		"watch":          {"watch e1", "", map[string][]string{streamPath: {story + completed}}, 0, "Once upon\n{\"n\":1.0}\n", "running, attempt 1\n\n· Told.\ncompleted at attempt 2\n", []string{""}},
		"watch again":    {"watch e1", "", map[string][]string{streamPath: {"retry: 1\n\n" + story, completed}}, 0, "Once upon\n{\"n\":1.0}\n", "trying again in", []string{"", "1-4"}},
		"watch failed":   {"watch e1", "", map[string][]string{streamPath: {failed}}, 3, "", "windrow: failed: Quota: No more today. (quota)", []string{""}},
		"watch canceled": {"watch e1", "", map[string][]string{streamPath: {canceled}}, 4, "", "canceled\n", []string{""}},
		"watch waiting":  {"watch e1", "", map[string][]string{streamPath: {waiting + completed}}, 0, "{\"n\":1.0}\n", "waiting: Ship it?\n  answer with: windrow resume e1 JSON", []string{""}},
		"nobody listens": {"get e1 --server http://127.0.0.1:1", "", nil, 1, "", "`windrow dev` starts a server; --server or WINDROW_SERVER", nil},
		"list": {"list --label team=a --limit 3", "", map[string][]string{listPath: {listed, listEnd}}, 0,
			"ID  DEPLOYMENT  REVISION  STATUS   ATTEMPT  CREATED               LABELS\n" +
				"e1  story       1         queued   0        2026-01-02T03:04:05Z  n=1,team=a\n" +
				"e2  story       1         waiting  2        2026-01-02T03:04:05Z  \n", "", []string{"", ""}},
		"list JSON":      {"list --json --limit 1", "", map[string][]string{listPath: {listed}}, 0, listed[10:strings.Index(listed, `,{"exec`)] + "\n", "", []string{""}},
		"list odd time":  {"list --from yesterday", "", nil, 2, "", "--from: it must be a time", nil},
		"list two times": {"list --from 2026-01-02T03:04:05Z --since 1h", "", nil, 2, "", "don't go together", nil},
		"list negative":  {"list --limit -1", "", nil, 2, "", "must not be negative", nil},
		"list refused":   {"list", "", nil, 1, "ID  DEPLOYMENT  REVISION  STATUS  ATTEMPT  CREATED  LABELS\n", "Not Found", []string{""}},
		"erase":          {"erase e1", "", map[string][]string{"DELETE /v1/executions/e1": {erased}}, 0, "executions 1, unfinished 1, keys 2\n", "1 stay", []string{""}},
		"erase nothing":  {"erase e2", "", nil, 1, "", "Not Found", []string{""}},
		"erase an owner": {"erase --owner a --yes", "", map[string][]string{"DELETE /v1/owners/a": {erasedPart, erased}}, 0, "executions 4, unfinished 1, keys 2\n", "1 stay", []string{"", ""}},
		"erase unsure":   {"erase --owner a", "", nil, 2, "", "add --dry-run to count them, or --yes", nil},
		"erase both":     {"erase e1 --owner a", "", nil, 2, "", "either ids or filters", nil},
		"erase nobody":   {"erase --owner= --yes", "", nil, 2, "", "--owner: it is empty", nil},
		"erase no id":    {"erase", "", nil, 2, "", "takes an id, or filters", nil},
		"erase many": {"erase --owner a --status failed --yes", "", map[string][]string{"POST /v1/bulk/erase": {counted, bulkPart, bulkEnd}}, 1,
			"erased 3, skipped as not_found 1, failed 1\n", "e9: It can't be read.\n2 of 5\nwindrow: 1 failed\n", []string{
				`{"dry_run":true,"filter":{"owner":"a","status":["failed"]}}`, `{"confirmation":"ok","filter":{"owner":"a","status":["failed"]}}`,
				`{"confirmation":"ok","cursor":"c1","filter":{"owner":"a","status":["failed"]}}`}},
		"cancel count": {"cancel --deployment story --label a=b --dry-run", "", map[string][]string{"POST /v1/bulk/cancel": {countedPart, counted}}, 0,
			"5 would be canceled\n", "counted 2\n", []string{`{"dry_run":true,"filter":{"deployment":"story","labels":{"a":"b"}}}`,
				`{"cursor":"c0","dry_run":true,"filter":{"deployment":"story","labels":{"a":"b"}}}`}},
		"cancel too many": {"cancel --all --yes --at-most 4", "", map[string][]string{"POST /v1/bulk/cancel": {counted}}, 1, "", "more than --at-most 4: nothing was done", []string{`{"all":true,"dry_run":true}`}},
		"cancel both":     {"cancel e1 --all", "", nil, 2, "", "either ids or filters", nil},
		"cancel nothing":  {"cancel", "", nil, 2, "", "takes an id, or filters", nil},
		"cancel unsure":   {"cancel --all", "", nil, 2, "", "add --dry-run", nil},
		"cancel odd time": {"cancel --from x --yes", "", nil, 2, "", "--from: it must be a time", nil},
		"retry":           {"retry e1 e2 --key k --same-revision", "", map[string][]string{"POST /v1/executions/e1/resubmit": {strings.Replace(queued, "e1", "e5", 1)}}, 1, "e5\n", "windrow: e2: Not Found (404)", []string{`{"revision":"same"} key=k`, `{"revision":"same"} key=k`}},
		"retry JSON":      {"retry e1 --json", "", map[string][]string{"POST /v1/executions/e1/resubmit": {queued}}, 0, queued + "\n", "", []string{`{}`}},
		"retry many": {"retry --status failed --yes --json --key k", "", map[string][]string{"POST /v1/bulk/resubmit": {counted, bulkEnd}}, 0,
			`{"as_of":"2026-01-02T03:04:05.678Z","confirmation":null,"cursor":null,"done":3,"dry_run":false,"failed":0,"failures":[],"matched":3,"skipped":{},"stopped":null,"total":5}` + "\n", "", []string{
				`{"dry_run":true,"filter":{"status":["failed"]}}`, `{"confirmation":"ok","filter":{"status":["failed"]}} key=k`}},
		"retry stopped": {"retry --all --yes", "", map[string][]string{"POST /v1/bulk/resubmit": {counted, bulkStopped}}, 1, "resubmitted 0, failed 0\n",
			"windrow: More match. (409 more_match)", []string{`{"all":true,"dry_run":true}`, `{"all":true,"confirmation":"ok"}`}},
		"submit owner":  {"submit story 1 --owner a", "", map[string][]string{submitPath: {queued}}, 0, "e1\n", "", []string{`{"input":1,"owner":"a"}`}},
		"watch nothing": {"watch e2", "", nil, 1, "", "Not Found", []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := serve(t, tc.answers)
			p := &program{in: tc.in, env: map[string]string{"WINDROW_SERVER": f.url}}
			code := p.run(t.Context(), strings.Fields(tc.args)...)
			if code != tc.code || p.out.String() != tc.out || !strings.Contains(p.err.String(), tc.err) {
				t.Errorf("exit %d, want %d\nstdout %q\nwant   %q\nstderr %q\nwant   %q", code, tc.code, &p.out, tc.out, &p.err, tc.err)
			}
			if diff := cmp.Diff(tc.bodies, f.bodies); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A wrong command line is exit code 2 and a line that says where help is.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"submit", "get", "get a b", "watch", "resume", "cancel", "result", "input a b", "fly", "get e1 --nothing", "get e1 --server ::", "dev extra",
		"serve --lease never", "dev --partitions 99", "health --url nowhere",
	} {
		p := &program{}
		if code := p.run(t.Context(), strings.Fields(args)...); code != 2 || !strings.HasPrefix(p.err.String(), "windrow: ") || p.out.Len() > 0 {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", args, code, &p.out, &p.err)
		}
	}
}

// serve without Redis says which variable is missing.
func TestServeNeedsRedis(t *testing.T) {
	t.Parallel()
	p := &program{}
	if code := p.run(t.Context(), "serve"); code != 2 || !strings.Contains(p.err.String(), "WINDROW_REDIS_URL") {
		t.Errorf("exit %d, stderr %q", code, &p.err)
	}
}

// Help shows the unit, the default and the variable of a setting.
func TestHelp(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"serve --help": "[WINDROW_LEASE] (default 30s)", "dev --help": "[WINDROW_ADDR] (default \"127.0.0.1:8080\")", "--help": "windrow dev",
		"": "windrow dev", "submit --help": "WINDROW_SERVER", "version": "windrow ",
	} {
		p := &program{}
		if code := p.run(t.Context(), strings.Fields(args)...); code != 0 || !strings.Contains(p.out.String(), want) {
			t.Errorf("%q: exit %d, stdout %q", args, code, &p.out)
		}
	}
}

// health turns an answer into an exit code; without a path it asks for readiness.
func TestHealth(t *testing.T) {
	t.Parallel()
	f := serve(t, map[string][]string{"GET /readyz": {"ok", `{"status":503,"code":"draining"}`}, "GET /livez": {"ok"}})
	for _, tc := range []struct {
		url  string
		code int
	}{{f.url, 0}, {f.url + "/", 1}, {f.url + "/livez", 0}, {f.url + "/none", 1}, {"http://127.0.0.1:1", 1}} {
		p := &program{}
		if code := p.run(t.Context(), "health", "--url", tc.url); code != tc.code {
			t.Errorf("%s: exit %d, stderr %q", tc.url, code, &p.err)
		}
	}
}

// idle is a server that listens and does nothing until it is told to end.
type idle struct {
	listening chan struct{}
	err       error
}

func (s *idle) Run(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	close(s.listening)
	<-ctx.Done()
	return nil
}

func (s *idle) Listening() <-chan struct{} { return s.listening }
func (s *idle) URL() string                { return "http://127.0.0.1:4711" }

// stopper ends a run once a text was printed.
type stopper struct {
	text strings.Builder
	stop context.CancelFunc
}

func (s *stopper) String() string { return s.text.String() }

func (s *stopper) Write(p []byte) (int, error) {
	n, err := s.text.Write(p)
	if strings.Contains(s.String(), "Ctrl-C") {
		s.stop()
	}
	return n, err
}

// dev serves the demo deployments in memory and prints where, with lines that work; serve takes Redis from the environment.
func TestServers(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct {
		env    map[string]string
		redis  string
		number int
		lease  string
		banner string
	}{
		"dev --lease 3s":                     {nil, "", 5, "3s", "in memory"},
		"dev":                                {map[string]string{"WINDROW_REDIS_URL": "redis://:sesame@host:1/2"}, "redis://:sesame@host:1/2", 5, "30s", "redis://host:1/2"},
		"dev --redis redis://h --revision 2": {nil, "redis://h", 5, "30s", "redis://h"},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			var got config.Config
			var deployments []durable.Deployment
			out := &stopper{stop: cancel}
			main := cli.Main{Stdout: out, Stderr: io.Discard, LookupEnv: func(n string) (string, bool) { v, ok := want.env[n]; return v, ok },
				NewServer: func(c config.Config, d []durable.Deployment, _ *slog.Logger) (cli.Server, error) {
					got, deployments = c, d
					return &idle{listening: make(chan struct{})}, nil
				}}
			if code := main.Run(ctx, strings.Fields(args)); code != 0 {
				t.Errorf("exit %d", code)
			}
			if got.Redis.Reveal() != want.redis || len(deployments) != want.number || got.Lease.String() != want.lease {
				t.Errorf("%+v with %d deployments", got, len(deployments))
			}
			for _, text := range []string{"http://127.0.0.1:4711", want.banner, "curl -N"} {
				if !strings.Contains(out.String(), text) {
					t.Errorf("the welcome lacks %q:\n%s", text, out)
				}
			}
			if strings.Contains(out.String(), "sesame") {
				t.Errorf("the password shows:\n%s", out)
			}
		})
	}
}

// A program with deployments of its own serves them under its own name, with the demo only where it is asked for.
func TestOwnDeployments(t *testing.T) {
	t.Parallel()
	own := durable.MustDefine("greet", "1", func(durable.Context, string) (string, error) { return "", nil }, nil)
	for args, tc := range map[string]struct {
		number int
		said   string
	}{"dev": {1, "greeter submit greet '{}'"}, "dev --demo": {6, "greeter submit story"}} {
		ctx, cancel := context.WithCancel(t.Context())
		var served []durable.Deployment
		out := &stopper{stop: cancel}
		main := cli.Main{Program: "greeter", Deployments: []durable.Deployment{own}, Stdout: out, Stderr: io.Discard,
			LookupEnv: func(string) (string, bool) { return "", false },
			NewServer: func(_ config.Config, d []durable.Deployment, _ *slog.Logger) (cli.Server, error) {
				served = d
				return &idle{listening: make(chan struct{})}, nil
			}}
		if code := main.Run(ctx, strings.Fields(args)); code != 0 || len(served) != tc.number || served[0].Name() != "greet" {
			t.Errorf("%s: exit %d with %d deployments", args, code, len(served))
		}
		if !strings.Contains(out.String(), tc.said) || !strings.Contains(out.String(), "Served: greet") {
			t.Errorf("%s: the welcome is\n%s", args, out)
		}
	}
}

// A server that can't start is exit code 1 with the reason; the demo deployments are served only where they are asked for.
func TestServeFails(t *testing.T) {
	t.Parallel()
	env := map[string]string{"WINDROW_REDIS_URL": "redis://h"}
	const warning = "this program serves no deployment"
	for args, number := range map[string]int{"serve": 0, "serve --demo": 5} {
		p := &program{env: env, newServer: func(_ config.Config, d []durable.Deployment, _ *slog.Logger) (cli.Server, error) {
			if len(d) != number {
				t.Errorf("%s: %d deployments", args, len(d))
			}
			return &idle{err: errors.New("the policy is wrong")}, nil
		}}
		if code := p.run(t.Context(), strings.Fields(args)...); code != 1 || !strings.Contains(p.err.String(), "windrow: the policy is wrong") {
			t.Errorf("%s: exit %d, stderr %q", args, code, &p.err)
		}
		if strings.Contains(p.err.String(), warning) != (number == 0) {
			t.Errorf("%s: stderr %q", args, &p.err)
		}
	}
}

// An interrupted command is exit code 130 and says no more.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := &program{}
	if code := p.run(ctx, "get", "e1"); code != 130 || p.err.Len() > 0 {
		t.Errorf("exit %d, stderr %q", code, &p.err)
	}
}
