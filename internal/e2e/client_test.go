package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// projection is what the tests look at of an execution.
type projection struct {
	ID       string `json:"execution_id"`
	Revision string
	Status   string
	Attempt  int64
	Sequence int64
	Result   json.RawMessage
	Error    *struct{ Code, Message string }
	Waiting  json.RawMessage
	Progress []struct{ Sequence int64 }
}

// reply is an answered request.
type reply struct {
	Status int
	Header http.Header
	Body   []byte
}

func (r reply) decode(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(r.Body, v); err != nil {
		t.Fatalf("reply %d is not JSON: %v\n%s", r.Status, err, r.Body)
	}
}

func (r reply) projection(t testing.TB) projection {
	t.Helper()
	var p projection
	r.decode(t, &p)
	return p
}

// call sends one request; headers are "Name: value". Only a transport error is an error.
func call(ctx context.Context, method, url, body string, headers ...string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, data}, err
}

// must is call that fails the test unless it is answered with status.
func must(t testing.TB, ctx context.Context, status int, method, url, body string, headers ...string) reply {
	t.Helper()
	r, err := call(ctx, method, url, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != status {
		t.Fatalf("%s %s: %d, want %d\n%s", method, url, r.Status, status, r.Body)
	}
	return r
}

// submit sends input to a deployment and returns the id.
func submit(t testing.TB, ctx context.Context, server, deployment, input string, headers ...string) string {
	t.Helper()
	r := must(t, ctx, http.StatusAccepted, "POST", server+"/v1/deployments/"+deployment+"/executions",
		`{"input":`+input+`}`, headers...)
	return r.projection(t).ID
}

// event is one event of a stream.
type event struct{ ID, Name, Data string }

// terminal reports whether the event ends a stream for good.
func (e event) terminal() bool {
	return e.Name == "completed" || e.Name == "failed" || e.Name == "canceled"
}

// follow reads a stream from a cursor ("" for a fresh one) and calls see for each event, until see returns false, the
// stream ends, or ctx does. It returns the last id, which only moves with what see was given.
func follow(ctx context.Context, server, id, cursor string, see func(event) bool) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/v1/executions/"+id+"/stream", nil)
	if err != nil {
		return cursor, err
	}
	if cursor != "" {
		req.Header.Set("Last-Event-ID", cursor)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return cursor, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return cursor, fmt.Errorf("stream: %s", resp.Status)
	}
	var e event
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return cursor, err
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "id":
			e.ID = value
		case "event":
			e.Name = value
		case "data":
			e.Data += value
		case "":
			if e.ID != "" {
				cursor = e.ID
			}
			if e.Name != "" && !see(e) {
				return cursor, nil
			}
			e = event{}
		}
	}
}

// outcome follows an execution to its end and returns the terminal event.
func outcome(t testing.TB, ctx context.Context, server, id string) (event, projection) {
	t.Helper()
	var last event
	_, err := follow(ctx, server, id, "", func(e event) bool {
		last = e
		return !e.terminal()
	})
	if !last.terminal() {
		t.Fatalf("stream of %s ended without a terminal event: %v", id, err)
	}
	var p projection
	if err := json.Unmarshal([]byte(last.Data), &p); err != nil {
		t.Fatalf("terminal event: %v\n%s", err, last.Data)
	}
	return last, p
}
