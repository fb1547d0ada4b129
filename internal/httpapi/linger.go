package httpapi

import (
	"context"
	"net/http"
)

// lingering lets handlers leave work for later: it is done, within the same request, once the handler and all between have returned.
// A stream waits there. Go halves the stack of a goroutine only where less than a quarter of it is used: a viewer that waits below
// the router, the middlewares and its handler holds 16 KB, and one that waits here 8 KB.
func lingering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var left func()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), lingerKey{}, &left)))
		if left != nil {
			left()
		}
	})
}

type lingerKey struct{}

// linger leaves work for later. A handler does so once, and does not write any more itself.
func linger(r *http.Request, work func()) {
	left, ok := r.Context().Value(lingerKey{}).(*func())
	if !ok {
		panic("httpapi: a request that does not come by way of the router")
	}
	*left = work
}
