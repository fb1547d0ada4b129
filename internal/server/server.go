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
	// Embedded servers do not listen: Config.Addr says nothing, and the host hands requests to [App.Handler].
	Embedded bool
	// Store keeps the executions. It is checked before it is used, where it can be. The App closes it.
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
	store     *gate
	guard     *guard
	handler   http.Handler
	operators http.Handler // nil: operators have no address of their own
	embedded  bool
	opened    chan struct{} // closed once the store is there
	listening chan struct{}
	addr      net.Addr // once listening is closed
	adminAddr net.Addr // the same; nil: none
}

// New assembles a server. It starts nothing and touches no network. An error says which part can't be made and why.
func New(p Params) (*App, error) {
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	if p.Metrics == nil {
		p.Metrics = telemetry.New()
	}
	entrance := &gate{to: p.Store}
	p.Store = entrance
	hub, err := stream.New(hubParams(p))
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	r, err := runtime.New(runtimeParams(p, hub))
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	parts := Parts{Config: p.Config, Runtime: r, Hub: hub, Metrics: p.Metrics, Logger: p.Logger}
	guard, err := newGuard(p)
	if err != nil {
		return nil, err
	}
	handler, operators, err := front(parts, guard)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	p.Metrics.SetBacklog(backlogOf(r))
	return &App{Parts: parts, store: entrance, guard: guard, handler: handler, operators: operators, embedded: p.Embedded,
		opened: make(chan struct{}), listening: make(chan struct{})}, nil
}

// Handler answers the requests of the whole API. It may be called before Run, and then says that the store is not there.
func (a *App) Handler() http.Handler { return a.handler }

// Listening is closed once the server accepts connections; never, where it is embedded.
func (a *App) Listening() <-chan struct{} { return a.listening }

// URL is where the server listens. It must not be called before Listening is closed.
func (a *App) URL() string {
	return a.urlOf(a.addr)
}

// AdminURL is where operators have an address of their own; empty: they have none. It must not be called before Listening is
// closed.
func (a *App) AdminURL() string {
	if a.adminAddr == nil {
		return ""
	}
	return a.urlOf(a.adminAddr)
}

func (a *App) urlOf(addr net.Addr) string {
	scheme := "http://"
	if a.guard.certificate != nil {
		scheme = "https://"
	}
	tcp, ok := addr.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() { // every interface; this one is the nearest
		return fmt.Sprintf("%s127.0.0.1:%d", scheme, tcp.Port)
	}
	return scheme + addr.String()
}

// Run serves until ctx ends, or a part of the server fails, then shuts down in the order that the package comment gives. It
// returns after everything has ended: nil after ctx has, else why it could not go on.
func (a *App) Run(ctx context.Context) error {
	doors, err := a.listen(ctx)
	if err != nil {
		return errors.Join(err, a.store.Close())
	}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var parts sync.WaitGroup
	start := func(run func() error) { // no part ends before it is told to: one that does ends the server
		parts.Go(func() {
			if err := run(); err != nil {
				stop(err) // which says why; no more words about it
			}
			stop(errPartEnded)
		})
	}
	for _, d := range doors {
		start(d.serve)
	}
	start(func() error { return a.guard.run(running) })
	start(func() error { return a.Hub.Run(context.WithoutCancel(ctx)) })
	start(func() error { return a.runRuntime(running) })
	if len(doors) > 0 {
		a.announce(running)
	}
	<-running.Done()
	a.shutDown(doors)
	parts.Wait()
	err = a.store.Close()
	if ctx.Err() == nil {
		err = errors.Join(context.Cause(running), err)
	}
	a.Logger.Info("stopped")
	return err
}

// announce says that the server is there: once its store is, so that whoever waits for the word finds it working, or after a
// while without one, since it lives and can say what is wrong.
func (a *App) announce(ctx context.Context) {
	patience := time.NewTimer(announceAfter)
	defer patience.Stop()
	select {
	case <-a.opened:
	case <-patience.C:
	case <-ctx.Done():
		return
	}
	close(a.listening)
	a.Logger.Info("listening", "url", a.URL(), "authentication", a.guard.bearer != nil)
	if a.adminAddr != nil {
		a.Logger.Info("listening for operators", "url", a.AdminURL())
	}
}

// announceAfter is how long a store that does not answer keeps a server from saying that it listens.
const announceAfter = time.Second

var errPartEnded = errors.New("a part of the server ended by itself")

// runRuntime runs the runtime once the store is there. Until then the server is alive but not ready.
func (a *App) runRuntime(running context.Context) error {
	if err := a.openStore(running); err != nil || running.Err() != nil {
		return err
	}
	close(a.opened)
	return a.Runtime.Run(context.WithoutCancel(running))
}

// shutDown carries out steps 1 to 4; Run does the last two.
func (a *App) shutDown(doors []*door) {
	ctx := context.Background() // that of Run has ended, and each step has a bound of its own
	a.Logger.Info("shutting down")
	a.Runtime.Quiesce()
	if err := a.Runtime.Close(ctx); err != nil {
		a.Logger.Warn("attempts are still running; a second signal leaves them to their leases", "error", err)
	}
	a.Hub.Close()
	ctx, cancel := context.WithTimeout(ctx, a.Config.DrainTimeout)
	defer cancel()
	for _, d := range doors {
		if err := d.shutDown(ctx); err != nil {
			a.Logger.Warn("open requests were cut", "error", err)
		}
	}
}
