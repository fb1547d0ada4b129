package httpapi

import (
	"net/http"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/store"
)

// Projection is the body in which clients get an execution, for those who have no use for HTTP. An error says that what is
// stored can't be read.
func Projection(r store.Record) ([]byte, error) { return projectionOf(r) }

// Submission reads the body of a submission, strict and compact JSON, for those who have no use for HTTP. An error is a
// [*problem.Error].
func Submission(deployment, key string, trace execution.Trace, body []byte) (runtime.SubmitRequest, error) {
	if key != "" {
		if _, refused := validKey(key); refused != nil {
			return runtime.SubmitRequest{}, refused.Err()
		}
	}
	s, refused := parseSubmission(body)
	if refused != nil {
		return runtime.SubmitRequest{}, refused.Err()
	}
	s.Trace = traceOf(http.Header{"Traceparent": {trace.Parent}, "Tracestate": {trace.State}})
	return s.request(deployment, key, body), nil
}

// request is the submission as the runtime takes it.
func (s submission) request(deployment, key string, body []byte) runtime.SubmitRequest {
	return runtime.SubmitRequest{Deployment: deployment, Owner: s.owner, Labels: s.labels, Key: key, Body: body, Input: s.input,
		SubmitOptions: s.SubmitOptions}
}
