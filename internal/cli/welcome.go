package cli

import (
	"io"
	"strings"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/internal/config"
)

// writeWelcome is the one block that a newcomer reads. Its lines work as they are printed, but for the ids.
func writeWelcome(w io.Writer, program, url string, c config.Config, served []durable.Deployment) {
	store := "in memory: what is submitted is gone when this process ends"
	if c.Redis != "" {
		store = "in " + c.Redis.String()
	}
	text := welcomeDemo
	if !c.Demo {
		text = welcomeOwn
	}
	names := make([]string, len(served))
	for i, d := range served {
		names[i] = d.Name()
	}
	first := "DEPLOYMENT"
	if len(names) > 0 {
		first = names[0]
	}
	welcome := strings.NewReplacer("{program}", program, "{url}", url, "{store}", store, "{first}", first,
		"{names}", strings.Join(names, ", "))
	_, _ = welcome.WriteString(w, text) // a server does not end because nobody reads its welcome
}

const welcomeDemo = `
  Windrow is listening on {url}
  State is kept {store}
  Served: {names}

  Submit work, and follow it as it runs:

    curl -s {url}/v1/deployments/story/executions -H 'Content-Type: application/json' -d '{"input":{"chunks":60,"seconds":5}}'
    curl -N {url}/v1/executions/EXECUTION_ID/stream

  Or with this program, once it is on the PATH:

    {program} submit story '{"chunks":60,"seconds":5}' --watch --server {url}
    {program} submit approval '{"question":"Ship it?"}' --server {url}
    {program} resume EXECUTION_ID '{"approved":true,"note":"yes"}' --server {url}

  Also there: {url}/status and {url}/openapi.yaml. Stop with Ctrl-C.

`

const welcomeOwn = `
  Windrow is listening on {url}
  State is kept {store}
  Served: {names}

  Submit work, with an input that fits, and follow it as it runs:

    curl -s {url}/v1/deployments/{first}/executions -H 'Content-Type: application/json' -d '{"input":{}}'
    curl -N {url}/v1/executions/EXECUTION_ID/stream

  Or with this program, once it is on the PATH:

    {program} submit {first} '{}' --watch --server {url}

  Also there: {url}/status and {url}/openapi.yaml. Stop with Ctrl-C.

`
