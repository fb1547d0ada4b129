package httpapi

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
)

// observer is told of every finished request: the pattern of its route ("" where none matched), its method and status, and
// how long it took.
type observer func(route, method string, status int, elapsed time.Duration)

// named gives each request a name: the client's, if it is fit to be logged, or a random one.
func named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(problem.RequestIDHeader)
		if !plain(id) {
			id = rand.Text()
		}
		w.Header().Set(problem.RequestIDHeader, id)
		next.ServeHTTP(w, r)
	})
}

// plain reports whether a name has 1 to 64 letters, digits, dots, dashes and underscores.
func plain(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	for _, b := range []byte(name) {
		letter := 'a' <= b|0x20 && b|0x20 <= 'z'
		digit := '0' <= b && b <= '9'
		if !letter && !digit && b != '.' && b != '-' && b != '_' {
			return false
		}
	}
	return true
}

// observed logs each request and tells the observer. The log has the pattern of the route and not the path, since
// whoever knows an id may see its execution, and never the query, which may hold a stream token. Probes and scrapes are logged for debugging only.
func observed(log *slog.Logger, observe observer) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began := time.Now()
			wrapped := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
			defer func() {
				elapsed := time.Since(began)
				route, status := chi.RouteContext(r.Context()).RoutePattern(), statusOf(wrapped)
				about := []slog.Attr{
					slog.String("method", r.Method), slog.String("route", route), slog.Int("status", status),
					slog.Int("bytes", wrapped.BytesWritten()), slog.Duration("elapsed", elapsed),
					slog.String("request_id", wrapped.Header().Get(problem.RequestIDHeader)),
					slog.String("remote", r.RemoteAddr)}
				if trace, ok := traceID(r.Header); ok {
					about = append(about, slog.String("trace_id", trace))
				}
				log.LogAttrs(r.Context(), level(route, status), "request", about...)
				if observe != nil {
					observe(route, r.Method, status, elapsed)
				}
			}()
			next.ServeHTTP(wrapped, r)
		})
	}
}

// statusOf returns the status that was sent; a handler that sends none is answered with 200 by the server.
func statusOf(w middleware.WrapResponseWriter) int {
	if status := w.Status(); status != 0 {
		return status
	}
	return http.StatusOK
}

func level(route string, status int) slog.Level {
	switch {
	case status >= http.StatusInternalServerError && status != http.StatusServiceUnavailable:
		return slog.LevelError
	case route == "/livez", route == "/readyz", route == "/status", route == "/metrics":
		return slog.LevelDebug
	default:
		return slog.LevelInfo
	}
}

// recovered turns a panic into a problem document, or, where the answer has begun, into a broken connection: a client must
// not take half an answer for a whole one.
func recovered(log *slog.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			wrapped := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
			defer func() {
				reason := recover()
				if reason == nil {
					return
				}
				if err, ok := reason.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(reason)
				}
				log.LogAttrs(r.Context(), slog.LevelError, "panic in a request", slog.Any("reason", reason),
					slog.String("request_id", wrapped.Header().Get(problem.RequestIDHeader)),
					slog.String("stack", string(debug.Stack())))
				if wrapped.Status() != 0 {
					panic(http.ErrAbortHandler)
				}
				problem.New(contract.ProblemCodeInternal, "").Write(wrapped)
			}()
			next.ServeHTTP(wrapped, r)
		})
	}
}

// guarded sets the headers that keep browsers from making more of an answer than it is.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// bounded refuses requests whose target and headers have more bytes than the limit. The server's own limit must be
// above it, since what the server refuses gets no problem document.
func bounded(limit int) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if headerBytes(r) > limit {
				problem.New(contract.ProblemCodeHeadersTooLarge, "Target and headers must have at most %d bytes.", limit).
					WithLimit(int64(limit)).Write(w)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// headerBytes counts the request's target and headers as they are on the wire, near enough.
func headerBytes(r *http.Request) int {
	const separators = len(": \r\n")
	size := len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value) + separators
		}
	}
	return size
}
