package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/sse"
)

// spellings is JSON that a careless encoder would spell otherwise.
func spellings() []string {
	return []string{
		"3889108265204450030", "-0", "1e400", "0.1e1", "-0.0E-0", "100000000000000000000000000000000001", "[]", "{}", "[[],{}]", `""`,
		"null", "true", `{"b":1,"a":{"d":[],"c":-0}}`, `{"":"","\u0000":0}`, `"<&>"`, `"\u003c\u0026\u003E"`, "\"\u2028\u2029\"",
		`"\u2028"`, `"\/\b\f\u00e9é\ud83d\ude00😀"`, "\"\u007f\u0080\ufeff\ufffd\"", `[1,1.0,1.00,1e0]`,
	}
}

// Every byte of a client's JSON comes back as a result, over submission, replay and a retry with a checkpoint.
func TestResultsAreExact(t *testing.T) {
	t.Parallel()
	for i, value := range spellings() {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			key := fmt.Sprintf("Idempotency-Key: k%d", i)
			spaced := `{ "input" : ` + value + "\n}"
			for _, deployment := range []string{"echo", "again"} {
				first := r.projection(r.call("POST", submitPath(deployment), spaced, key))
				r.exact(r.await(first.Links.Self, execution.Completed).Result, value)
				replay := r.call("POST", submitPath(deployment), `{"input":`+value+`}`, key)
				r.has(replay, `"result":`+value+`,"error":null`)
				if again := r.projection(replay); again.ExecutionID != first.ExecutionID || replay.header.Get("Idempotent-Replay") != "true" {
					t.Errorf("replayed as %+v", again)
				}
			}
		})
	}
}

func (r *rig) exact(got contract.JSON, want string) {
	r.Helper()
	if string(got) != want {
		r.Errorf("%s became %s", want, got)
	}
}

// So it does as an answer, also where the answer is repeated by its key.
func TestAnswersAreExact(t *testing.T) {
	t.Parallel()
	for _, value := range spellings() {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			path := r.waiting(`true`)
			for range 2 {
				a := r.call("POST", path+"/resume", "{\"input\":\t"+value+"}", "Idempotency-Key: k")
				if a.status != 202 {
					t.Fatalf("answered %d %s", a.status, a.body)
				}
				r.exact(r.await(path, execution.Completed).Result, value)
			}
		})
	}
}

// So it does as the schema of an answer, in the projection and in the stream, and with it the text around it.
func TestSchemasAreExact(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{`{"enum":[3889108265204450030,-0,1e400,0.1e1,[],{},"<&>","` + "\u2028" + `","\u003c"]}`,
		`{"type":"object","required":["b","a"],"properties":{"b":{},"a":{"const":0.10}}}`, `true`} {
		r := start(t)
		path := r.submit("ask", schema)
		_, events := r.follow(path, "waiting")
		want := `"waiting":{"kind":"approval","message":"<\"Ship\" & go?>","expected_input_schema":` + schema + `,"deadline":null}`
		r.has(r.call("GET", path, ""), want)
		if last := events[len(events)-1]; !strings.Contains(last.Data, want) {
			t.Errorf("the stream shows %s, want %s", last.Data, want)
		}
	}
}

// So it does as a chunk and as the metadata of progress, live and to who comes later.
func TestStreamsAreExact(t *testing.T) {
	t.Parallel()
	for _, value := range spellings() {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			path := r.submit("tell", value)
			live := r.open("GET", path+"/stream", "")
			defer live.Body.Close()
			r.release <- struct{}{}
			streams := map[string][]sse.Event{"live": r.read(live, "")}
			_, streams["late"] = r.follow(path, "")
			chunk := `{"attempt":1,"payload":` + value + `}`
			for name, events := range streams {
				var told []string
				for _, e := range events {
					told = append(told, e.Name+" "+e.Data)
				}
				text := strings.Join(told, "\n") + "\n"
				if !strings.Contains(text, "chunk "+chunk+"\n") || !strings.Contains(text, `"metadata":`+value+"}\n") {
					t.Errorf("%s: %s", name, text)
				}
			}
			r.has(r.call("GET", path, ""), `"message":"<told>",`, `"metadata":`+value+`}]`)
		})
	}
}

// follow reads the stream up to the first event of that name, or of that status; or to its end.
func (r *rig) follow(path, until string, headers ...string) (lastID string, events []sse.Event) {
	r.Helper()
	response := r.open("GET", path+"/stream", "", headers...)
	defer response.Body.Close()
	events = r.read(response, until)
	return events[len(events)-1].ID, events
}

func (r *rig) read(response *http.Response, until string) (events []sse.Event) {
	r.Helper()
	if response.StatusCode != http.StatusOK {
		r.Fatalf("the stream is answered with %d", response.StatusCode)
	}
	for reader := sse.NewReader(response.Body, 0); ; {
		event, err := reader.Next()
		if errors.Is(err, io.EOF) && until == "" {
			return events
		}
		if err != nil {
			r.Fatalf("no %s after %v: %v", until, events, err)
		}
		events = append(events, event)
		if until != "" && (event.Name == until || strings.HasPrefix(event.Data, `{"status":"`+until+`"`)) {
			return events
		}
	}
}
