package contracttest_test

import (
	"net/http"
	"strings"
	"testing"

	windrow "github.com/windrow-run/windrow"
	"github.com/windrow-run/windrow/internal/contracttest"
)

func load(t *testing.T) *contracttest.Contract {
	t.Helper()
	c, err := contracttest.Load(windrow.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	execution = `{"execution_id":"4YtGzq0XnJ2rVb8mKd7Lw1Qs","deployment":"echo","revision":"1","status":"completed",` +
		`"attempt":1,"sequence":3,"progress":[],"result":[1e400,-0,3889108265204450030],"error":null,"waiting":null,` +
		`"cancellation_requested_at":null,"cancellation_reason":null,"available_at":null,"labels":{},"priority":0,"deadline":null,"created_at":"2026-03-01T09:30:00.000Z",` +
		`"updated_at":"2026-03-01T09:30:00.000Z","expires_at":null,"links":{"self":"a","stream":"b","resume":"c","cancel":"d"}}`
	problem = `{"type":"https://windrow.run/problems/not_found","title":"t","status":404,"code":"not_found"}`
	one     = "/v1/executions/4YtGzq0XnJ2rVb8mKd7Lw1Qs"
	submit  = "/v1/deployments/echo/executions"
)

// headers are those of a response of that media type, with more of them as "Name: value".
func headers(mediaType string, more ...string) http.Header {
	h := http.Header{"Content-Type": {mediaType}, "X-Request-Id": {"r1"}}
	for _, line := range more {
		name, value, _ := strings.Cut(line, ": ")
		h.Set(name, value)
	}
	if strings.HasPrefix(mediaType, "application/json") { // as an execution has them; elsewhere they are nobody's business
		h.Set("ETag", `"1-x"`)
		h.Set("Cache-Control", "no-cache, private")
	}
	return h
}

func without(h http.Header, name string) http.Header {
	h.Del(name)
	return h
}

var sseHeaders = []string{"Cache-Control: no-cache, no-transform", "X-Accel-Buffering: no"}

func events(body string, cut bool) contracttest.Response {
	return contracttest.Response{Method: "GET", Path: one + "/stream", Status: 200,
		Header: headers("text/event-stream", sseHeaders...), Body: []byte(body), Cut: cut}
}

// What the contract documents fits.
func TestFits(t *testing.T) {
	t.Parallel()
	c := load(t)
	end := "id: 1-end\nevent: completed\ndata: " + execution + "\n\n"
	for name, r := range map[string]contracttest.Response{
		"execution":     {Method: "GET", Path: one, Status: 200, Header: headers("application/json"), Body: []byte(execution)},
		"parameter":     {Method: "GET", Path: one, Status: 200, Header: headers("application/json; charset=utf-8"), Body: []byte(execution)},
		"HEAD":          {Method: "HEAD", Path: one, Status: 200, Header: headers("application/json")},
		"problem":       {Method: "GET", Path: one, Status: 404, Header: headers("application/problem+json"), Body: []byte(problem)},
		"submitted":     {Method: "POST", Path: submit, Status: 202, Header: headers("application/json", "Location: /x"), Body: []byte(execution)},
		"replayed":      {Method: "POST", Path: submit, Status: 202, Header: headers("application/json", "Location: /x", "Idempotent-Replay: true"), Body: []byte(execution)},
		"no content":    {Method: "GET", Path: one + "/stream", Status: 204, Header: headers("")},
		"text":          {Method: "GET", Path: "/metrics", Status: 200, Header: headers("text/plain; version=0.0.4"), Body: []byte("up 1\n")},
		"not now":       {Method: "GET", Path: one, Status: 503, Header: headers("application/problem+json", "Retry-After: 1"), Body: []byte(problem)},
		"no such path":  {Method: "GET", Path: "/nowhere", Status: 404, Header: headers("application/problem+json"), Body: []byte(problem)},
		"HEAD nowhere":  {Method: "HEAD", Path: "/nowhere", Status: 404, Header: headers("application/problem+json")},
		"no method":     {Method: "PUT", Path: one, Status: 405, Header: headers("application/problem+json", "Allow: GET"), Body: []byte(problem)},
		"hayhooks":      {Method: "GET", Path: "/echo/executions/x", Status: 404, Header: headers("application/json"), Body: []byte(`{"detail":"d"}`)},
		"hayhooks, no":  {Method: "PUT", Path: "/echo/executions/x", Status: 405, Header: headers("application/json", "Allow: GET"), Body: []byte(`{"detail":"d"}`)},
		"stream":        events("id: 1-0-0-0\n\n: keepalive\n\nevent: chunk\ndata: {\"attempt\":1,\"payload\":1e400}\n\n"+end, false),
		"stream, cut":   events("id: 1-0-0-0\n\nevent: gap\ndata: {\"detail\":\"d\"}\n\n", true),
		"stream, error": events("id: 1-0-0-0\n\nevent: error\ndata: "+problem+"\n\n", false),
	} {
		if err := c.Check(r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What it does not document is found.
func TestBreaks(t *testing.T) {
	t.Parallel()
	c := load(t)
	broken := strings.Replace(execution, `"attempt":1`, `"attempt":-1`, 1)
	end := "id: 1-end\nevent: completed\ndata: " + execution + "\n\n"
	for name, test := range map[string]struct {
		r    contracttest.Response
		want string
	}{
		"status":            {contracttest.Response{Method: "GET", Path: one, Status: 202, Header: headers("application/json"), Body: []byte(execution)}, "documents no such status"},
		"other's error":     {contracttest.Response{Method: "GET", Path: one, Status: 404, Header: headers("application/json"), Body: []byte(`{"detail":"d"}`)}, "media type"},
		"hayhooks' error":   {contracttest.Response{Method: "PUT", Path: "/echo/executions/x", Status: 405, Header: headers("application/problem+json", "Allow: GET"), Body: []byte(problem)}, "no such operation"},
		"header missing":    {contracttest.Response{Method: "POST", Path: submit, Status: 202, Header: headers("application/json"), Body: []byte(execution)}, "Location is missing"},
		"header of all":     {contracttest.Response{Method: "GET", Path: one, Status: 200, Header: without(headers("application/json"), "X-Request-Id"), Body: []byte(execution)}, "X-Request-Id is missing"},
		"header's value":    {contracttest.Response{Method: "GET", Path: one, Status: 503, Header: headers("application/problem+json", "Retry-After: soon"), Body: []byte(problem)}, "Retry-After"},
		"header below":      {contracttest.Response{Method: "GET", Path: one, Status: 503, Header: headers("application/problem+json", "Retry-After: 0"), Body: []byte(problem)}, "Retry-After"},
		"header's constant": {contracttest.Response{Method: "POST", Path: submit, Status: 202, Header: headers("application/json", "Location: /x", "Idempotent-Replay: yes"), Body: []byte(execution)}, "Idempotent-Replay"},
		"member's value":    {contracttest.Response{Method: "GET", Path: one, Status: 200, Header: headers("application/json"), Body: []byte(broken)}, "/attempt"},
		"member missing":    {contracttest.Response{Method: "GET", Path: one, Status: 200, Header: headers("application/json"), Body: []byte(`{}`)}, "missing properties"},
		"time":              {contracttest.Response{Method: "GET", Path: one, Status: 200, Header: headers("application/json"), Body: []byte(strings.Replace(execution, "2026-03-01T09", "yesterday", 1))}, "date-time"},
		"unknown code":      {contracttest.Response{Method: "GET", Path: one, Status: 404, Header: headers("application/problem+json"), Body: []byte(strings.ReplaceAll(problem, "not_found", "lost"))}, "/code"},
		"not JSON":          {contracttest.Response{Method: "GET", Path: one, Status: 200, Header: headers("application/json"), Body: []byte(`{`)}, "not JSON"},
		"media type":        {contracttest.Response{Method: "GET", Path: one, Status: 404, Header: headers("application/json"), Body: []byte(problem)}, "is not documented"},
		"no media type":     {contracttest.Response{Method: "GET", Path: one, Status: 404, Header: headers(""), Body: []byte(problem)}, "is not documented"},
		"body of 204":       {contracttest.Response{Method: "GET", Path: one + "/stream", Status: 204, Header: headers(""), Body: []byte("x")}, "there is a body"},
		"body of HEAD":      {contracttest.Response{Method: "HEAD", Path: one, Status: 200, Header: headers("application/json"), Body: []byte("x")}, "there is a body"},
		"path":              {contracttest.Response{Method: "GET", Path: "/nowhere", Status: 200, Header: headers("application/json"), Body: []byte(`{}`)}, "no such operation"},
		"plain 404":         {contracttest.Response{Method: "GET", Path: "/nowhere", Status: 404, Header: headers("text/plain"), Body: []byte("404")}, "no such operation"},
		"405 without Allow": {contracttest.Response{Method: "PUT", Path: one, Status: 405, Header: headers("application/problem+json"), Body: []byte(problem)}, "no such operation"},
		"404 on a path":     {contracttest.Response{Method: "PUT", Path: one, Status: 404, Header: headers("application/problem+json"), Body: []byte(problem)}, "no such operation"},
		"event's name":      {events("id: 1\nevent: news\ndata: {}\n\n"+end, false), "the event news"},
		"event's data":      {events("id: 1\nevent: chunk\ndata: {\"attempt\":0,\"payload\":1}\n\n"+end, false), "the event chunk"},
		"event's JSON":      {events("id: 1\nevent: chunk\ndata: {\n\n"+end, false), "not of mediatype"},
		"no end":            {events("id: 1\nevent: gap\ndata: {\"detail\":\"d\"}\n\n", false), "no end"},
		"two ends":          {events(end+end, false), "after the last one"},
		"stream's headers":  {contracttest.Response{Method: "GET", Path: one + "/stream", Status: 200, Header: headers("text/event-stream", "Cache-Control: no-store"), Body: []byte(end)}, "Cache-Control"},
	} {
		err := c.Check(test.r)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// A document that can't be used is refused when it is loaded.
func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"not YAML":      "a: [",
		"not a schema":  "components: {schemas: {A: {type: 7}}}",
		"bad reference": "components: {schemas: {A: {$ref: '#/components/schemas/B', title: a}}}",
	} {
		if _, err := contracttest.Load(text); err == nil {
			t.Errorf("%s: loaded", name)
		}
	}
}

// The operations are known by their paths.
func TestOperation(t *testing.T) {
	t.Parallel()
	c := load(t)
	for request, want := range map[string]string{
		"GET " + one: "getExecution", "HEAD " + one: "getExecution", "POST " + submit: "submitExecution",
		"PUT " + one: "", "GET /v1/executions/": "", "GET /v1/executions/a%2Fb": "getExecution", "GET /": "",
	} {
		method, path, _ := strings.Cut(request, " ")
		if got, ok := c.Operation(method, path); got != want || ok != (want != "") {
			t.Errorf("%s is %q, want %q", request, got, want)
		}
	}
}

// The examples of the contract keep it.
func TestExamples(t *testing.T) {
	t.Parallel()
	if n, err := load(t).CheckExamples(); err != nil || n < 10 {
		t.Errorf("%d examples: %v", n, err)
	}
}

// The transport sees whole responses, and says where they end too early.
func TestTransport(t *testing.T) {
	t.Parallel()
	c := load(t)
	for name, test := range map[string]struct {
		body string
		read int64
		fits bool
	}{
		"whole":          {execution, 1 << 20, true},
		"broken":         {`{}`, 1 << 20, false},
		"stream, left":   {"id: 1\n\n", 2, true},
		"stream, no end": {"id: 1\n\n", 1 << 20, false},
	} {
		path, header := one, headers("application/json")
		if strings.HasPrefix(name, "stream") {
			path, header = one+"/stream", headers("text/event-stream", sseHeaders...)
		}
		var reported []error
		through := c.Transport(canned{header, test.body}, func(err error) { reported = append(reported, err) })
		exchange(t, through, path, test.read)
		if (len(reported) == 0) != test.fits {
			t.Errorf("%s: reported %v", name, reported)
		}
	}
}
