package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/windrow-run/windrow/internal/auth"
	"github.com/windrow-run/windrow/internal/httpapi/route"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/stream"
)

// Metrics are told what only this floor knows.
type Metrics interface {
	// HTTPRequest is one finished request.
	HTTPRequest(route, method string, status int, elapsed time.Duration)
	// ViewerOpened and ViewerClosed are the beginning and the end of a stream, or of a wait for an outcome.
	ViewerOpened(deployment string)
	ViewerClosed(deployment string)
	// ViewerCut is a viewer that was cut since it did not read.
	ViewerCut()
	// StreamEvent is one event that a viewer was sent, by its name.
	StreamEvent(name string)
}

// Params are what the HTTP floor stands on, and its limits. Each limit must be set.
type Params struct {
	Runtime *runtime.Runtime
	Hub     *stream.Hub
	Logger  *slog.Logger
	Metrics Metrics
	// Scrape answers GET /metrics.
	Scrape http.Handler
	// Contract is the document at /openapi.yaml.
	Contract string
	// Auth tells who makes a request. nil: nobody has to say who they are, and everybody may do everything.
	Auth Authenticator
	// StreamTokens lets browsers follow executions. nil: no token is given out or accepted.
	StreamTokens *auth.StreamTokens
	// Conditions tells /status what else is not as it should be, in a sentence each; empty ones are passed over. nil: nothing.
	Conditions func() []string
	// Side says which routes are answered.
	Side Side
	// Limits bound what one owner may ask.
	Limits Limits
	// Origins are those whose pages may call the API, such as https://app.example.com. None: no page may.
	Origins []string
	// Hayhooks says that the routes of hayhooks are answered.
	Hayhooks bool
	// Version, StoreKind and Acknowledgement are shown by /status; the last one, which says what changes wait for, may be empty.
	Version         string
	StoreKind       string
	Acknowledgement string

	BodyBytes   int64         // of a request's body
	HeaderBytes int           // of a request's target and headers
	JSONDepth   int           // of objects and arrays nested in an input
	BodyTimeout time.Duration // for a whole body to arrive, or a whole answer to be taken
	SendTimeout time.Duration // for a viewer to take an event
	Reconnect   time.Duration // after which a viewer that was cut off comes back, about
	// Retention is how long the store keeps an ended execution and its idempotency key. It is told, not kept, here.
	Retention time.Duration
}

func (p Params) validate() error {
	switch {
	case p.Runtime == nil, p.Hub == nil, p.Logger == nil, p.Metrics == nil, p.Scrape == nil:
		return errors.New("httpapi: a part is missing")
	case p.BodyBytes <= 0, p.HeaderBytes <= 0, p.JSONDepth <= 0, p.BodyTimeout <= 0, p.SendTimeout <= 0, p.Reconnect <= 0,
		p.Retention <= 0:
		return errors.New("httpapi: a limit is not set")
	}
	return nil
}

// api answers the operations of the contract.
type api struct {
	Params
	limits  bodyLimits
	rate    *rateLimit
	viewers *viewerLimit
}

var _ route.ServerInterface = (*api)(nil)

// New returns the handler of the routes of the contract that belong to the side.
func New(p Params) (http.Handler, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	a := &api{Params: p, limits: bodyLimits{bytes: p.BodyBytes, depth: p.JSONDepth},
		rate: newRateLimit(p.Limits), viewers: &viewerLimit{most: p.Limits.Viewers, open: map[auth.Account]int{}}}
	router := newRouter(routerParams{
		log: p.Logger, observe: p.Metrics.HTTPRequest, headerBytes: p.HeaderBytes, bodyTimeout: p.BodyTimeout,
		origins: p.Origins, hayhooks: p.Hayhooks,
	})
	route.HandlerWithOptions(a, route.ChiServerOptions{BaseRouter: router.With(a.admitted), ErrorHandlerFunc: invalidParameter})
	return router, nil
}
