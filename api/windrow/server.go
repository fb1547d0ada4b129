package windrow

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/internal/config"
	"github.com/windrow-run/windrow/internal/server"
	"github.com/windrow-run/windrow/internal/telemetry"
)

// Server is a Windrow server inside this program. Its methods are safe for concurrent use.
type Server struct {
	app     *server.App
	listens bool
	ran     atomic.Bool
	done    chan struct{} // closed when Run has returned
}

// New makes a server of deployments that [durable.Define] made. It starts nothing and touches no network. Without deployments
// it takes no submissions, but shows, answers and cancels what other processes run. An error names the option or the
// deployment that can't be used.
func New(o Options, deployments ...durable.Deployment) (*Server, error) {
	c, err := o.config()
	if err != nil {
		return nil, err
	}
	app, err := assemble(c, deployments, o.Logger, o.Addr == "")
	if err != nil {
		return nil, inOptions(err)
	}
	return &Server{app: app, listens: o.Addr != "", done: make(chan struct{})}, nil
}

func assemble(c config.Config, deployments []durable.Deployment, log *slog.Logger, embedded bool) (*server.App, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	metrics := telemetry.New()
	store, err := server.NewStore(c, log, metrics)
	if err != nil {
		return nil, err
	}
	return server.New(server.Params{Config: c, Deployments: deployments, Logger: log, Store: store, Metrics: metrics, Embedded: embedded})
}

// Run serves until ctx ends; then running work is given its grace and handed over, viewers are told to reconnect, and what is
// open is closed. It returns after all that: nil where ctx ended, else why it could not go on, such as an address in use or a
// Redis that may evict keys. A Redis that does not answer yet is waited for. A server runs once.
func (s *Server) Run(ctx context.Context) error {
	if !s.ran.CompareAndSwap(false, true) {
		return errors.New("windrow: a server runs once")
	}
	defer close(s.done)
	return inOptions(s.app.Run(ctx))
}

// Handler answers the whole HTTP API, for a host that listens itself. A host that has told Run to stop goes on answering until
// Run has returned, so that clients hear of it.
func (s *Server) Handler() http.Handler { return s.app.Handler() }

// URL is where the server listens, or empty where it does not. It waits until Run, which must have been called, listens or
// returns.
func (s *Server) URL() string {
	if !s.listens {
		return ""
	}
	select {
	case <-s.app.Listening():
		return s.app.URL()
	case <-s.done:
		return ""
	}
}

// WaitReady returns nil once the server takes work, and ctx's error if that ends first. Where Run has returned it is an [Error]
// with the code draining. It asks again and again, less and less often, up to once a second.
func (s *Server) WaitReady(ctx context.Context) error {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := s.app.Runtime.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-s.done:
			return &Error{Code: contract.ProblemCodeDraining, Message: "the server has ended", Err: err}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
