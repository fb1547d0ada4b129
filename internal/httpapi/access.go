package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/auth"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/store"
)

// Authenticator tells who sends a bearer token. Every error is an [*auth.Error].
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (auth.Principal, error)
}

// Side says which of the routes a handler answers, where operators have an address of their own.
type Side int

// The sides.
const (
	BothSides     Side = iota // all routes at one address
	ClientsSide               // all but the operators'
	OperatorsSide             // the operators', without authentication, and those that are for everybody
)

// access is what it takes to call an operation.
type access struct {
	scope auth.Scope // empty: nobody has to say who they are
	// operators says that the operation is theirs: it has no business on the clients' side.
	operators bool
	// token says that a stream token will do.
	token bool
	// many says that it is for operators, and else for one owner's token: it acts on all that the principal may see.
	many bool
	// hayhooks says that the operation is one of hayhooks', which a server may be run without.
	hayhooks bool
}

const streamPattern = executionsPath + "{id}/stream"

// accesses are what the operations of the contract take, by method and pattern. What is not listed is not answered.
func accesses() map[string]access {
	return map[string]access{
		"POST /v1/deployments/{deployment}/executions":       {scope: auth.Submit},
		"POST /v1/deployments/{deployment}/executions/batch": {scope: auth.Submit},
		"GET " + executionsPath + "{id}":                     {scope: auth.Read},
		"GET " + executionsPath + "{id}/result":              {scope: auth.Read},
		"GET " + executionsPath + "{id}/history":             {scope: auth.Read},
		// An input may hold what followers must not see. Who hands work in has it anyway.
		"GET " + executionsPath + "{id}/input":                        {scope: auth.Submit},
		"GET /v1/executions":                                          {scope: auth.Read},
		"GET /v1/deployments":                                         {scope: auth.Read},
		"GET /v1/deployments/{deployment}":                            {scope: auth.Read},
		"POST /v1/deployments/{deployment}/revisions/{revision}/move": {scope: auth.Admin},
		"POST /v1/deployments/{deployment}/revisions/{revision}/fail": {scope: auth.Admin},
		"DELETE " + executionsPath + "{id}":                           {scope: auth.Admin},
		"DELETE /v1/owners/{owner}":                                   {scope: auth.Admin},
		"POST " + executionsPath + "{id}/resume":                      {scope: auth.Resume},
		"POST " + executionsPath + "{id}/cancel":                      {scope: auth.Resume},
		"POST " + executionsPath + "{id}/resubmit":                    {scope: auth.Submit},
		"POST /v1/bulk/cancel":                                        {scope: auth.Resume, many: true},
		"POST /v1/bulk/erase":                                         {scope: auth.Admin},
		"POST /v1/bulk/resubmit":                                      {scope: auth.Submit, many: true},
		"GET " + streamPattern:                                        {scope: auth.Read, token: true},
		"POST " + executionsPath + "{id}/stream-token":                {scope: auth.Read},
		"POST /{deployment}/run-durable":                              {scope: auth.Submit, hayhooks: true},
		"GET /{deployment}/executions/{id}":                           {scope: auth.Read, hayhooks: true},
		"POST /{deployment}/executions/{id}/cancel":                   {scope: auth.Resume, hayhooks: true},
		"POST /{deployment}/executions/{id}/resume":                   {scope: auth.Resume, hayhooks: true},
		"GET /{deployment}/executions/{id}/stream":                    {scope: auth.Read, hayhooks: true},
		"GET /status":       {scope: auth.Admin, operators: true},
		"GET /metrics":      {scope: auth.Admin, operators: true},
		"GET /livez":        {},
		"GET /readyz":       {},
		"GET /openapi.yaml": {},
	}
}

// admitted lets requests through to an operation that may call it. It stands around each route, after the router has found it.
func (a *api) admitted(next http.Handler) http.Handler {
	table := accesses()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		takes, known := table[operationOf(r)]
		if !known || !a.Side.answers(takes) || takes.hayhooks && !a.Hayhooks {
			noSuchRoute(w, r)
			return
		}
		if takes.scope == "" || a.Side == OperatorsSide {
			next.ServeHTTP(w, r)
			return
		}
		p, refused := a.authenticate(w, r, takes)
		if refused == nil {
			refused = a.rate.take(w.Header(), p.Account(), 1)
		}
		if refused == nil && !p.May(takes.scope) {
			refused = lacking(w, takes.scope)
		}
		if refused == nil && takes.many && p.Unlimited() && !p.May(auth.Admin) {
			refused = lacking(w, auth.Admin)
		}
		if refused != nil {
			refused.Write(w)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, p)))
	})
}

// operationOf names the operation as accesses does. HEAD is answered as GET.
func operationOf(r *http.Request) string {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return method + " " + chi.RouteContext(r.Context()).RoutePattern()
}

// answers reports whether an operation belongs to the side.
func (s Side) answers(takes access) bool {
	switch s {
	case ClientsSide:
		return !takes.operators
	case OperatorsSide:
		return takes.operators || takes.scope == ""
	default:
		return true
	}
}

// authenticate tells who makes a request.
func (a *api) authenticate(w http.ResponseWriter, r *http.Request, takes access) (auth.Principal, *problem.Problem) {
	if a.Auth == nil {
		return auth.Anyone(), nil
	}
	p, err := a.principal(r, takes)
	if err == nil {
		return p, nil
	}
	if e, ok := errors.AsType[*auth.Error](err); ok && e.Unavailable {
		return p, problem.New(contract.ProblemCodeAuthenticationUnavailable, "%s", err.Error())
	}
	if errors.Is(err, errNoToken) {
		challenge(w, "")
	} else {
		challenge(w, `, error="invalid_token"`)
	}
	return p, problem.New(contract.ProblemCodeUnauthenticated, "%s", err.Error())
}

var errNoToken = &auth.Error{Detail: "The header Authorization is missing."}

func (a *api) principal(r *http.Request, takes access) (auth.Principal, error) {
	header := r.Header.Values("Authorization")
	if token := r.URL.Query().Get("token"); len(header) == 0 && takes.token && token != "" && a.StreamTokens != nil {
		return a.StreamTokens.Principal(token, idOf(r))
	}
	if len(header) == 0 {
		return auth.Principal{}, errNoToken
	}
	scheme, token, _ := strings.Cut(header[0], " ")
	if len(header) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return auth.Principal{}, &auth.Error{Detail: "The header Authorization must be there once, with the scheme Bearer and a token."}
	}
	return a.Auth.Authenticate(r.Context(), strings.TrimLeft(token, " "))
}

// idOf is the id in the path, as the operation will get it; empty: it can't be read.
func idOf(r *http.Request) string {
	id := chi.URLParam(r, "id")
	if r.URL.RawPath == "" {
		return id
	}
	id, _ = url.PathUnescape(id)
	return id
}

// challenge tells a client that is refused how to authenticate (RFC 6750); why is what follows the realm.
func challenge(w http.ResponseWriter, why string) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="windrow"`+why)
}

func lacking(w http.ResponseWriter, scope auth.Scope) *problem.Problem {
	challenge(w, `, error="insufficient_scope", scope="`+string(scope)+`"`)
	return problem.New(contract.ProblemCodeForbidden, "This takes a token with the scope %s.", scope)
}

type principalKey struct{}

// principalOf is who makes a request that was admitted.
func principalOf(r *http.Request) auth.Principal {
	p, _ := r.Context().Value(principalKey{}).(auth.Principal)
	return p
}

// scopeOf is whose executions a principal may see, and as whom it changes them.
func scopeOf(p auth.Principal) store.Scope {
	return store.Scope{All: p.Unlimited(), Owner: p.Owner, By: p.Name}
}

// visible returns the scope in which an operation may look for the execution that its path names. Where the principal may not
// see it whatever its owner, the request is answered. Every operation on an execution begins with it.
func (a *api) visible(w http.ResponseWriter, r *http.Request, id string) (scope store.Scope, ok bool) {
	p := principalOf(r)
	refused := impossibleID(id)
	if refused == nil && !p.MaySee(id) {
		refused = problem.New(contract.ProblemCodeNotFound, "")
	}
	if refused != nil {
		refused.Write(w)
		return store.Scope{}, false
	}
	scope = scopeOf(p)
	if len(p.Deployments) == 0 {
		return scope, true
	}
	record, err := a.Runtime.Get(r.Context(), store.ReadRequest{ID: id, Scope: scope}) // an execution never changes its deployment
	switch {
	case err != nil:
		a.refuse(w, r, err)
		return scope, false
	case !p.MayUse(record.Control.Deployment):
		problem.New(contract.ProblemCodeNotFound, "").Write(w)
		return scope, false
	}
	return scope, true
}

// ownerOf is whose execution a submission makes: the principal's, or the one that it names.
func ownerOf(p auth.Principal, named string) (string, *problem.Problem) {
	switch {
	case named == "" || named == p.Owner:
		return p.Owner, nil
	case !p.Unlimited():
		return "", problem.New(contract.ProblemCodeForbidden, "The token is limited to one owner, and names another: leave owner out.")
	}
	return named, nil
}
