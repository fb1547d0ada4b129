package redis

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// target is what a URL says.
type target struct {
	options    *goredis.UniversalOptions
	kind       topology
	socket     bool
	database   *int  // nil: it names none
	skipVerify *bool // nil: it says nothing of that
}

// parseURL reads the forms
//
//	redis://[user:password@]host[:port][/database]                      one server
//	unix://[user:password@]/path/to/socket                              one server, over a socket
//	redis-sentinel://[user:password@]host[:port],.../master[/database]  what Sentinel says is the master
//	redis+cluster://[user:password@]host[:port],...                     a cluster
//
// all but the socket also with rediss, for TLS, and the query parameters db, skip_verify, sentinel_username and
// sentinel_password. An error says nothing of what stands in the URL, which may hold a password.
func parseURL(raw string) (*target, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return nil, badURL("it has no scheme")
	}
	u, hosts, err := splitHosts(rest)
	if err != nil {
		return nil, err
	}
	t := &target{options: &goredis.UniversalOptions{}}
	if u.User != nil {
		t.options.Username = u.User.Username()
		t.options.Password, _ = u.User.Password()
	}
	if err := t.place(scheme, hosts, strings.Trim(u.Path, "/"), u.Path); err != nil {
		return nil, err
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, badURL("its parameters are malformed")
	}
	if err := t.parameters(query); err != nil {
		return nil, err
	}
	return t, nil
}

func badURL(reason string) error { return fmt.Errorf("the Redis URL can't be used: %s", reason) }

// splitHosts parses what follows the scheme, which may name several hosts.
func splitHosts(rest string) (u *url.URL, hosts string, err error) {
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	hosts, tail := rest[:end], rest[end:]
	user := ""
	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		user, hosts = hosts[:at+1], hosts[at+1:]
	}
	u, err = url.Parse("redis://" + user + "host" + tail)
	if err != nil || u.Host != "host" || strings.Contains(rest, "#") {
		return nil, "", badURL("user, path or parameters are malformed: percent-encode what stands for itself in them")
	}
	return u, hosts, nil
}

// place sets what depends on the scheme.
func (t *target) place(scheme, hosts, path, socket string) (err error) {
	if scheme == "unix" {
		if hosts != "" || path == "" {
			return badURL("a socket is named by its path alone: unix:///path/to/socket")
		}
		t.options.Addrs, t.socket = []string{socket}, true
		return nil
	}
	if after, ok := strings.CutPrefix(scheme, "rediss"); ok {
		t.options.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12} // each server has to show its own name
		scheme = "redis" + after
	}
	if t.options.Addrs, err = addresses(hosts); err != nil {
		return err
	}
	switch scheme {
	case "redis":
		if len(t.options.Addrs) > 1 {
			return badURL("one server has one host: write redis-sentinel or redis+cluster")
		}
		return t.setDatabase(path)
	case "redis+cluster":
		t.kind = cluster
		if path != "" {
			return badURL("a cluster has no databases")
		}
		return nil
	case "redis-sentinel":
		t.kind = sentinel
		master, db, _ := strings.Cut(path, "/")
		if master == "" {
			return badURL("it names no master: redis-sentinel://host,host/master")
		}
		t.options.MasterName = master
		return t.setDatabase(db)
	}
	return badURL("its scheme is none of redis, rediss, unix, redis-sentinel, rediss-sentinel, redis+cluster, rediss+cluster")
}

// addresses reads host[:port],...; no host at all is this machine.
func addresses(hosts string) ([]string, error) {
	if hosts == "" {
		hosts = "localhost"
	}
	var out []string
	for host := range strings.SplitSeq(hosts, ",") {
		address, ok := addressOf(host)
		if !ok {
			return nil, badURL("a host is malformed: write host or host:port, and an IPv6 address in brackets")
		}
		out = append(out, address)
	}
	return out, nil
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252})$`)

// addressOf completes host[:port] to what can be dialed. The client of the library takes any text, and fails with each dial.
func addressOf(text string) (address string, ok bool) {
	host, port := text, "6379"
	if h, p, err := net.SplitHostPort(text); err == nil {
		host, port = h, p
		if host == "" {
			host = "localhost"
		}
	} else if inner, bracketed := strings.CutPrefix(text, "["); bracketed {
		host, ok = strings.CutSuffix(inner, "]")
		if !ok {
			return "", false
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", false
	}
	ip, err := netip.ParseAddr(strings.Replace(host, "%25", "%", 1)) // a zone's sign may stand as URLs have it
	switch {
	case err == nil && ip.Zone() == "", err == nil && hostName.MatchString(ip.Zone()):
		host = ip.String()
	case !hostName.MatchString(host):
		return "", false
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), true
}

func (t *target) setDatabase(text string) error {
	if text == "" {
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	db := int(n)
	switch {
	case err != nil:
		return badURL("the database is not a number")
	case t.kind == cluster:
		return badURL("a cluster has no databases")
	case t.database != nil && *t.database != db:
		return badURL("it names two databases")
	}
	t.database, t.options.DB = &db, db
	return nil
}

func (t *target) parameters(query url.Values) error {
	for name, values := range query {
		if len(values) != 1 {
			return badURL("a parameter stands there twice")
		}
		if err := t.parameter(name, values[0]); err != nil {
			return err
		}
	}
	return nil
}

func (t *target) parameter(name, value string) error {
	switch name {
	case "db":
		return t.setDatabase(value)
	case "sentinel_username":
		t.options.SentinelUsername = value
	case "sentinel_password":
		t.options.SentinelPassword = value
	case "skip_verify":
		skip := value == "true"
		switch {
		case t.options.TLSConfig == nil:
			return badURL("skip_verify needs TLS: rediss")
		case !skip && value != "false":
			return badURL("skip_verify is neither true nor false")
		}
		t.options.TLSConfig.InsecureSkipVerify, t.skipVerify = skip, &skip
	default:
		return badURL("a parameter is none of db, skip_verify, sentinel_username, sentinel_password")
	}
	return nil
}

// SettingError says why a field of the configuration does not go with the URL, without what stands in either.
type SettingError struct {
	Field  string // of Config
	Reason string
}

func (e *SettingError) Error() string { return e.Field + ": " + e.Reason }

const differs = "the Redis URL says something else"

// complete takes over what the URL leaves open.
func (t *target) complete(c Config) error {
	o := t.options
	for _, one := range []struct {
		field string
		to    *string
		value string
	}{{"Username", &o.Username, c.Username}, {"Password", &o.Password, c.Password},
		{"SentinelUsername", &o.SentinelUsername, c.SentinelUsername}, {"SentinelPassword", &o.SentinelPassword, c.SentinelPassword}} {
		if one.value == "" {
			continue
		}
		if *one.to != "" && *one.to != one.value {
			return &SettingError{one.field, differs}
		}
		*one.to = one.value
	}
	if err := t.checkCredentials(); err != nil {
		return err
	}
	if err := t.completeDatabase(c.Database); err != nil {
		return err
	}
	return t.completeTLS(c.TLS)
}

// checkCredentials refuses those that would not be used: the client sends no user without a password.
func (t *target) checkCredentials() error {
	o := t.options
	switch {
	case o.Username != "" && o.Password == "":
		return &SettingError{"Password", "a user of Redis is named and no password"}
	case o.SentinelUsername != "" && o.SentinelPassword == "":
		return &SettingError{"SentinelPassword", "a user of the sentinels is named and no password"}
	case o.SentinelPassword != "" && t.kind != sentinel:
		return &SettingError{"SentinelPassword", "there are no sentinels"}
	}
	return nil
}

func (t *target) completeDatabase(db *int) error {
	switch {
	case db == nil:
		return nil
	case *db < 0:
		return &SettingError{"Database", "it is below 0"}
	case t.kind == cluster && *db > 0:
		return &SettingError{"Database", "a cluster has no databases"}
	case t.database != nil && *t.database != *db:
		return &SettingError{"Database", differs}
	}
	t.options.DB = *db
	return nil
}

func (t *target) completeTLS(c *tls.Config) error {
	switch {
	case c == nil:
		return nil
	case t.socket:
		return &SettingError{"TLS", "there is no TLS over a socket"}
	case t.skipVerify != nil && !*t.skipVerify && c.InsecureSkipVerify:
		return &SettingError{"TLS", differs}
	}
	c = c.Clone()
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	c.InsecureSkipVerify = c.InsecureSkipVerify || t.skipVerify != nil && *t.skipVerify
	t.options.TLSConfig = c
	return nil
}
