package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// AuthNone is the value of the setting auth under which nobody has to say who they are.
const AuthNone = "none"

// Access is who may call the server, from where, and how often.
type Access struct {
	Auth         string   // [AuthNone], or empty: whoever the settings below name; nobody has to, where they name none, on loopback
	APIKeysFile  string   // that lists API keys; followed
	APIKeys      Password // the same list itself
	StreamSecret Password // signs the stream tokens of browsers; empty: only a server without Redis gives some out

	JWTIssuer     string // whose tokens are accepted; empty: no JWT is
	JWTAudience   string
	JWKSURL       string // where the issuer's keys are
	JWTAlgorithms List
	JWTLeeway     time.Duration // by which clocks may differ
	JWTOwnerClaim string
	JWTScopeClaim string

	CORSOrigins List   // whose pages may call the API
	AdminAddr   string // host:port for /status and /metrics; empty: they are at Addr
	TLSCert     string // file of the certificate; empty: no TLS
	TLSKey      string
	H2C         bool // HTTP/2 without TLS

	RateLimit  int // requests a second, an owner and process; 0: no limit
	RateBurst  int // requests at once; 0: twice the rate
	MaxViewers int // streams at once, an owner and process; 0: no limit
}

func defaultAccess() Access {
	return Access{JWTAlgorithms: List{"RS256", "PS256", "ES256", "EdDSA"}, JWTLeeway: 30 * time.Second, JWTOwnerClaim: "sub",
		JWTScopeClaim: "scope"}
}

// Authenticates reports whether clients have to say who they are.
func (a Access) Authenticates() bool { return a.Auth != AuthNone && a.hasKeysOrIssuer() }

func (a Access) hasKeysOrIssuer() bool {
	return a.APIKeysFile != "" || a.APIKeys != "" || a.JWTIssuer != ""
}

func registerAccess(s settings, c *Config) {
	s.text(&c.Auth, "auth", "none: nobody has to say who they are; needed on other addresses than loopback where no keys and no issuer are named")
	s.text(&c.APIKeysFile, "api-keys-file", "file that lists API keys; changes take effect by themselves")
	s.password(&c.APIKeys, "api-keys", "the same list itself, in the place of a file")
	s.password(&c.StreamSecret, "stream-secret", "at least 32 bytes that sign stream tokens; the same for all servers")
	s.text(&c.JWTIssuer, "jwt-issuer", "issuer whose JWTs are accepted")
	s.text(&c.JWTAudience, "jwt-audience", "audience that JWTs must be for")
	s.text(&c.JWKSURL, "jwks-url", "URL of the issuer's JSON Web Key Set")
	s.list(&c.JWTAlgorithms, "jwt-algorithms", "signatures that JWTs may have")
	s.span(&c.JWTLeeway, "jwt-leeway", "by which the issuer's clock may differ")
	s.text(&c.JWTOwnerClaim, "jwt-owner-claim", "claim that names the owner")
	s.text(&c.JWTScopeClaim, "jwt-scope-claim", "claim that lists the scopes")
	s.list(&c.CORSOrigins, "cors-origin", "origin whose pages may call the API, such as https://app.example.com; may be given again")
	s.text(&c.AdminAddr, "admin-addr", "host:port of their own for /status and /metrics, then without authentication")
	s.text(&c.TLSCert, "tls-cert", "file of the certificate with its chain; changes take effect by themselves")
	s.text(&c.TLSKey, "tls-key", "file of the certificate's key")
	s.flag(&c.H2C, "h2c", "take HTTP/2 without TLS too, for a proxy that speaks it")
	s.number(&c.RateLimit, "rate-limit", "requests a second, an owner and process (0: no limit)")
	s.number(&c.RateBurst, "rate-burst", "requests at once, an owner and process (0: twice the rate)")
	s.number(&c.MaxViewers, "max-viewers", "streams at once, an owner and process (0: no limit)")
}

func (c Config) checkAccess(p *problems) {
	c.checkAuth(p)
	c.checkJWT(p)
	for _, origin := range c.CORSOrigins {
		if u, err := url.Parse(origin); err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin || !slices.Contains([]string{"http", "https"}, u.Scheme) {
			p.add("cors-origin", "write it as https://app.example.com, without a path", "%q is not an origin", origin)
		}
	}
	if _, _, err := net.SplitHostPort(c.AdminAddr); err != nil && c.AdminAddr != "" {
		p.add("admin-addr", "write it as 127.0.0.1:9090", "%q is not host:port", c.AdminAddr)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		p.add("tls-cert", "name both files, or none", "a certificate needs its key, --tls-key, and a key its certificate")
	}
	p.number("rate-limit", c.RateLimit, 0, 1_000_000)
	p.number("rate-burst", c.RateBurst, 0, 1_000_000)
	p.number("max-viewers", c.MaxViewers, 0, 1_000_000)
}

func (c Config) checkAuth(p *problems) {
	switch {
	case c.Auth != "" && c.Auth != AuthNone:
		p.add("auth", "", "%q is not none; keys and issuers are named by settings of their own", c.Auth)
	case c.Auth == AuthNone && c.hasKeysOrIssuer():
		p.add("auth", "leave one of them out", "none, and keys or an issuer are named too")
	case c.Auth == "" && !c.hasKeysOrIssuer() && !loopback(c.Addr) && strings.Contains(c.Addr, ":"):
		p.add("auth", "name --api-keys-file or --jwt-issuer, listen on 127.0.0.1, or set it to none where something else keeps strangers out",
			"whoever reaches %s could do everything", c.Addr)
	}
	if c.APIKeysFile != "" && c.APIKeys != "" {
		p.add("api-keys", "leave one of them out", "--api-keys-file names a list too")
	}
	if c.StreamSecret != "" && len(c.StreamSecret) < 32 {
		p.add("stream-secret", "make one with: openssl rand -base64 32", "it has %d bytes, and needs at least 32", len(c.StreamSecret))
	}
}

func (c Config) checkJWT(p *problems) {
	if (c.JWTIssuer == "") != (c.JWTAudience == "") || (c.JWTIssuer == "") != (c.JWKSURL == "") {
		p.add("jwt-issuer", "name all three, or none", "an issuer needs --jwt-audience and --jwks-url, and they an issuer")
	}
	u, err := url.Parse(c.JWKSURL)
	if c.JWKSURL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Host))) {
		p.add("jwks-url", "", "it must be an https URL; whoever answered in the issuer's place could sign tokens")
	}
	for _, name := range c.JWTAlgorithms {
		if !slices.Contains(jwtAlgorithms(), name) {
			p.add("jwt-algorithms", "", "%q is none of %s", name, strings.Join(jwtAlgorithms(), ", "))
		}
	}
	if len(c.JWTAlgorithms) == 0 || c.JWTOwnerClaim == "" || c.JWTScopeClaim == "" {
		p.add("jwt-issuer", "", "--jwt-algorithms, --jwt-owner-claim and --jwt-scope-claim must not be empty")
	}
	p.span("jwt-leeway", c.JWTLeeway, 0, 10*time.Minute)
}

// jwtAlgorithms are the signatures that a verifier can't make.
func jwtAlgorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

// loopback reports whether an address can be reached from this machine alone.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// List is a list of texts: as a flag with commas between them, or given again. The first takes the place of the default.
type List []string

// listFlag is a List as a flag.
type listFlag struct {
	list    *List
	changed bool
}

func (f *listFlag) Set(text string) error {
	if !f.changed {
		*f.list, f.changed = nil, true
	}
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			*f.list = append(*f.list, one)
		}
	}
	return nil
}

func (f *listFlag) String() string {
	if f.list == nil { // as pflag makes one to learn what zero looks like
		return ""
	}
	return strings.Join(*f.list, ",")
}

func (f *listFlag) Type() string { return "list" }
