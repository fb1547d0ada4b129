package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/auth"
	"github.com/windrow-run/windrow/internal/config"
	"github.com/windrow-run/windrow/internal/server"
	"github.com/windrow-run/windrow/internal/store/memory"
)

// pair is a certificate for loopback with its key, in PEM.
func pair(t *testing.T, serial int64) (cert, key []byte, leaf *x509.Certificate) {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(serial), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, about, about, signer.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		t.Fatal(err)
	}
	if leaf, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), leaf
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// get asks once over a connection of its own.
func get(t *testing.T, client *http.Client, url, token string) (status int, proto, body string, cert *x509.Certificate) {
	t.Helper()
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.TLS != nil {
		cert = resp.TLS.PeerCertificates[0]
	}
	return resp.StatusCode, resp.Proto, string(answer), cert
}

// Over TLS clients get HTTP/2 where they can. A new certificate takes effect without a restart, and a broken one does not.
func TestServesTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	certFile, keyFile := filepath.Join(folder, "cert"), filepath.Join(folder, "key")
	cert, key, first := pair(t, 1)
	write(t, certFile, cert)
	write(t, keyFile, key)
	r := start(t, func(p *server.Params, _ *watched) {
		p.Config.TLSCert, p.Config.TLSKey, p.Config.AdminAddr = certFile, keyFile, "127.0.0.1:0"
	})
	<-r.app.Listening()
	client := func(trusted *x509.Certificate, protocols ...string) *http.Client {
		roots := x509.NewCertPool()
		roots.AddCert(trusted)
		return &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: len(protocols) == 0, TLSClientConfig: &tls.Config{RootCAs: roots, NextProtos: protocols}}}
	}
	for proto, c := range map[string]*http.Client{"HTTP/2.0": client(first), "HTTP/1.1": client(first, "http/1.1")} {
		if status, got, body, _ := get(t, c, r.app.URL()+"/livez", ""); status != http.StatusOK || got != proto {
			t.Errorf("%s: %d %s %s", proto, status, got, body)
		}
	}
	write(t, certFile, []byte("half a certif"))
	for body := ""; !strings.Contains(body, "The certificate in force are older"); { // as /status comes to say
		_, _, body, _ = get(t, client(first), r.app.AdminURL()+"/status", "")
	}
	cert, key, second := pair(t, 2)
	write(t, keyFile, key)
	write(t, certFile, cert)
	both := client(first)
	both.Transport.(*http.Transport).TLSClientConfig.RootCAs.AddCert(second)
	for serial := int64(1); serial != 2; {
		_, _, _, shown := get(t, both, r.app.URL()+"/livez", "")
		serial = shown.SerialNumber.Int64()
	}
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
}

// HTTP/2 without TLS is taken where it is asked for, beside HTTP/1, and nowhere else.
func TestH2C(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{true, false} {
		r := start(t, func(p *server.Params, _ *watched) { p.Config.H2C = on })
		r.ready(t)
		var only http.Protocols
		only.SetUnencryptedHTTP2(true)
		client := &http.Client{Transport: &http.Transport{Protocols: &only}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.app.URL()+"/livez", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		if (err == nil && resp.ProtoMajor == 2) != on {
			t.Errorf("asked for %v: %v", on, err)
		}
		client.CloseIdleConnections()
	}
}

// Clients say who they are, and operators have an address of their own. Both end with the server.
func TestDoors(t *testing.T) {
	t.Parallel()
	key, id := auth.NewKey()
	entry := auth.KeyEntry{ID: id, Hash: auth.HashKey(key), Scopes: []auth.Scope{auth.Read}}
	r := start(t, func(p *server.Params, _ *watched) {
		p.Config.APIKeys, p.Config.AdminAddr = config.Password("keys:\n"+entry.Line()), "127.0.0.1:0"
	})
	r.ready(t)
	const missing = "/v1/executions/00000000000000000000000"
	for _, try := range []struct {
		url, token string
		want       int
	}{
		{r.app.URL() + missing, "", 401}, {r.app.URL() + missing, key, 404}, {r.app.URL() + missing, key[1:], 401},
		{r.app.URL() + "/status", key, 404}, {r.app.URL() + "/metrics", "", 404}, {r.app.URL() + "/livez", "", 200},
		{r.app.AdminURL() + "/status", "", 200}, {r.app.AdminURL() + "/metrics", "", 200}, {r.app.AdminURL() + "/readyz", "", 200},
		{r.app.AdminURL() + missing, key, 404},
	} {
		status, _, body, _ := get(t, &http.Client{Transport: &http.Transport{}}, try.url, try.token)
		if status != try.want || try.url == r.app.AdminURL()+missing && !strings.Contains(body, "no_such_route") {
			t.Errorf("%s: %d %s, want %d", try.url, status, body, try.want)
		}
	}
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	if _, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.app.AdminURL(), "http://")); err == nil {
		t.Error("operators are still let in")
	}
}

// Without a secret that all servers share, one on Redis gives out no stream token that another would not accept.
func TestStreamSecret(t *testing.T) {
	t.Parallel()
	const shared = "0123456789abcdef0123456789abcdef"
	for name, tc := range map[string]struct {
		redis  config.Secret
		secret config.Password
		want   int
	}{"memory": {"", "", 404}, "Redis": {"redis://127.0.0.1:1", "", 501}, "shared": {"redis://127.0.0.1:1", shared, 404}} {
		r := start(t, func(p *server.Params, _ *watched) { p.Config.Redis, p.Config.StreamSecret = tc.redis, tc.secret })
		r.ready(t)
		if status, body := r.call(t, http.MethodPost, "/v1/executions/00000000000000000000000/cancel"); status != 404 {
			t.Errorf("%s: %d %s", name, status, body)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.app.URL()+"/v1/executions/00000000000000000000000/stream-token", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tc.want {
			t.Errorf("%s: %d, want %d", name, resp.StatusCode, tc.want)
		}
	}
}

// Settings that can't be used are named before anything begins.
func TestGuardRefuses(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "broken")
	write(t, broken, []byte("keys: ["))
	for setting, change := range map[string]func(*config.Config){
		"api-keys-file": func(c *config.Config) { c.APIKeysFile = broken },
		"api-keys":      func(c *config.Config) { c.APIKeys = "keys: []" },
		"tls-cert":      func(c *config.Config) { c.TLSCert, c.TLSKey = broken, broken },
	} {
		c := config.Default().Complete()
		change(&c)
		_, err := server.New(server.Params{Config: c, Store: memory.New(memory.Config{}), Logger: slog.New(slog.DiscardHandler)})
		if p, ok := errors.AsType[*config.Problem](err); !ok || p.Setting != setting {
			t.Errorf("%s: %v", setting, err)
		}
	}
}
