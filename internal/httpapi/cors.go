package httpapi

import (
	"net/http"

	"github.com/rs/cors"
)

// preflightSeconds is how long a browser may keep what a preflight said; more than two hours is cut by some.
const preflightSeconds = 7200

// crossOrigin lets pages of those origins call the API and read what it answers. It never allows cookies, which the API does
// not know.
func crossOrigin(origins []string) func(http.Handler) http.Handler {
	if len(origins) == 0 {
		return func(next http.Handler) http.Handler { return next }
	}
	return cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete},
		AllowedHeaders: []string{"Accept", "Authorization", "Content-Type", "Idempotency-Key", "If-None-Match", "Last-Event-ID", "Prefer",
			"Traceparent", "X-Request-Id"},
		ExposedHeaders: []string{"ETag", "Idempotent-Replay", "Link", "Location", "Preference-Applied", "RateLimit", "RateLimit-Policy",
			"Retry-After", "WWW-Authenticate", "X-Request-Id"},
		MaxAge: preflightSeconds,
	}).Handler
}
