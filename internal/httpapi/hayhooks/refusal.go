package hayhooks

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
)

// Translated has every problem on these routes told as hayhooks tells it, also those of what surrounds the routes.
func Translated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if Speaks(r.URL.EscapedPath()) {
			w = translator{w}
		}
		next.ServeHTTP(w, r)
	})
}

// translator is a [problem.Teller].
type translator struct{ http.ResponseWriter }

// Unwrap is for [http.ResponseController].
func (t translator) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// Flush is for wrappers that look for it; it fails only where the client has gone.
func (t translator) Flush() { _ = http.NewResponseController(t.ResponseWriter).Flush() }

// Tell implements [problem.Teller].
func (t translator) Tell(w http.ResponseWriter, p *problem.Problem) {
	status := statusOf(p)
	body, err := contract.Encode(struct {
		Detail any `json:"detail"`
	}{detailOf(p)})
	if err != nil { // texts and numbers can always be encoded
		panic(err)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if seconds := retryAfter(p); seconds > 0 {
		header.Set("Retry-After", strconv.Itoa(seconds))
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails only where the client has gone
}

// statusOf is the status where hayhooks has another than the problem.
func statusOf(p *problem.Problem) int {
	switch p.Code {
	case contract.ProblemCodeInvalidJSON, contract.ProblemCodeInvalidRequest, contract.ProblemCodeInvalidIdempotencyKey,
		contract.ProblemCodeInvalidCursor, contract.ProblemCodeTooLarge, contract.ProblemCodeUnsupportedMediaType:
		return http.StatusUnprocessableEntity
	case contract.ProblemCodeKeyReused:
		return http.StatusConflict
	case contract.ProblemCodeInternal:
		return http.StatusServiceUnavailable
	default:
		return p.Status
	}
}

// retryAfter leaves the header out where hayhooks has none: after a failure.
func retryAfter(p *problem.Problem) int {
	switch p.Code {
	case contract.ProblemCodeStoreUnavailable, contract.ProblemCodeUnconfirmed:
		return 0
	default:
		return p.RetryAfter()
	}
}

// detailOf is a sentence, or a list of what is wrong with the request.
func detailOf(p *problem.Problem) any {
	if text := sentenceOf(p.Code); text != "" {
		return text
	}
	switch {
	case len(p.Errors) > 0:
		return invalidOf(p)
	case p.Detail != "":
		return p.Detail
	default:
		return p.Title
	}
}

// sentenceOf are the texts that are the same each time.
func sentenceOf(code contract.ProblemCode) string {
	switch code {
	case contract.ProblemCodeNotFound:
		return "Execution not found"
	case contract.ProblemCodeUnknownDeployment, contract.ProblemCodeNoSuchRoute:
		return "Not Found"
	case contract.ProblemCodeMethodNotAllowed:
		return "Method Not Allowed"
	case contract.ProblemCodeStoredStateInvalid:
		return "Durable execution state is invalid"
	case contract.ProblemCodeStoreUnavailable, contract.ProblemCodeUnconfirmed:
		return "Durable execution store is unavailable"
	case contract.ProblemCodeInternal:
		return "Durable execution service is unavailable"
	default:
		return ""
	}
}

// invalid is one thing that is wrong with a request.
type invalid struct {
	Type string `json:"type"`
	Loc  []any  `json:"loc"`
	Msg  string `json:"msg"`
}

func invalidOf(p *problem.Problem) []invalid {
	all := make([]invalid, len(p.Errors))
	for i, e := range p.Errors {
		all[i] = invalid{Type: e.Rule, Loc: locOf(e.Pointer), Msg: e.Message}
		switch p.Code {
		case contract.ProblemCodeInvalidJSON:
			all[i].Type = "json_invalid"
			if e.Offset != nil {
				all[i].Loc = []any{"body", *e.Offset}
			}
		case contract.ProblemCodeInvalidInput: // of the member "input" of a body, which here is the body
			all[i].Loc = locOf(strings.TrimPrefix(e.Pointer, "/input"))
		default:
		}
	}
	return all
}

// locOf is the place that a JSON Pointer into the body stands for: names and, for what may be one, indices.
func locOf(pointer string) []any {
	loc := []any{"body"}
	for i, token := range strings.Split(pointer, "/") {
		if i == 0 {
			continue // before the first slash
		}
		if index, err := strconv.Atoi(token); err == nil && strconv.Itoa(index) == token {
			loc = append(loc, index)
			continue
		}
		loc = append(loc, strings.NewReplacer("~1", "/", "~0", "~").Replace(token))
	}
	return loc
}
