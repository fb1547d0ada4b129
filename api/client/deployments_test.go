package client_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Deployments come page by page, one alone by its name, each as the server sent it.
func TestDeployments(t *testing.T) {
	t.Parallel()
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.EscapedPath()+"?"+r.URL.RawQuery)
		switch {
		case r.URL.Path != "/v1/deployments":
			write(w, `{"name":"a/b","served":true,"nonterminal":3}`)
		case r.URL.Query().Get("cursor") == "":
			write(w, `{"items":[{"name":"a","revisions":[{"revision":"1","stranded":true}]}],"next_cursor":"c1"}`)
		default:
			write(w, `{"items":[{"name":"b","limit":0}],"next_cursor":null}`)
		}
	})
	one, err := c.Deployment(t.Context(), "a/b")
	if err != nil || one.Name != "a/b" || *one.Nonterminal != 3 || string(one.Raw) != `{"name":"a/b","served":true,"nonterminal":3}` {
		t.Errorf("one %+v, %v", one, err)
	}
	var raw []string
	for d, err := range c.Deployments(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, string(d.Raw))
	}
	if diff := cmp.Diff([]string{`{"name":"a","revisions":[{"revision":"1","stranded":true}]}`, `{"name":"b","limit":0}`}, raw); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"/v1/deployments/a%2Fb?", "/v1/deployments?limit=200", "/v1/deployments?cursor=c1&limit=200"}, asked); diff != "" {
		t.Error(diff)
	}
}
