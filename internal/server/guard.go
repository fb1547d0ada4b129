package server

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/windrow-run/windrow/internal/auth"
	"github.com/windrow-run/windrow/internal/config"
	"github.com/windrow-run/windrow/internal/reload"
)

// guard is what requests are held against before they are answered.
type guard struct {
	bearer       *auth.Bearer       // nil: nobody has to say who they are
	streamTokens *auth.StreamTokens // nil: none are given out
	certificate  *certificate       // nil: no TLS
}

func newGuard(p Params) (*guard, error) {
	g := &guard{streamTokens: streamTokens(p.Config)}
	var err error
	if g.bearer, err = bearer(p.Config, p.Logger); err != nil {
		return nil, err
	}
	if p.Config.TLSCert != "" && !p.Embedded {
		g.certificate, err = openCertificate(p.Config, p.Logger)
	}
	return g, err
}

// streamTokens signs with the secret that all servers share. Without one, only a server that has its executions for itself
// gives tokens out: no other would be asked to accept them.
func streamTokens(c config.Config) *auth.StreamTokens {
	switch {
	case c.StreamSecret != "":
		return auth.NewStreamTokens([]byte(c.StreamSecret.Reveal()))
	case c.Redis == "":
		return auth.NewStreamTokens([]byte(rand.Text() + rand.Text()))
	}
	return nil
}

func bearer(c config.Config, log *slog.Logger) (*auth.Bearer, error) {
	if !c.Authenticates() {
		return nil, nil
	}
	b := &auth.Bearer{}
	var err error
	switch {
	case c.APIKeysFile != "":
		if b.Keys, err = auth.OpenKeys(c.APIKeysFile, log); err != nil {
			return nil, &config.Problem{Setting: "api-keys-file", Limit: err.Error()}
		}
	case c.APIKeys != "":
		if b.Keys, err = auth.ReadKeys(c.APIKeys.Reveal()); err != nil {
			return nil, &config.Problem{Setting: "api-keys", Limit: err.Error()}
		}
	}
	if c.JWTIssuer != "" {
		b.JWT = auth.NewJWT(auth.JWTConfig{Issuer: c.JWTIssuer, Audience: c.JWTAudience, KeySet: c.JWKSURL, Algorithms: c.JWTAlgorithms,
			Leeway: c.JWTLeeway, OwnerClaim: c.JWTOwnerClaim, ScopeClaim: c.JWTScopeClaim, Logger: log})
	}
	return b, nil
}

// run follows what the guard goes by until ctx ends.
func (g *guard) run(ctx context.Context) error {
	var parts sync.WaitGroup
	var failed [2]error
	if g.bearer != nil {
		parts.Go(func() { failed[0] = g.bearer.Run(ctx) })
	}
	if g.certificate != nil {
		parts.Go(func() { failed[1] = g.certificate.source.Run(ctx) })
	}
	<-ctx.Done()
	parts.Wait()
	return errors.Join(failed[:]...)
}

func (g *guard) conditions() []string {
	var all []string
	if g.bearer != nil {
		all = g.bearer.Conditions()
	}
	if g.certificate != nil {
		all = append(all, g.certificate.source.Condition())
	}
	return all
}

// certificate is the server's own, which follows its files.
type certificate struct {
	source  *reload.Source
	current atomic.Pointer[tls.Certificate]
}

func openCertificate(c config.Config, log *slog.Logger) (*certificate, error) {
	cert := &certificate{}
	var err error
	cert.source, err = reload.Open("certificate", log, func(contents [][]byte) error {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		if err == nil {
			cert.current.Store(&pair)
		}
		return err
	}, c.TLSCert, c.TLSKey)
	if err != nil {
		return nil, &config.Problem{Setting: "tls-cert", Limit: err.Error()}
	}
	return cert, nil
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.current.Load(), nil
}
