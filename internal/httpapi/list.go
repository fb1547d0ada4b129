package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/auth"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/store"
)

const (
	defaultPage       = 50
	maxPage           = 200
	maxRevisionLength = 64
)

// ListExecutions implements [route.ServerInterface].
func (a *api) ListExecutions(w http.ResponseWriter, r *http.Request, params contract.ListExecutionsParams) {
	ask, refused := listingOf(r, params)
	if refused != nil {
		a.refuse(w, r, refused.Err())
		return
	}
	page, err := a.Runtime.List(r.Context(), ask)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	a.answer(w, http.StatusOK, "application/json", appendPage(nil, ask, page))
}

// listingOf is what a request asks for, of what its principal may see.
func listingOf(r *http.Request, params contract.ListExecutionsParams) (store.ListRequest, *problem.Problem) {
	p := principalOf(r)
	if refused := unknownParameters(r, "deployment", "revision", "status", "owner", "label", "created_from", "created_before", "limit", "cursor"); refused != nil {
		return store.ListRequest{}, refused
	}
	ask := store.ListRequest{Scope: scopeOf(p), Deployments: p.Deployments, Limit: defaultPage}
	for _, filter := range []func() *problem.Problem{
		func() *problem.Problem { return ofDeployment(&ask, p, params.Deployment) },
		func() *problem.Problem { return ofRevision(&ask, params.Revision) },
		func() *problem.Problem { return ofStatuses(&ask, params.Status) },
		func() *problem.Problem { return ofOwner(&ask, p, params.Owner) },
		func() *problem.Problem { return ofLabels(&ask, params.Label) },
		func() *problem.Problem { return ofTime(&ask.CreatedFrom, "created_from", params.CreatedFrom) },
		func() *problem.Problem { return ofTime(&ask.CreatedBefore, "created_before", params.CreatedBefore) },
		func() *problem.Problem { return ofPage(&ask, params.Limit, params.Cursor) },
	} {
		if refused := filter(); refused != nil {
			return ask, refused
		}
	}
	return ask, nil
}

// unknownParameters refuses a query that names something else: a filter that is not understood must not look as if it had been.
func unknownParameters(r *http.Request, known ...string) *problem.Problem {
	for _, name := range slices.Sorted(maps.Keys(r.URL.Query())) {
		if !slices.Contains(known, name) {
			return problem.New(contract.ProblemCodeInvalidRequest, "The parameter %s is not known.", strconv.QuoteToASCII(clip(name)))
		}
	}
	return nil
}

func invalidFilter(name, message string) *problem.Problem {
	return problem.New(contract.ProblemCodeInvalidRequest, "The parameter %s %s.", name, message)
}

// ofTime sets a bound to whole milliseconds: what was created before t, or not, was created before the next of them, or not.
func ofTime(bound *int64, name string, t *time.Time) *problem.Problem {
	if t == nil {
		return nil
	}
	if t.IsZero() {
		return invalidFilter(name, "must be a time such as 2026-03-01T09:30:00Z")
	}
	*bound = max(t.Add(time.Millisecond-time.Nanosecond).UnixMilli(), 1) // 0 is no bound
	return nil
}

func ofDeployment(ask *store.ListRequest, p auth.Principal, name *string) *problem.Problem {
	if name == nil {
		return nil
	}
	if refused := impossibleName(*name); refused != nil || !p.MayUse(*name) {
		return problem.New(contract.ProblemCodeUnknownDeployment, "")
	}
	ask.Deployments = []string{*name}
	return nil
}

func ofRevision(ask *store.ListRequest, name *string) *problem.Problem {
	if name == nil {
		return nil
	}
	if *name == "" || len(*name) > maxRevisionLength {
		return invalidFilter("revision", "must have 1 to 64 characters")
	}
	ask.Revision = *name
	return nil
}

// maxStatuses bounds how many statuses a filter names: as many as there are.
const maxStatuses = 6

func ofStatuses(ask *store.ListRequest, statuses *[]contract.ExecutionStatus) *problem.Problem {
	if statuses == nil {
		return nil
	}
	if len(*statuses) > maxStatuses {
		return invalidFilter("status", "must be there at most 6 times").WithLimit(maxStatuses)
	}
	for _, s := range *statuses {
		status := execution.Status(s)
		if !status.Valid() {
			return invalidFilter("status", "must be one of queued, running, waiting, completed, failed and canceled")
		}
		if !slices.Contains(ask.Statuses, status) {
			ask.Statuses = append(ask.Statuses, status)
		}
	}
	slices.Sort(ask.Statuses)
	return nil
}

func ofOwner(ask *store.ListRequest, p auth.Principal, named *string) *problem.Problem {
	if named == nil {
		return nil
	}
	if !auth.ValidOwner(*named) {
		return invalidFilter("owner", "must have 1 to 255 characters, none of them a control character")
	}
	owner, refused := ownerOf(p, *named)
	ask.Scope = store.Scope{Owner: owner}
	return refused
}

func ofLabels(ask *store.ListRequest, lines *[]string) *problem.Problem {
	if lines == nil {
		return nil
	}
	if len(*lines) > execution.MaxLabels {
		return invalidFilter("label", "must be there at most 8 times").WithLimit(execution.MaxLabels)
	}
	for _, line := range *lines {
		key, value, ok := strings.Cut(line, "=")
		if _, err := execution.Label(key, value); err != nil || !ok {
			return invalidFilter("label", "must be a key of 1 to 63 of the characters a-z 0-9 . _ / -, =, and a value of at most 63 characters")
		}
		ask.Labels = append(ask.Labels, line)
	}
	slices.Sort(ask.Labels)
	return nil
}

func ofPage(ask *store.ListRequest, limit *int, cursor *string) *problem.Problem {
	if limit != nil {
		if *limit < 1 || *limit > maxPage {
			return invalidFilter("limit", "must be from 1 to 200").WithLimit(maxPage)
		}
		ask.Limit = *limit
	}
	if cursor == nil {
		return nil
	}
	after, ok := placeOf(*ask, *cursor)
	if !ok {
		return problem.New(contract.ProblemCodeInvalidCursor, "The cursor is not one of a listing with these filters: begin without one.")
	}
	ask.After = after
	return nil
}

// A cursor is the place, and a digest of it and of the filters: it goes with no others, and one that was changed is noticed. It
// gives nobody more than the filters do, so that nothing in it needs to be secret.
func cursorAfter(ask store.ListRequest, place store.Place) string {
	data := append(binary.AppendUvarint(nil, uint64(place.CreatedAt)), place.ID...)
	return base64.RawURLEncoding.EncodeToString(append(cursorDigest(ask, data), data...))
}

const cursorDigestBytes = 8

func placeOf(ask store.ListRequest, cursor string) (store.Place, bool) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(data) < cursorDigestBytes || !bytes.Equal(data[:cursorDigestBytes], cursorDigest(ask, data[cursorDigestBytes:])) {
		return store.Place{}, false
	}
	data = data[cursorDigestBytes:]
	at, n := binary.Uvarint(data)
	if n <= 0 || at == 0 || at > execution.MaxInteger || len(data)-n > maxIDBytes {
		return store.Place{}, false
	}
	return store.Place{CreatedAt: int64(at), ID: string(data[n:])}, true
}

func cursorDigest(ask store.ListRequest, place []byte) []byte {
	ask.After, ask.Limit, ask.Scope.By = store.Place{}, 0, "" // a key may have been replaced meanwhile
	sum := sha256.Sum256(append(encode(ask), place...))
	return sum[:cursorDigestBytes]
}

// appendPage writes a contract.ExecutionList.
func appendPage(dst []byte, ask store.ListRequest, page store.Listed) []byte {
	dst = append(dst, `{"items":[`...)
	for i, c := range page.Executions {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendSummary(dst, c)
	}
	dst = append(dst, "],"...)
	if page.Next == (store.Place{}) {
		return append(appendRaw(dst, "next_cursor", nil), '}')
	}
	return append(appendText(dst, "next_cursor", cursorAfter(ask, page.Next)), '}')
}

// appendSummary writes a contract.ExecutionSummary.
func appendSummary(dst []byte, c execution.Control) []byte {
	dst = appendIdentity(append(dst, '{'), c)
	dst = appendTime(append(dst, ','), "cancellation_requested_at", c.CanceledAt)
	dst = appendTimes(append(dst, ','), c)
	return append(appendLinks(append(dst, ','), c.ID), '}')
}
