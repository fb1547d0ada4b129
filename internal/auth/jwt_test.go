package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/windrow-run/windrow/internal/auth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// issuer signs tokens and publishes its keys.
type issuer struct {
	*testing.T
	mu     sync.Mutex // guards the following
	keys   map[string]any
	answer string // in the place of the keys; empty: the keys
	asked  int
}

func issue(t *testing.T) *issuer {
	t.Helper()
	return &issuer{T: t, keys: map[string]any{}}
}

// set changes what the issuer does, and returns how often it has been asked.
func (i *issuer) set(change func()) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
	return i.asked
}

// RoundTrip implements [http.RoundTripper]: time stands still meanwhile, as it would not on a network.
func (i *issuer) RoundTrip(*http.Request) (*http.Response, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	w := httptest.NewRecorder()
	i.publish(w)
	return w.Result(), nil
}

func (i *issuer) publish(w http.ResponseWriter) {
	i.asked++
	if i.answer == "down" {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	if i.answer != "" {
		_, _ = w.Write([]byte(i.answer))
		return
	}
	set := jwkset.NewMemoryStorage()
	for id, key := range i.keys {
		jwk, err := jwkset.NewJWKFromKey(key, jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: id}})
		if err == nil {
			err = set.KeyWrite(context.Background(), jwk)
		}
		if err != nil {
			i.Error(err)
		}
	}
	text, err := set.JSONPublic(context.Background())
	if err != nil {
		i.Error(err)
	}
	_, _ = w.Write(text)
}

// accept runs what accepts the issuer's tokens, and waits until it has asked for the keys.
func (i *issuer) accept(change func(*auth.JWTConfig)) *auth.Bearer {
	i.Helper()
	c := auth.JWTConfig{Issuer: "https://issuer.example", Audience: "windrow", KeySet: "https://issuer.example/keys", Algorithms: []string{"RS256", "PS512", "ES256", "EdDSA"},
		Leeway: 10 * time.Second, OwnerClaim: "sub", ScopeClaim: "scope", Logger: slog.New(slog.DiscardHandler), Client: &http.Client{Transport: i}}
	if change != nil {
		change(&c)
	}
	b := &auth.Bearer{JWT: auth.NewJWT(c)}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	i.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			i.Error(err)
		}
	})
	synctest.Wait()
	return b
}

func claims(change func(jwt.MapClaims)) jwt.MapClaims {
	c := jwt.MapClaims{"iss": "https://issuer.example", "aud": []string{"other", "windrow"}, "sub": "ann", "scope": "read openid submit",
		"exp": time.Now().Add(time.Minute).Unix()}
	if change != nil {
		change(c)
	}
	return c
}

func (i *issuer) sign(method jwt.SigningMethod, kid string, key any, c jwt.MapClaims, header ...string) string {
	i.Helper()
	token := jwt.NewWithClaims(method, c)
	if kid != "" {
		token.Header["kid"] = kid
	}
	for _, name := range header {
		token.Header[name] = []string{"b64"}
	}
	text, err := token.SignedString(key)
	if err != nil {
		i.Fatal(err)
	}
	return text
}

func made[T any](key T, err error) T {
	if err != nil {
		panic(err)
	}
	return key
}

// Tokens of the issuer, for this audience and in time, are accepted under each signature that a verifier can't make.
func TestJWT(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := issue(t)
		_, edwards, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		r, e := made(rsa.GenerateKey(rand.Reader, 2048)), made(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
		i.keys = map[string]any{"r": r, "e": e, "d": edwards}
		b := i.accept(nil)
		for _, token := range []string{
			i.sign(jwt.SigningMethodRS256, "r", r, claims(nil)), i.sign(jwt.SigningMethodPS512, "r", r, claims(nil)),
			i.sign(jwt.SigningMethodES256, "e", e, claims(nil)), i.sign(jwt.SigningMethodEdDSA, "d", edwards, claims(nil)),
			i.sign(jwt.SigningMethodES256, "", e, claims(nil)),
			i.sign(jwt.SigningMethodES256, "e", e, claims(func(c jwt.MapClaims) { c["scope"] = []string{"read", "x", "submit"} })),
			i.sign(jwt.SigningMethodES256, "e", e, claims(func(c jwt.MapClaims) { c["exp"] = time.Now().Add(-5 * time.Second).Unix() })),
		} {
			p, refused := ask(t, b, token)
			if diff := cmp.Diff([]auth.Scope{auth.Read, auth.Submit}, p.Scopes); diff != "" || refused != "" || p.Owner != "ann" || p.Unlimited() {
				t.Errorf("%+v, %s", p, refused)
			}
		}
		if p, _ := ask(t, b, i.sign(jwt.SigningMethodES256, "e", e, claims(func(c jwt.MapClaims) { c["scope"] = "admin" }))); !p.Unlimited() || p.Owner != "ann" {
			t.Errorf("an administrator: %+v", p)
		}
		i.refusesForgeries(b, r, e)
	})
}

// refusesForgeries tries tokens in which one thing is wrong.
func (i *issuer) refusesForgeries(b *auth.Bearer, r *rsa.PrivateKey, e *ecdsa.PrivateKey) {
	i.Helper()
	changed := func(change func(jwt.MapClaims)) string { return i.sign(jwt.SigningMethodES256, "e", e, claims(change)) }
	public := r.N.Bytes()
	for token, want := range map[string]string{
		changed(func(c jwt.MapClaims) { c["exp"] = time.Now().Add(-time.Minute).Unix() }):                       "The token has expired.",
		changed(func(c jwt.MapClaims) { delete(c, "exp") }):                                                     "The token is not valid.",
		changed(func(c jwt.MapClaims) { c["nbf"] = time.Now().Add(time.Minute).Unix() }):                        "The token is not valid yet.",
		changed(func(c jwt.MapClaims) { c["iss"] = "https://other.example" }):                                   "The token is of another issuer.",
		changed(func(c jwt.MapClaims) { delete(c, "iss") }):                                                     "The token is not valid.",
		changed(func(c jwt.MapClaims) { c["aud"] = "other" }):                                                   "The token is for another audience.",
		changed(func(c jwt.MapClaims) { delete(c, "aud") }):                                                     "The token is not valid.",
		changed(func(c jwt.MapClaims) { delete(c, "sub") }):                                                     "The token names no owner in its claim sub.",
		changed(func(c jwt.MapClaims) { c["sub"] = "" }):                                                        "The token names no owner in its claim sub.",
		changed(func(c jwt.MapClaims) { c["sub"] = 7 }):                                                         "The token names no owner in its claim sub.",
		i.sign(jwt.SigningMethodHS256, "r", public, claims(nil)):                                                "The token is not valid.",
		i.sign(jwt.SigningMethodNone, "e", jwt.UnsafeAllowNoneSignatureType, claims(nil)):                       "The token is not valid.",
		i.sign(jwt.SigningMethodES256, "r", e, claims(nil)):                                                     "The token is not valid.",
		i.sign(jwt.SigningMethodES256, "e", made(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), claims(nil)): "The token is not valid.",
		i.sign(jwt.SigningMethodES256, "e", e, claims(nil), "crit"):                                             "The token is not valid.",
		changed(nil) + "x": "The token is not valid.",
		"a.b.c":            "The token is not valid.",
	} {
		if p, got := ask(i.T, b, token); got != want {
			i.Errorf("%+v, %q, want %q", p, got, want)
		}
	}
}

// Only the algorithms that are allowed are accepted.
func TestJWTAlgorithms(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := issue(t)
		e := made(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
		i.keys["e"] = e
		b := i.accept(func(c *auth.JWTConfig) { c.Algorithms = []string{"RS256"} })
		if p, refused := ask(t, b, i.sign(jwt.SigningMethodES256, "e", e, claims(nil))); refused != "The token is not valid." {
			t.Errorf("%+v", p)
		}
	})
}

// A new key is found when a token names it, and not each time that one names a key that is not there. While the issuer is down,
// or answers with something else, the keys that are known stay in force.
func TestJWTKeysAreFollowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := issue(t)
		old, renewed := made(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), made(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
		i.keys["old"] = old
		b := i.accept(nil)
		i.set(func() { i.keys["new"] = renewed })
		if _, refused := ask(t, b, i.sign(jwt.SigningMethodES256, "new", renewed, claims(nil))); refused != "" {
			t.Errorf("a new key: %s", refused)
		}
		i.set(func() { i.answer = "{}" })
		for range 5 {
			if _, refused := ask(t, b, i.sign(jwt.SigningMethodES256, "none", renewed, claims(nil))); refused != "The token is not valid." {
				t.Errorf("a key that is not there: %q", refused)
			}
		}
		if asked := i.set(func() {}); asked != 2 {
			t.Errorf("the issuer was asked %d times", asked)
		}
		<-time.After(6 * time.Minute) // and was asked once more, for nothing
		if got, asked := b.Conditions(), i.set(func() {}); asked != 3 || !slices.Equal(got, []string{"The keys of the JWT issuer can't be read; those that are known stay in force."}) {
			t.Errorf("asked %d times, %q", asked, got)
		}
		if _, refused := ask(t, b, i.sign(jwt.SigningMethodES256, "old", old, claims(nil))); refused != "" {
			t.Errorf("an old key: %s", refused)
		}
	})
}

// Before the first keys no token can be judged. Once the issuer answers, the next token that names a key looks for it.
func TestJWTIssuerIsDown(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"down", "{}", `{"keys":[]}`, "<html>", `{"error":"no"}`} {
		synctest.Test(t, func(t *testing.T) {
			i := issue(t)
			e := made(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
			i.answer, i.keys["e"] = answer, e
			b := i.accept(nil)
			token := i.sign(jwt.SigningMethodES256, "e", e, claims(nil))
			var refused *auth.Error
			if _, err := b.Authenticate(t.Context(), token); !errors.As(err, &refused) || !refused.Unavailable {
				t.Errorf("%s: %v", answer, err)
			}
			if got := b.Conditions(); !slices.Equal(got, []string{"The keys of the JWT issuer could not be read yet; no JWT is accepted."}) {
				t.Errorf("%s: %q", answer, got)
			}
			i.set(func() { i.answer = "" })
			<-time.After(10 * time.Second)
			if p, refused := ask(t, b, token); refused != "" || p.Owner != "ann" {
				t.Errorf("%s: %+v, %s", answer, p, refused)
			}
			if got := b.Conditions(); !slices.Equal(got, []string{""}) {
				t.Errorf("%s: %q", answer, got)
			}
		})
	}
}

// A stream token names no secret of whom it was made for.
func TestStreamTokenIsOpaque(t *testing.T) {
	t.Parallel()
	s := auth.NewStreamTokens([]byte(strings.Repeat("s", auth.MinStreamSecret)))
	token := s.Issue("id", auth.Anyone().Account(), time.Now().Add(time.Minute))
	p, err := s.Principal(token, "id")
	if err != nil || !p.May(auth.Read) || p.May(auth.Submit) || !p.MaySee("id") || p.MaySee("other") || p.Account() != auth.Anyone().Account() {
		t.Errorf("%+v, %v", p, err)
	}
	if len(token) > 100 || strings.ContainsAny(token, "+/=?&") {
		t.Errorf("%s can't stand in a query", token)
	}
	if other := auth.NewStreamTokens([]byte(strings.Repeat("t", auth.MinStreamSecret))); !refuses(other, token) {
		t.Error("another secret accepts it")
	}
	if data, err := json.Marshal(p); err != nil || strings.Contains(string(data), "id\"") {
		t.Errorf("%s, %v", data, err)
	}
}

func refuses(s *auth.StreamTokens, token string) bool {
	_, err := s.Principal(token, "id")
	return err != nil
}
