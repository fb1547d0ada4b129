package httpapi

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/windrow-run/windrow/internal/store/faultstore"
)

// wrong is a request that breaks one rule, and the words by which its problem says which.
type wrong struct {
	body    string
	headers []string
	status  int
	code    string
	words   []string
}

func wrongBodies() map[string]wrong {
	deep := `{"input":` + strings.Repeat("[", testDepth+1) + strings.Repeat("]", testDepth+1) + `}`
	large := `{"input":"` + strings.Repeat("x", testBody) + `"}`
	json := func(rule string, body string) wrong {
		return wrong{body, nil, 400, "invalid_json", []string{`"rule":"` + rule + `"`, `"offset":`, `"detail":"`}}
	}
	return map[string]wrong{
		"not JSON":              json("not_json", `{"input":nope}`),
		"cut short":             json("not_json", `{"input":`),
		"only white space":      json("empty", " "),
		"no object":             json("not_object", `[1]`),
		"duplicate keys":        json("duplicate_key", `{"input":1,"input":2}`),
		"duplicate keys inside": json("duplicate_key", `{"input":{"a":1,"\u0061":2}}`),
		"trailing data":         json("trailing_data", `{"input":1}{}`),
		"depth":                 json("too_deep", deep),
		"invalid UTF-8":         json("invalid_utf8", "{\"input\":\"\xff\"}"),
		"overlong UTF-8":        json("invalid_utf8", "{\"input\":\"\xc0\xaf\"}"),
		"lone surrogate":        json("lone_surrogate", `{"input":"\ud800"}`),
		"lone surrogate, name":  json("lone_surrogate", `{"input":{"\udc00":1}}`),
		"NUL":                   json("nul_byte", "{\"input\":\"\x00\"}"),
		"NUL after":             json("nul_byte", "{\"input\":1}\x00"),
		"byte order mark":       json("byte_order_mark", "\xef\xbb\xbf{\"input\":1}"),
		"unknown option":        {`{"input":1,"prio":1}`, nil, 400, "invalid_request", []string{`\"prio\"`, `"pointer":"/prio"`, "unknown_member"}},
		"two unknown options":   {`{"input":1,"a/b":1,"~":2}`, nil, 400, "invalid_request", []string{`\"a/b\", \"~\"`, `"/a~1b"`, `"/~0"`}},
		"no input":              {`{}`, nil, 400, "invalid_request", []string{`\"input\"`, `"rule":"required"`}},
		"too large":             {large, nil, 413, "too_large", []string{`"limit":2000`}},
		"no media type":         {`{"input":1}`, []string{"Content-Type: "}, 415, "unsupported_media_type", []string{"application/json"}},
		"wrong media type":      {`{"input":1}`, []string{"Content-Type: text/json"}, 415, "unsupported_media_type", []string{"application/json"}},
		"other charset":         {`{"input":1}`, []string{"Content-Type: application/json; charset=utf-16"}, 415, "unsupported_media_type", []string{"UTF-8"}},
		"compressed":            {`{"input":1}`, []string{"Content-Encoding: gzip"}, 415, "unsupported_media_type", []string{"encoding"}},
		"empty key":             {`{"input":1}`, []string{"Idempotency-Key: "}, 400, "invalid_idempotency_key", []string{"at least 1 byte"}},
		"empty key in quotes":   {`{"input":1}`, []string{`Idempotency-Key: ""`}, 400, "invalid_idempotency_key", []string{"at least 1 byte"}},
		"key of 513 bytes":      {`{"input":1}`, []string{"Idempotency-Key: " + strings.Repeat("k", 513)}, 400, "invalid_idempotency_key", []string{"at most 512 bytes", `"limit":512`}},
		"key that is no UTF-8":  {`{"input":1}`, []string{"Idempotency-Key: \xff"}, 400, "invalid_idempotency_key", []string{"UTF-8"}},
		"key with a tab":        {`{"input":1}`, []string{"Idempotency-Key: a\tb"}, 400, "invalid_idempotency_key", []string{"control characters"}},
		"two keys":              {`{"input":1}`, []string{"Idempotency-Key: a", "Idempotency-Key: b"}, 400, "invalid_idempotency_key", []string{"once"}},
		"long header":           {`{"input":1}`, []string{"X-Long: " + strings.Repeat("x", testHeader)}, 431, "headers_too_large", []string{`"limit":4096`}},
	}
}

// A submission and an answer that break a rule are told which, and change nothing.
func TestBadInput(t *testing.T) {
	t.Parallel()
	for name, bad := range wrongBodies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			waiting := r.waiting(`true`)
			_, before := r.stored()
			for _, path := range []string{submitPath("echo"), waiting + "/resume"} {
				r.refuses(r.call("POST", path, bad.body, bad.headers...), bad)
			}
			if unfinished, changes := r.stored(); unfinished != 1 || changes != before {
				t.Errorf("%d executions and %d exchanges, want 1 and %d", unfinished, changes, before)
			}
			if e := r.projection(r.call("GET", waiting, "")); e.Status != "waiting" {
				t.Errorf("the wait is %s", e.Status)
			}
		})
	}
}

func (r *rig) refuses(a reply, bad wrong) {
	r.Helper()
	if p := r.problem(a); a.status != bad.status || string(p.Code) != bad.code || p.Detail == "" {
		r.Errorf("answered %d %s, want %d %s", a.status, a.body, bad.status, bad.code)
	}
	r.has(a, bad.words...)
}

// A body over the limit is refused also where nobody has said how long it is.
func TestLargeBodyInChunks(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, path := range []string{submitPath("echo"), possible + "/resume", possible + "/cancel"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.server.URL+path,
			chunked(`{"input":"`+strings.Repeat("x", testBody)+`"}`))
		r.must(err)
		request.Header.Set("Content-Type", "application/json")
		response, err := r.client.Do(request)
		r.must(err)
		body, err := io.ReadAll(response.Body)
		r.must(err)
		response.Body.Close()
		r.refuses(reply{response.StatusCode, response.Header, string(body)}, wrong{status: 413, code: "too_large", words: []string{`"limit":2000`}})
	}
	if unfinished, changes := r.stored(); unfinished != 0 || changes != 0 {
		t.Errorf("%d executions and %d exchanges", unfinished, changes)
	}
}

// A cancellation is as strict, where it has a body at all.
func TestBadCancellation(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.running()
	_, before := r.stored()
	for _, bad := range []wrong{
		{`{`, nil, 400, "invalid_json", []string{`"rule":"not_json"`}},
		{`{"input":1}`, nil, 400, "invalid_request", []string{`\"input\"`}},
		{`{"reason":1}`, nil, 400, "invalid_request", []string{`"pointer":"/reason"`, `"rule":"type"`}},
		{`{"reason":"` + strings.Repeat("ü", 1001) + `"}`, nil, 413, "too_large", nil},
		{`{"reason":"` + strings.Repeat("x", 1001) + `"}`, nil, 400, "invalid_request", []string{`"rule":"maxLength"`, `"limit":1000`}},
		{`{}`, []string{"Content-Type: text/plain"}, 415, "unsupported_media_type", nil},
	} {
		r.refuses(r.call("POST", path+"/cancel", bad.body, bad.headers...), bad)
	}
	if _, changes := r.stored(); changes != before {
		t.Errorf("%d exchanges, want %d", changes, before)
	}
}

// Keys come through the whole floor as they are.
func TestKeysAreExact(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, key := range []string{"a,b", "a%2Fb", "a%zz", "a+b", `a"b`, "schlüssel", strings.Repeat("k", 512)} {
		a := r.call("POST", submitPath("again"), `{"input":1}`, "Idempotency-Key: "+key)
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key)
		b := r.call("POST", submitPath("again"), `{"input":1}`, `Idempotency-Key: "`+quoted+`"`)
		if a.status != 202 || b.header.Get("Idempotent-Replay") != "true" || r.projection(a).ExecutionID != r.projection(b).ExecutionID {
			t.Errorf("%s: %d %s, then %d %s", key, a.status, a.body, b.status, b.body)
		}
	}
}

// What can be no id, or no name, is not there, and nobody is asked for it.
func TestImpossibleIDs(t *testing.T) {
	t.Parallel()
	r := start(t)
	ids := []string{"x%2Fy", "%2F", "%00", "0%00", "..%2f..", "a%20b", "a-b", "a_b", "a.b", "%C3%A9", "%FF", "%0a", "*", "a:b", "%7Ba%7D",
		strings.Repeat("a", 25), strings.Repeat("a", 3000)}
	for _, id := range ids {
		path := "/v1/executions/" + id
		for _, a := range []reply{r.call("GET", path, ""), r.call("GET", path+"/stream", ""), r.call("POST", path+"/resume", `{"input":1}`),
			r.call("POST", path+"/cancel", ""), r.call("POST", path+"/resume", `{`)} {
			if p := r.problem(a); a.status != 404 || p.Code != "not_found" {
				t.Errorf("%s: %d %s", id, a.status, a.body)
			}
		}
	}
	for _, name := range append(ids[:6:6], "-a", ".", "_", strings.Repeat("a", 65), "%C3%A9") {
		a := r.call("POST", submitPath(name), `{"input":1}`, "Idempotency-Key: k")
		if p := r.problem(a); a.status != 404 || p.Code != "unknown_deployment" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if _, changes := r.stored(); changes+r.store.Calls(faultstore.Read) != 0 {
		t.Errorf("the store was asked %d times to change something and %d times to read", changes, r.store.Calls(faultstore.Read))
	}
}

// An id may be written with escapes that it does not need.
func TestEscapedID(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := r.submit("echo", "1")
	id := path[len(executionsPath):]
	escaped := "%" + strings.ToUpper(string("0123456789abcdef"[id[0]>>4])+string("0123456789abcdef"[id[0]&15])) + id[1:]
	if got := r.projection(r.call("GET", executionsPath+escaped, "")); got.ExecutionID != id {
		t.Errorf("%s is %s", escaped, got.ExecutionID)
	}
}

// A path that is written with an escape has the methods of its pattern.
func TestMethodsOfEscapedPath(t *testing.T) {
	t.Parallel()
	r := start(t)
	a := r.call("PATCH", "/v1/executions/a%2Fb", "")
	if a.status != 405 || a.header.Get("Allow") != "GET, HEAD, DELETE" {
		t.Errorf("%d, Allow %q, %s", a.status, a.header.Get("Allow"), a.body)
	}
}

// dial opens a connection of its own and sends what a client library would not.
func (r *rig) dial(request string) net.Conn {
	r.Helper()
	connection, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", r.server.Listener.Addr().String())
	r.must(err)
	r.Cleanup(func() { connection.Close() })
	_, err = io.WriteString(connection, request)
	r.must(err)
	return connection
}

// What is no HTTP never comes to an operation: the server itself answers, in plain text, and nothing is stored. The contract
// says so.
func TestNoHTTP(t *testing.T) {
	t.Parallel()
	r := start(t)
	const head = "POST /v1/deployments/echo/executions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 11\r\n"
	for name, test := range map[string]struct {
		request string
		status  int
	}{
		"NUL in a key":       {head + "Idempotency-Key: a\x00b\r\n\r\n{\"input\":1}", 400},
		"NUL in a name":      {head + "X\x00Y: a\r\n\r\n{\"input\":1}", 400},
		"NUL in the path":    {"GET /v1/executions/a\x00b HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		"broken escape":      {"GET /v1/executions/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		"no host":            {"GET /livez HTTP/1.1\r\n\r\n", 400},
		"two lengths":        {head + "Content-Length: 12\r\n\r\n{\"input\":1}", 400},
		"unknown encoding":   {"POST /v1/deployments/echo/executions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: zip\r\n\r\n", 501},
		"endless headers":    {head + "X-Long: " + strings.Repeat("x", 20_000) + "\r\n\r\n", 431},
		"no HTTP at all":     {"hello\r\n\r\n", 400},
		"a version to come":  {"GET /livez HTTP/7.0\r\nHost: x\r\n\r\n", 505},
		"unfulfillable wish": {head + "Expect: cake\r\n\r\n{\"input\":1}", 417},
	} {
		response, err := http.ReadResponse(bufio.NewReader(r.dial(test.request)), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		response.Body.Close()
		if response.StatusCode != test.status {
			t.Errorf("%s: answered %d, want %d", name, response.StatusCode, test.status)
		}
	}
	if unfinished, changes := r.stored(); unfinished != 0 || changes != 0 {
		t.Errorf("%d executions and %d exchanges", unfinished, changes)
	}
}
