package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Deployments are a table with a line for each revision, or JSON as the server sent it; what has work and no worker says so.
func TestDeployments(t *testing.T) {
	t.Parallel()
	story := `{"name":"story","revisions":[{"revision":"1","stranded":true,"workers":0,"backlog":{"ready":3,"delayed":1,"running":2,"waiting":4}},` +
		`{"revision":"2","served":true,"workers":2,"backlog":{}}]}`
	echo := `{"name":"echo","revisions":[{"revision":"1","served":true},{"revision":"0"}]}`
	table := "DEPLOYMENT  REVISION  SERVED                       WORKERS  READY  DELAYED  RUNNING  WAITING  OLDEST\n"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"deployments"}, table +
			"story       1         no worker for this revision  0        3      1        2        4        -\n" +
			"story       2         yes                          2        0      0        0        0        -\n" +
			"echo        1         yes                          -        -      -        -        -        -\n" +
			"echo        0         no                           -        -      -        -        -        -\n"},
		{[]string{"deployments", "--json"}, story + "\n" + echo + "\n"},
		{[]string{"deployments", "story", "--json"}, story + "\n"},
	} {
		f := serve(t, map[string][]string{"GET /v1/deployments": {`{"items":[` + story + `,` + echo + `],"next_cursor":null}`},
			"GET /v1/deployments/story": {story}})
		p := program{}
		if code := p.run(t.Context(), append(test.args, "--server", f.url)...); code != 0 {
			t.Errorf("%s: exit %d: %s", strings.Join(test.args, " "), code, p.err.String())
		}
		if diff := cmp.Diff(test.want, p.out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", strings.Join(test.args, " "), diff)
		}
	}
}
