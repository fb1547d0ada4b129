package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/windrow-run/windrow/internal/config"
)

// door is an address that the server listens on, with what answers there.
type door struct {
	*http.Server
	listener net.Listener
	unused   *unused
}

// listen begins to listen; no doors: the App is embedded. The clients' door stands first: it is closed first too.
func (a *App) listen(ctx context.Context) ([]*door, error) {
	if a.embedded {
		return nil, nil
	}
	clients, err := a.open(ctx, "addr", a.Config.Addr, a.handler)
	if err != nil {
		return nil, err
	}
	a.addr = clients.listener.Addr()
	if a.operators == nil {
		return []*door{clients}, nil
	}
	operators, err := a.open(ctx, "admin-addr", a.Config.AdminAddr, a.operators)
	if err != nil {
		return nil, errors.Join(err, clients.listener.Close())
	}
	a.adminAddr = operators.listener.Addr()
	return []*door{clients, operators}, nil
}

func (a *App) open(ctx context.Context, setting, addr string, handler http.Handler) (*door, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, &config.Problem{Setting: setting, Limit: err.Error(), Remedy: "name another address; port 0 takes any free one"}
	}
	d := &door{Server: a.httpServer(handler), listener: listener, unused: newUnused()}
	d.ConnState = d.unused.track
	return d, nil
}

// httpServer has no timeout for a whole request or answer, since streams go on for as long as their executions do: the handlers
// set deadlines, by what they read and write.
func (a *App) httpServer(handler http.Handler) *http.Server {
	s := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    2 * int(a.Config.HeaderBytes), // above the limit that is answered with a problem document
		ErrorLog:          slog.NewLogLogger(a.Logger.Handler(), slog.LevelDebug),
		Protocols:         &http.Protocols{},
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(a.Config.H2C)
	if a.guard.certificate != nil {
		s.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: a.guard.certificate.get}
	}
	return s
}

func (d *door) serve() error {
	if d.TLSConfig != nil {
		return d.ServeTLS(d.listener, "", "")
	}
	return d.Serve(d.listener)
}

// shutDown takes no new connections and waits for open requests until ctx ends, and then cuts them.
func (d *door) shutDown(ctx context.Context) error {
	d.unused.close()
	if err := d.Shutdown(ctx); err != nil {
		return errors.Join(err, d.Close())
	}
	return nil
}
