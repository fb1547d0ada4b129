package demo

import (
	"fmt"

	"github.com/windrow-run/windrow/api/durable"
)

type flakyInput struct {
	Retries *int64 `json:"retries,omitempty" jsonschema:"description=How often it asks for another attempt,default=2,minimum=0,maximum=1000"`
}

type attempts struct {
	Attempts int64 `json:"attempts"`
}

// defineFlaky asks for another attempt the given number of times, then completes. More than two are beyond the ordinary
// budget and fail it.
func defineFlaky(p Params) (durable.Deployment, error) {
	return durable.Define("flaky", p.Revision, stumble, nil)
}

func stumble(c durable.Context, in flakyInput) (attempts, error) {
	wanted := int64(2)
	if in.Retries != nil {
		wanted = *in.Retries
	}
	if c.Retries() >= wanted {
		return attempts{c.Attempt()}, nil
	}
	return attempts{}, durable.Retry(c, durable.Backoff, durable.Error{
		Type: "Flaky", Code: "flaky", Retryable: true,
		Message: fmt.Sprintf("Attempt %d failed on purpose.", c.Attempt()),
	})
}
