package httpapi

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/httpapi/route"
)

// newRouter returns a router without routes, on which every answer has a request's name, a line in the log and the headers
// that guard it, and every error a problem document.
func newRouter(log *slog.Logger, observe observer, headerLimit int) *chi.Mux {
	router := chi.NewRouter()
	router.Use(named, observed(log, observe), recovered(log), guarded, bounded(headerLimit), middleware.GetHead)
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
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
			asked := method
			if method == http.MethodHead {
				asked = http.MethodGet // answered wherever GET is
			}
			if routes.Match(chi.NewRouteContext(), asked, r.URL.Path) {
				allowed = append(allowed, method)
			}
		}
		list := strings.Join(allowed, ", ")
		w.Header().Set("Allow", list)
		problem.New(contract.ProblemCodeMethodNotAllowed, "The path has %s.", list).Write(w)
	}
}

// invalidParameter answers for parameters that the generated routes can't read.
func invalidParameter(w http.ResponseWriter, _ *http.Request, err error) {
	name := "A parameter"
	switch err := err.(type) {
	case *route.InvalidParamFormatError:
		name = "The parameter " + err.ParamName
	case *route.TooManyValuesForParamError:
		if err.ParamName == keyHeader {
			invalidKey("The header must be there once.").Write(w)
			return
		}
		name = "The parameter " + err.ParamName
	}
	problem.New(contract.ProblemCodeInvalidRequest, "%s can't be read.", name).Write(w)
}
