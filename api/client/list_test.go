package client_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/api/client"
	"github.com/windrow-run/windrow/api/contract"
)

// A listing asks for its pages as they are taken, each with the same filters, and keeps what the server sent.
func TestList(t *testing.T) {
	t.Parallel()
	var queries []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.Path+"?"+r.URL.RawQuery)
		switch r.URL.Query().Get("cursor") {
		case "":
			write(w, `{"items":[{"execution_id":"e1","labels":{"n":"1"}},{"execution_id":"e2"}],"next_cursor":"c1"}`)
		case "c1":
			write(w, `{"items":[],"next_cursor":"c2"}`)
		case "c2":
			write(w, `{"items":[{"execution_id":"e3","more":1e400}],"next_cursor":null}`)
		}
	})
	opts := &client.ListOptions{Deployment: "a", Revision: "r", Statuses: []contract.ExecutionStatus{"queued", "failed"}, Owner: "o",
		Labels: map[string]string{"b": "2", "a": "1&"}, CreatedFrom: time.Unix(0, 0), CreatedBefore: time.Unix(1, 0), Page: 2}
	const times = "/v1/executions?created_before=1970-01-01T00%3A00%3A01Z&created_from=1970-01-01T00%3A00%3A00Z"
	const more = "&deployment=a&label=a%3D1%26&label=b%3D2&limit=2&owner=o&revision=r&status=queued&status=failed"
	list := c.List(t.Context(), opts)
	for range 2 { // it may be taken again
		queries = nil
		var raw []string
		for item, err := range list {
			if err != nil {
				t.Fatal(err)
			}
			raw = append(raw, string(item.Raw))
			if item.ExecutionID == "e1" && item.Labels["n"] != "1" {
				t.Errorf("%+v", item)
			}
		}
		if diff := cmp.Diff([]string{`{"execution_id":"e1","labels":{"n":"1"}}`, `{"execution_id":"e2"}`, `{"execution_id":"e3","more":1e400}`}, raw); diff != "" {
			t.Errorf("items (-want +got):\n%s", diff)
		}
		want := []string{times + more, times + "&cursor=c1" + more, times + "&cursor=c2" + more}
		if diff := cmp.Diff(want, queries); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	}
	queries = nil
	for range c.List(t.Context(), nil) {
		break
	}
	if diff := cmp.Diff([]string{"/v1/executions?"}, queries); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// What is no listing ends it with an error.
func TestListFails(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{`<html>`, `{}`, `{"items":[1],"next_cursor":null}`} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) { write(w, answer) })
		n := 0
		for _, err := range c.List(t.Context(), nil) {
			if n++; err == nil || n > 1 {
				t.Errorf("%s: %v", answer, err)
			}
		}
	}
}
