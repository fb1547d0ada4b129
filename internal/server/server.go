package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/internal/config"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/stream"
	"github.com/windrow-run/windrow/internal/telemetry"
)

// Params of an App.
type Params struct {
	Config      config.Config // complete and valid
	Deployments []durable.Deployment
	Logger      *slog.Logger // nil: nothing is logged
	// Store keeps the executions. The App closes it.
	Store store.Store
	// Metrics are shown at /metrics. nil: of the App's own.
	Metrics *telemetry.Metrics
}

// Parts are what the HTTP floor stands on.
type Parts struct {
	Config  config.Config
	Runtime *runtime.Runtime
	Hub     *stream.Hub
	Metrics *telemetry.Metrics
	Logger  *slog.Logger
}

// App is a server. It runs once.
type App struct {
	Parts
	store     store.Store
	handler   http.Handler
	listening chan struct{}
	addr      net.Addr // once listening is closed
}

// New assembles a server. It starts nothing and touches no network. An error says which part can't be made and why.
func New(p Params) (*App, error) {
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	if p.Metrics == nil {
		p.Metrics = telemetry.New()
	}
	r, err := runtime.New(runtimeParams(p))
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	hub, err := stream.New(hubParams(p))
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	parts := Parts{Config: p.Config, Runtime: r, Hub: hub, Metrics: p.Metrics, Logger: p.Logger}
	handler, err := front(parts)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	p.Metrics.SetBacklog(backlogOf(r))
	return &App{Parts: parts, store: p.Store, handler: handler, listening: make(chan struct{})}, nil
}

// Listening is closed once the server accepts connections.
func (a *App) Listening() <-chan struct{} { return a.listening }

// URL is where the server listens. It must not be called before Listening is closed.
func (a *App) URL() string {
	tcp, ok := a.addr.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() { // every interface; this one is the nearest
		return fmt.Sprintf("http://127.0.0.1:%d", tcp.Port)
	}
	return "http://" + a.addr.String()
}

// Run serves until ctx ends, or a part of the server fails, then shuts down in the order that the package comment gives. It
// returns after everything has ended: nil after ctx has, else why it could not go on.
func (a *App) Run(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.Config.Addr)
	if err != nil {
		return errors.Join(fmt.Errorf("--addr: %w", err), a.store.Close())
	}
	a.addr = listener.Addr()
	unused := newUnused()
	serving := a.httpServer()
	serving.ConnState = unused.track
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var parts sync.WaitGroup
	start := func(run func() error) { // no part ends before it is told to: one that does ends the server
		parts.Go(func() { stop(errors.Join(errPartEnded, run())) })
	}
	start(func() error { return serving.Serve(listener) })
	start(func() error { return a.Hub.Run(context.WithoutCancel(ctx)) })
	start(func() error { return a.runRuntime(running) })
	close(a.listening)
	a.Logger.Info("listening", "url", a.URL())
	<-running.Done()
	a.shutDown(serving, unused)
	parts.Wait()
	err = a.store.Close()
	if ctx.Err() == nil {
		err = errors.Join(context.Cause(running), err)
	}
	a.Logger.Info("stopped")
	return err
}

var errPartEnded = errors.New("a part of the server ended by itself")

// opener is a store that checks what it stands on before it is used.
type opener interface {
	// Open returns an error of CodeUnavailable where trying again may help.
	Open(ctx context.Context) error
}

// runRuntime runs the runtime once the store is there. Until then the server is alive but not ready.
func (a *App) runRuntime(running context.Context) error {
	if err := a.openStore(running); err != nil || running.Err() != nil {
		return err
	}
	return a.Runtime.Run(context.WithoutCancel(running))
}

// openStore waits for a store that does not answer. One that answers but can't be used ends the server.
func (a *App) openStore(ctx context.Context) error {
	s, ok := a.store.(opener)
	if !ok {
		return nil
	}
	for {
		err := s.Open(ctx)
		if !execution.Is(err, execution.CodeUnavailable) {
			return err
		}
		a.Logger.Warn("the store does not answer; trying again", "in", openPause, "error", err)
		select {
		case <-time.After(openPause):
		case <-ctx.Done():
			return nil
		}
	}
}

// openPause is the time between two tries to open the store.
const openPause = time.Second

func (a *App) httpServer() *http.Server {
	return &http.Server{
		Handler:           a.handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    2 * int(a.Config.HeaderBytes), // above the limit that is answered with a problem document
		ErrorLog:          slog.NewLogLogger(a.Logger.Handler(), slog.LevelDebug),
	}
}

// shutDown carries out steps 1 to 4; Run does the last two.
func (a *App) shutDown(serving *http.Server, unused *unused) {
	ctx := context.Background() // that of Run has ended, and each step has a bound of its own
	a.Logger.Info("shutting down")
	a.Runtime.Quiesce()
	if err := a.Runtime.Close(ctx); err != nil {
		a.Logger.Warn("attempts are still running; a second signal leaves them to their leases", "error", err)
	}
	a.Hub.Close()
	unused.close()
	ctx, cancel := context.WithTimeout(ctx, a.Config.DrainTimeout)
	defer cancel()
	if err := serving.Shutdown(ctx); err != nil {
		a.Logger.Warn("open requests were cut", "error", errors.Join(err, serving.Close()))
	}
}
