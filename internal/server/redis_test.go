package server_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/config"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/server"
	"github.com/windrow-run/windrow/internal/store"
)

// opens makes the store of a configuration and opens it, as a server does at its start.
func opens(t *testing.T, change func(*config.Config)) error {
	t.Helper()
	c := config.Default()
	change(&c)
	c = c.Complete()
	if err := c.Validate(); err != nil {
		return err
	}
	s, err := server.NewStore(c, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	err = s.(interface{ Open(context.Context) error }).Open(t.Context())
	if err == nil {
		_, err = s.Submit(t.Context(), store.Submission{Submit: execution.Submit{ID: s.NewID(store.Key{}), Deployment: "d", Revision: "1",
			Budgets: execution.DefaultBudgets(), Input: []byte("1")}})
	}
	return errors.Join(err, s.Close())
}

// written is a file with the text.
func written(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// address is host:port of a server.
func address(t *testing.T, s *redistest.Server) string {
	t.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// A user and a password full of what means something in a URL work as settings, from a file, and encoded in a URL.
func TestCredentials(t *testing.T) {
	t.Parallel()
	const user, password = "ap:p@/", "pw@:/?#%+ &"
	s := redistest.Private(t, redistest.Options{})
	if err := s.Client().Do(t.Context(), "ACL", "SETUSER", user, "on", ">"+password, "resetchannels", "~windrow:*", "&windrow:*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Client().Do(t.Context(), "ACL", "SETUSER", "default", "off").Err(); err != nil {
		t.Fatal(err)
	}
	at := address(t, s)
	whole := config.Secret((&url.URL{Scheme: "redis", User: url.UserPassword(user, password), Host: at}).String())
	for name, change := range map[string]func(*config.Config){
		"hosts": func(c *config.Config) {
			c.Connection.Hosts, c.Connection.Username, c.Connection.Password = at, user, password
		},
		"file": func(c *config.Config) {
			c.Redis, c.Connection.Username = config.Secret("redis://"+at+"/0"), user
			c.Connection.PasswordFile = written(t, "password", []byte(password+"\n"))
		},
		"URL":  func(c *config.Config) { c.Redis = whole },
		"both": func(c *config.Config) { c.Redis, c.Connection.Username, c.Connection.Password = whole, user, password },
	} {
		if err := opens(t, change); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := opens(t, func(c *config.Config) {
		c.Connection.Hosts, c.Connection.Username, c.Connection.Password = at, user, "sesame"
	})
	if !execution.Is(err, execution.CodeUnavailable) || strings.Contains(err.Error(), "sesame") {
		t.Errorf("a wrong password: %v", err)
	}
}

// What contradicts the URL, or can't be read, is refused by its setting and without what it holds.
func TestConnectionRefused(t *testing.T) {
	t.Parallel()
	empty, text := written(t, "empty", []byte("\nsesame")), written(t, "text", []byte("sesame"))
	for name, tc := range map[string]struct {
		change func(*config.Config)
		want   []string
	}{
		"password": {func(c *config.Config) { c.Redis, c.Connection.Password = "redis://:sesame@h", "sesame2" },
			[]string{"--redis-password (", "says something else", "WINDROW_REDIS_URL"}},
		"database": {func(c *config.Config) { c.Redis, c.Connection.DB = "redis://h/1", 2 },
			[]string{"--redis-db (", "says something else", "--redis (WINDROW_REDIS_URL)"}},
		"two passwords": {func(c *config.Config) { c.Connection.Password, c.Connection.PasswordFile = "sesame", text },
			[]string{"--redis-password (", "--redis-password-file (WINDROW_REDIS_PASSWORD_FILE)"}},
		"URL and hosts": {func(c *config.Config) { c.Redis, c.Connection.Hosts = "redis://h", "h" },
			[]string{"--redis-hosts (", "--redis (WINDROW_REDIS_URL)"}},
		"credentials in hosts": {func(c *config.Config) { c.Connection.Hosts = "u:sesame@h" }, []string{"--redis-hosts (", "settings of their own"}},
		"port":                 {func(c *config.Config) { c.Connection.Hosts = "h:sesame" }, []string{"--redis-hosts (", "malformed"}},
		"master and cluster": {func(c *config.Config) {
			c.Connection = config.Default().Connection
			c.Connection.Hosts, c.Connection.Master, c.Connection.Cluster = "h", "m", true
		},
			[]string{"--redis-master (", "--redis-cluster (WINDROW_REDIS_CLUSTER)"}},
		"master alone": {func(c *config.Config) { c.Connection.Master = "m" }, []string{"--redis-master (", "--redis-hosts (WINDROW_REDIS_HOSTS)"}},
		"sentinel's password": {func(c *config.Config) { c.Redis, c.Connection.SentinelPassword = "redis://h", "sesame" },
			[]string{"--redis-sentinel-password (", "no sentinels"}},
		"no TLS":   {func(c *config.Config) { c.Redis, c.Connection.CA = "redis://h", text }, []string{"--redis-tls-ca (", "--redis-tls (", "rediss"}},
		"no key":   {func(c *config.Config) { c.Redis, c.Connection.Cert = "rediss://h", text }, []string{"--redis-tls-cert (", "--redis-tls-key"}},
		"no CA":    {func(c *config.Config) { c.Redis, c.Connection.CA = "rediss://h", text }, []string{"--redis-tls-ca (", "PEM"}},
		"no file":  {func(c *config.Config) { c.Redis, c.Connection.CA = "rediss://h", text+"2" }, []string{"--redis-tls-ca (", "no such file"}},
		"no pair":  {func(c *config.Config) { c.Redis, c.Connection.Cert, c.Connection.Key = "rediss://h", text, text }, []string{"--redis-tls-cert (", "PEM"}},
		"no words": {func(c *config.Config) { c.Redis, c.Connection.PasswordFile = "redis://h", empty }, []string{"--redis-password-file (", "empty"}},
		"ack-timeout": {func(c *config.Config) { c.Redis, c.Ack.Replicas, c.AckTimeout = "redis://h", 1, 3*time.Second },
			[]string{"--ack-timeout (WINDROW_ACK_TIMEOUT)", "3s"}},
	} {
		err := opens(t, tc.change)
		for _, part := range tc.want {
			if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "sesame") {
				t.Errorf("%s: %v lacks %q", name, err, part)
			}
		}
	}
}

// authority signs certificates.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.key, a.cert, a.file, _ = a.sign("authority")
	return a
}

// pair are the files of a certificate for a name and this machine's address, and of its key.
func (a *authority) pair(name string) (cert, key string) {
	a.t.Helper()
	_, _, cert, key = a.sign(name)
	return cert, key
}

func (a *authority) sign(name string) (*ecdsa.PrivateKey, *x509.Certificate, string, string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	parent, signer := a.cert, a.key
	if parent == nil {
		template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	file := func(kind, ext string, data []byte) string {
		var text bytes.Buffer
		if err := pem.Encode(&text, &pem.Block{Type: kind, Bytes: data}); err != nil {
			a.t.Fatal(err)
		}
		return written(a.t, name+ext, text.Bytes())
	}
	return key, cert, file("CERTIFICATE", ".crt", der), file("EC PRIVATE KEY", ".key", keyDER)
}

// freePort is a loopback port below those of the harness and of the kernel.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 12000 + mathrand.IntN(7000)
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// TLS is verified against the authority that is named, shows the certificate that the server asks for, and is not used with a
// server that has none.
func TestTLS(t *testing.T) {
	t.Parallel()
	plain := redistest.Private(t, redistest.Options{})
	err := opens(t, func(c *config.Config) {
		c.Connection.Hosts, c.Connection.TLS, c.Connection.DialTimeout = address(t, plain), true, time.Second
	})
	if !execution.Is(err, execution.CodeUnavailable) {
		t.Errorf("TLS with a server that has none: %v", err)
	}
	if !redistest.HasTLS(t) {
		t.Log("this server was built without TLS: that is all there is to see")
		return
	}
	a := newAuthority(t)
	serverCert, serverKey := a.pair("redis.test")
	clientCert, clientKey := a.pair("client.test")
	port := freePort(t)
	redistest.Private(t, redistest.Options{Args: []string{"--tls-port", strconv.Itoa(port), "--tls-cert-file", serverCert,
		"--tls-key-file", serverKey, "--tls-ca-cert-file", a.file, "--tls-auth-clients", "yes"}})
	at := fmt.Sprintf("127.0.0.1:%d", port)
	full := func(c *config.Config) {
		c.Connection.Hosts, c.Connection.TLS, c.Connection.CA, c.Connection.ServerName = at, true, a.file, "redis.test"
		c.Connection.Cert, c.Connection.Key = clientCert, clientKey
	}
	for name, tc := range map[string]struct {
		change func(*config.Config)
		want   string // in the error; empty: none
	}{
		"whole": {func(*config.Config) {}, ""},
		"URL": {func(c *config.Config) {
			c.Redis, c.Connection.Hosts, c.Connection.TLS = config.Secret("rediss://"+at), "", false
		}, ""},
		"unverified": {func(c *config.Config) {
			c.Connection.CA, c.Connection.ServerName, c.Connection.SkipVerify = "", "", true
		}, ""},
		"unverified by URL": {func(c *config.Config) {
			c.Redis, c.Connection.Hosts, c.Connection.CA, c.Connection.ServerName = config.Secret("rediss://"+at+"?skip_verify=true"), "", "", ""
		}, ""},
		"unknown authority": {func(c *config.Config) { c.Connection.CA = "" }, "unknown authority"},
		"another authority": {func(c *config.Config) { c.Connection.CA = newAuthority(t).file }, "unknown authority"},
		"another name":      {func(c *config.Config) { c.Connection.ServerName = "other.test" }, "other.test"},
		"no name":           {func(c *config.Config) { c.Connection.ServerName = "" }, "127.0.0.1"},
		"no certificate":    {func(c *config.Config) { c.Connection.Cert, c.Connection.Key = "", "" }, "store_unavailable"},
	} {
		err := opens(t, func(c *config.Config) {
			full(c)
			tc.change(c)
		})
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// A submission that no replica acknowledges is a 503 that tells so and when to ask again; its repeat waits again, and finds the
// same execution once the replica goes on.
func TestUnconfirmedSubmission(t *testing.T) {
	t.Parallel()
	primary := redistest.Private(t, redistest.Options{Args: []string{"--repl-diskless-sync-delay", "0"}})
	host, port, err := net.SplitHostPort(address(t, primary))
	if err != nil {
		t.Fatal(err)
	}
	replica := redistest.Private(t, redistest.Options{Args: []string{"--replicaof", host, port}})
	acked := func() bool {
		pipe := primary.Client().Pipeline()
		pipe.Set(t.Context(), "any", "", time.Minute)
		got := pipe.Do(t.Context(), "WAIT", 1, 100)
		_, err := pipe.Exec(t.Context())
		return err == nil && got.Val() == int64(1)
	}
	for end := time.Now().Add(30 * time.Second); !acked(); {
		if time.Now().After(end) {
			t.Fatal("the replica never followed")
		}
	}
	r := start(t, func(p *server.Params, w *watched) {
		c := config.Default()
		c.Addr, c.Redis, c.Ack, c.AckTimeout = "127.0.0.1:0", config.Secret(primary.URL()), config.Ack{Replicas: 1}, 300*time.Millisecond
		p.Config = c.Complete()
		s, err := server.NewStore(p.Config, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		w.Store = s
		w.open = func() error { return s.(interface{ Open(context.Context) error }).Open(context.Background()) }
	})
	r.ready(t)
	post := func() (status int, retryAfter, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.app.URL()+"/v1/deployments/hold/executions", strings.NewReader(`{"input":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", "k")
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header.Get("Retry-After"), string(text)
	}
	replica.Pause()
	for range 2 {
		if status, retry, body := post(); status != http.StatusServiceUnavailable || retry == "" || !strings.Contains(body, `"code":"unconfirmed"`) {
			t.Errorf("without a replica: %d, %q, %s", status, retry, body)
		}
	}
	replica.Resume()
	ids := map[string]bool{}
	for range 2 {
		status, _, body := post()
		var out struct {
			ID string `json:"execution_id"`
		}
		if err := json.Unmarshal([]byte(body), &out); err != nil || status != http.StatusAccepted || out.ID == "" {
			t.Errorf("with a replica: %d, %s, %v", status, body, err)
		}
		ids[out.ID] = true
	}
	if len(ids) != 1 {
		t.Errorf("ids %v", ids)
	}
	if _, body := r.call(t, "GET", "/status"); !strings.Contains(body, `"acknowledgement":"replicas=1"`) {
		t.Errorf("status %s", body)
	}
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
}
