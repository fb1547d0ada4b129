package httpapi

import (
	"net/http"
	"time"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/store"
)

// How long a stream token opens streams, in seconds.
const (
	streamTokenSeconds    = 300
	maxStreamTokenSeconds = 3600
)

// CreateStreamToken implements [route.ServerInterface].
func (a *api) CreateStreamToken(w http.ResponseWriter, r *http.Request, id contract.ExecutionID) {
	scope, ok := a.visible(w, r, id)
	if !ok {
		return
	}
	body, refused := readBody(w, r, a.limits)
	var seconds int64
	if refused == nil {
		seconds, refused = parseStreamToken(body)
	}
	if refused == nil && a.StreamTokens == nil {
		refused = problem.New(contract.ProblemCodeNotConfigured, "The server has no secret for stream tokens.")
	}
	if refused != nil {
		refused.Write(w)
		return
	}
	if _, err := a.Runtime.Get(r.Context(), store.ReadRequest{ID: id, Scope: scope}); err != nil {
		a.refuse(w, r, err)
		return
	}
	expires := time.Now().Add(time.Duration(seconds) * time.Second).UTC().Truncate(time.Second)
	token := a.StreamTokens.Issue(id, principalOf(r).Account(), expires)
	a.answerJSON(w, contract.StreamToken{Token: token, ExpiresAt: contract.Timestamp{Time: expires},
		Stream: pathOf(id) + "/stream?token=" + token})
}

func parseStreamToken(body []byte) (seconds int64, refused *problem.Problem) {
	if body == nil {
		return streamTokenSeconds, nil
	}
	members, refused := parseMembers(body, "expires_in")
	if refused != nil {
		return 0, refused
	}
	return members.number("expires_in", streamTokenSeconds, 1, maxStreamTokenSeconds)
}
