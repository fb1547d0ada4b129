package httpapi

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/windrow-run/windrow/api/contract"
)

// bodyServer answers with a body of at most 20 bytes and depth 2, of which 1 is for members, as it was read, or with the problem.
func bodyServer(t *testing.T, timeout time.Duration) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(bodyDeadline(timeout)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, refused := readBody(w, r, bodyLimits{bytes: 20, depth: 1})
		if refused != nil {
			refused.Write(w)
			return
		}
		_, _ = fmt.Fprintf(w, "%v %s", body == nil, body)
	})))
	t.Cleanup(server.Close)
	return server
}

// post sends a body; one that is wrapped in a reader of unknown length goes out in chunks.
func post(t *testing.T, server *httptest.Server, body io.Reader, headers map[string]string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(read)
}

func jsonType(value string) map[string]string { return map[string]string{"Content-Type": value} }

func chunked(text string) io.Reader { return struct{ io.Reader }{strings.NewReader(text)} }

func TestReadBody(t *testing.T) {
	t.Parallel()
	server := bodyServer(t, time.Minute)
	tests := map[string]struct {
		body    io.Reader
		headers map[string]string
		want    string
	}{
		"compacted":         {strings.NewReader(`{ "a" : [ -0 ] }`), jsonType("application/json"), `false {"a":[-0]}`},
		"charset":           {strings.NewReader(`1`), jsonType(`Application/JSON; charset="UTF-8"`), `false 1`},
		"identity":          {strings.NewReader(`1`), map[string]string{"Content-Type": "application/json", "Content-Encoding": "identity"}, `false 1`},
		"at the limit":      {strings.NewReader(`"` + strings.Repeat("x", 18) + `"`), jsonType("application/json"), `false "` + strings.Repeat("x", 18) + `"`},
		"chunks":            {chunked(`[1]`), jsonType("application/json"), `false [1]`},
		"chunks, limit":     {chunked(`"` + strings.Repeat("x", 18) + `"`), jsonType("application/json"), `false "` + strings.Repeat("x", 18) + `"`},
		"no body":           {nil, nil, `true `},
		"no body, any type": {nil, jsonType("text/plain"), `true `},
		"chunks without":    {chunked(""), jsonType("application/json"), `true `},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if status, text := post(t, server, test.body, test.headers); status != http.StatusOK || text != test.want {
				t.Errorf("%d %s, want %s", status, text, test.want)
			}
		})
	}
}

func TestReadBodyRefuses(t *testing.T) {
	t.Parallel()
	server := bodyServer(t, time.Minute)
	large := `"` + strings.Repeat("x", 19) + `"`
	tests := map[string]struct {
		body    io.Reader
		headers map[string]string
		status  int
		words   []string
	}{
		"too large":          {strings.NewReader(large), jsonType("application/json"), 413, []string{"too_large", `"limit":20`}},
		"too large, chunks":  {chunked(large), jsonType("application/json"), 413, []string{"too_large", `"limit":20`}},
		"no type":            {strings.NewReader(`1`), nil, 415, []string{"unsupported_media_type"}},
		"form":               {strings.NewReader(`a=1`), jsonType("application/x-www-form-urlencoded"), 415, []string{"unsupported_media_type"}},
		"broken type":        {strings.NewReader(`1`), jsonType("application/json; ="), 415, []string{"unsupported_media_type"}},
		"other charset":      {strings.NewReader(`1`), jsonType("application/json; charset=latin1"), 415, []string{"UTF-8"}},
		"compressed":         {strings.NewReader(`1`), map[string]string{"Content-Type": "application/json", "Content-Encoding": "gzip"}, 415, []string{"content encoding"}},
		"not JSON":           {strings.NewReader(`{"a":nope}`), jsonType("application/json"), 400, []string{"invalid_json", "not_json", `"pointer":"/a"`, `"offset":6`}},
		"duplicate":          {strings.NewReader(`{"a":1,"a":2}`), jsonType("application/json"), 400, []string{"duplicate_key", `"pointer":"/a"`, `"offset":7`}},
		"trailing":           {strings.NewReader(`1 2`), jsonType("application/json"), 400, []string{"trailing_data", `"offset":2`}},
		"too deep":           {strings.NewReader(`[[[]]]`), jsonType("application/json"), 400, []string{"too_deep", `"pointer":"/0/0"`, `"limit":1,`, "At most 1 objects"}},
		"NUL":                {strings.NewReader("[\x00]"), jsonType("application/json"), 400, []string{"nul_byte", `"offset":1`}},
		"invalid UTF-8":      {strings.NewReader("\"\xff\""), jsonType("application/json"), 400, []string{"invalid_utf8"}},
		"lone surrogate":     {strings.NewReader(`"\ud800"`), jsonType("application/json"), 400, []string{"lone_surrogate"}},
		"byte order mark":    {strings.NewReader("\xef\xbb\xbf1"), jsonType("application/json"), 400, []string{"byte_order_mark"}},
		"only white space":   {strings.NewReader("  "), jsonType("application/json"), 400, []string{`"rule":"empty"`}},
		"offset of zero too": {strings.NewReader("x"), jsonType("application/json"), 400, []string{`"offset":0`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, text := post(t, server, test.body, test.headers)
			if status != test.status {
				t.Errorf("%d %s, want %d", status, text, test.status)
			}
			for _, word := range test.words {
				if !strings.Contains(text, word) {
					t.Errorf("%s lacks %s", text, word)
				}
			}
		})
	}
}

// A client that says how much it will send and does not is told so, and does not hold the server up, whether its body is
// read or refused unread.
func TestReadBodySlowly(t *testing.T) {
	t.Parallel()
	server := bodyServer(t, 50*time.Millisecond)
	tests := map[string]struct{ head, want string }{
		"read":           {"Content-Type: application/json\r\nContent-Length: 9", "HTTP/1.1 408 "},
		"read in chunks": {"Content-Type: application/json\r\nTransfer-Encoding: chunked", "HTTP/1.1 408 "},
		"refused unread": {"Content-Type: text/plain\r\nContent-Length: 9", "HTTP/1.1 415 "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close()
			if _, err := io.WriteString(connection, "POST / HTTP/1.1\r\nHost: x\r\n"+test.head+"\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(connection) // ends when the server closes the connection
			if err != nil || !strings.HasPrefix(string(answer), test.want) {
				t.Errorf("answered %s (%v), want %s", answer, err, test.want)
			}
		})
	}
}

// A body that is there in time does not hurry what comes after it.
func TestDeadlineIsLifted(t *testing.T) {
	t.Parallel()
	const timeout = 50 * time.Millisecond
	server := httptest.NewServer(bodyDeadline(timeout)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, refused := readBody(w, r, bodyLimits{bytes: 20, depth: 1}); refused != nil {
			refused.Write(w)
			return
		}
		select {
		case <-r.Context().Done():
			t.Error("the request ended with the deadline of its body")
		case <-time.After(3 * timeout):
		}
	})))
	defer server.Close()
	if status, text := post(t, server, strings.NewReader("1"), jsonType("application/json")); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
}

// A client that goes away in the middle leaves nothing behind but the problem that nobody reads.
func TestReadBodyCutOff(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader("[1,"), brokenReader{}))
	r.Header.Set("Content-Type", "application/json")
	_, refused := readBody(w, r, bodyLimits{bytes: 20, depth: 1})
	if refused == nil || refused.Code != contract.ProblemCodeInvalidRequest {
		t.Errorf("refused with %+v", refused)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
