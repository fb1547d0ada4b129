package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/httpapi/hayhooks"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/httpapi/route"
)

// routerParams is what every route has in common.
type routerParams struct {
	log         *slog.Logger
	observe     observer      // nil: nobody
	headerBytes int           // of a request's target and headers
	bodyTimeout time.Duration // for a request's body to arrive
	origins     []string      // whose pages may call the API; none: no page may
	hayhooks    bool          // its routes are answered
}

// newRouter returns a router without routes, on which every answer has a request's name, a line in the log and the headers
// that guard it, and every error a problem document.
func newRouter(p routerParams) *chi.Mux {
	router := chi.NewRouter()
	if p.hayhooks {
		router.Use(hayhooks.Translated)
	}
	router.Use(named, observed(p.log, p.observe), recovered(p.log), lingering, guarded, crossOrigin(p.origins), bodyDeadline(p.bodyTimeout),
		bounded(p.headerBytes), middleware.GetHead)
	router.NotFound(noSuchRoute)
	router.MethodNotAllowed(methodNotAllowed(router))
	return router
}

// noSuchRoute answers for paths that no operation has.
func noSuchRoute(w http.ResponseWriter, _ *http.Request) {
	problem.New(contract.ProblemCodeNoSuchRoute, "").Write(w)
}

// methodNotAllowed answers for methods that a path does not have, and says which it has.
func methodNotAllowed(routes chi.Routes) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.RawPath // as the router takes it
		if path == "" {
			path = r.URL.Path
		}
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
			asked := method
			if method == http.MethodHead {
				asked = http.MethodGet // answered wherever GET is
			}
			if routes.Match(chi.NewRouteContext(), asked, path) {
				allowed = append(allowed, method)
			}
		}
		list := strings.Join(allowed, ", ")
		w.Header().Set("Allow", list)
		problem.New(contract.ProblemCodeMethodNotAllowed, "This path takes %s.", list).Write(w)
	}
}

// invalidParameter answers for parameters that the generated routes can't read.
func invalidParameter(w http.ResponseWriter, _ *http.Request, err error) {
	name := "A parameter"
	if format, ok := errors.AsType[*route.InvalidParamFormatError](err); ok {
		name = "The parameter " + format.ParamName
	}
	if many, ok := errors.AsType[*route.TooManyValuesForParamError](err); ok {
		if many.ParamName == keyHeader {
			invalidKey("The header must be there once.").Write(w)
			return
		}
		name = "The parameter " + many.ParamName
	}
	problem.New(contract.ProblemCodeInvalidRequest, "%s can't be read.", name).Write(w)
}
