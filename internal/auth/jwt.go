package auth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/time/rate"
)

// JWTConfig says which JWTs are accepted.
type JWTConfig struct {
	Issuer     string        // that the claim iss must be
	Audience   string        // that the claim aud must name
	KeySet     string        // URL of the issuer's JSON Web Key Set
	Algorithms []string      // of the signatures that are accepted: none that a verifier could make
	Leeway     time.Duration // by which clocks may differ
	OwnerClaim string
	ScopeClaim string
	Logger     *slog.Logger
	Client     *http.Client // asks for the keys; nil: one of its own
}

// JWT accepts the tokens of one issuer. The issuer's keys are read anew every few minutes, and when a token names one that is
// not known, at most every 10 s. While the issuer can't be reached, the keys that are known stay in force.
type JWT struct {
	config JWTConfig
	parser *jwt.Parser
	keys   *keptKeys
	lookup atomic.Pointer[keyfunc.Keyfunc] // nil: the keys were not asked for yet
}

// How the issuer's keys are followed.
const (
	keySetInterval = 5 * time.Minute
	keySetPause    = 10 * time.Second // between two looks for keys that are not known
	keySetTimeout  = 5 * time.Second
)

// NewJWT returns what accepts the tokens of an issuer, once [Bearer.Run] runs.
func NewJWT(c JWTConfig) *JWT {
	if c.Client == nil {
		c.Client = &http.Client{}
	}
	return &JWT{config: c, keys: &keptKeys{MemoryJWKSet: jwkset.NewMemoryStorage()}, parser: jwt.NewParser(
		jwt.WithValidMethods(c.Algorithms), jwt.WithIssuer(c.Issuer), jwt.WithAudience(c.Audience), jwt.WithLeeway(c.Leeway),
		jwt.WithExpirationRequired())}
}

// keptKeys are the issuer's keys. They never give way to none: an answer without a key is a failure of the issuer's.
type keptKeys struct {
	*jwkset.MemoryJWKSet
	known  atomic.Bool // keys have been read at least once
	failed atomic.Bool // the last attempt to read them failed
}

// KeyReplaceAll implements [jwkset.Storage].
func (k *keptKeys) KeyReplaceAll(ctx context.Context, keys []jwkset.JWK) error {
	if len(keys) == 0 {
		return errors.New("the answer holds no key that can be used")
	}
	k.known.Store(true)
	k.failed.Store(false)
	return k.MemoryJWKSet.KeyReplaceAll(ctx, keys)
}

func (j *JWT) run(ctx context.Context) error {
	followed, err := jwkset.NewStorageFromHTTP(j.config.KeySet, jwkset.HTTPClientStorageOptions{
		Client: j.config.Client, Ctx: ctx, HTTPTimeout: keySetTimeout, NoErrorReturnFirstHTTPReq: true, RefreshInterval: keySetInterval,
		Storage: j.keys, RefreshErrorHandler: func(_ context.Context, err error) {
			if ctx.Err() == nil { // a server that ends breaks off its look
				j.failed(err)
			}
		},
	})
	if err != nil {
		return err
	}
	client, err := jwkset.NewHTTPClient(jwkset.HTTPClientOptions{HTTPURLs: map[string]jwkset.Storage{j.config.KeySet: followed},
		RateLimitWaitMax: keySetTimeout, RefreshUnknownKID: rate.NewLimiter(rate.Every(keySetPause), 1)})
	if err != nil {
		return err
	}
	lookup, err := keyfunc.New(keyfunc.Options{Ctx: ctx, Storage: client, UseWhitelist: []jwkset.USE{jwkset.UseSig, ""}})
	if err != nil {
		return err
	}
	j.lookup.Store(&lookup)
	<-ctx.Done()
	return nil
}

// failed is told that the keys could not be read, and logs the first of such failures in a row.
func (j *JWT) failed(err error) {
	if !j.keys.failed.Swap(true) {
		j.config.Logger.Warn("the issuer's keys can't be read; those that are known stay in force", "url", j.config.KeySet, "error", err)
	}
}

func (j *JWT) condition() string {
	switch {
	case !j.keys.failed.Load():
		return ""
	case !j.keys.known.Load():
		return "The keys of the JWT issuer could not be read yet; no JWT is accepted."
	}
	return "The keys of the JWT issuer can't be read; those that are known stay in force."
}

// principal tells who sends a token.
func (j *JWT) principal(ctx context.Context, text string) (Principal, error) {
	lookup := j.lookup.Load()
	if lookup == nil {
		return Principal{}, j.unavailable()
	}
	claims := jwt.MapClaims{}
	// A client that goes away must not break off the look for a new key, which others wait for too.
	keys := (*lookup).KeyfuncCtx(context.WithoutCancel(ctx))
	_, err := j.parser.ParseWithClaims(text, claims, func(token *jwt.Token) (any, error) {
		if _, ok := token.Header["crit"]; ok {
			return nil, errors.New("the token has extensions that must be understood")
		}
		return keys(token)
	})
	if err != nil {
		return Principal{}, j.refused(err)
	}
	owner, ok := claims[j.config.OwnerClaim].(string)
	if !ok || !ValidOwner(owner) {
		return Principal{}, invalid("The token names no owner in its claim " + j.config.OwnerClaim + ".")
	}
	return Principal{Owner: owner, Scopes: scopesOf(claims[j.config.ScopeClaim]), Name: "jwt:" + owner, account: accountOf("owner", owner)}, nil
}

func (j *JWT) unavailable() error {
	return &Error{Detail: "The issuer's keys could not be read yet.", Unavailable: true}
}

// refused says why a token is not accepted, in as few words as its sender needs.
func (j *JWT) refused(err error) error {
	j.config.Logger.Debug("a JWT was refused", "error", err)
	switch {
	case errors.Is(err, jwt.ErrTokenUnverifiable) && !j.keys.known.Load():
		return j.unavailable()
	case errors.Is(err, jwt.ErrTokenExpired):
		return invalid("The token has expired.")
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return invalid("The token is not valid yet.")
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return invalid("The token is for another audience.")
	case errors.Is(err, jwt.ErrTokenInvalidIssuer):
		return invalid("The token is of another issuer.")
	}
	return invalid("The token is not valid.")
}

// scopesOf reads a claim that lists scopes in one text, as OAuth has it, or in a list. Scopes of others are passed over.
func scopesOf(claim any) (scopes []Scope) {
	var names []string
	switch claim := claim.(type) {
	case string:
		names = strings.Fields(claim)
	case []any:
		for _, one := range claim {
			if name, ok := one.(string); ok {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		if slices.Contains(Scopes(), Scope(name)) {
			scopes = append(scopes, Scope(name))
		}
	}
	return scopes
}
