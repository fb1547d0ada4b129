package config

import (
	"net/url"
	"slices"
	"strings"
	"time"
)

// Connection is how Redis is reached. What the URL leaves open stands here; what it says, and is said otherwise here, is refused.
type Connection struct {
	Hosts   string // host:port,... or the path of a socket, in place of a URL
	Master  string // of the sentinels at Hosts
	Cluster bool   // Hosts are of a cluster

	Username             string
	Password             Password
	PasswordFile         string // in place of Password
	SentinelUsername     string
	SentinelPassword     Password
	SentinelPasswordFile string // in place of SentinelPassword
	DB                   int    // -1: what the URL says

	TLS        bool   // also set by rediss in a URL
	CA         string // file of certificates to trust; empty: the system's
	Cert, Key  string // files of what this client shows; empty: nothing
	ServerName string // in the server's certificate; empty: the host that is dialed
	SkipVerify bool

	Pool        int // connections for operations, to a server
	DialTimeout time.Duration
	Timeout     time.Duration // for a reply
}

func defaultConnection() Connection {
	return Connection{DB: -1, Pool: 16, DialTimeout: 5 * time.Second, Timeout: 5 * time.Second}
}

func registerConnection(s settings, c *Connection) {
	s.text(&c.Hosts, "redis-hosts", "host:port,... of Redis, or the path of its socket, in place of a URL")
	s.text(&c.Master, "redis-master", "name of the master, where --redis-hosts are sentinels")
	s.flag(&c.Cluster, "redis-cluster", "--redis-hosts are of a cluster")
	s.text(&c.Username, "redis-username", "user of Redis, as its ACL knows it")
	s.password(&c.Password, "redis-password", "password of Redis; as a variable it stays out of process lists")
	s.text(&c.PasswordFile, "redis-password-file", "file that holds the password of Redis")
	s.text(&c.SentinelUsername, "redis-sentinel-username", "user of the sentinels")
	s.password(&c.SentinelPassword, "redis-sentinel-password", "password of the sentinels")
	s.text(&c.SentinelPasswordFile, "redis-sentinel-password-file", "file that holds the password of the sentinels")
	s.number(&c.DB, "redis-db", "database (-1: what the URL says, or 0)")
	s.flag(&c.TLS, "redis-tls", "use TLS, as rediss in a URL does")
	s.text(&c.CA, "redis-tls-ca", "PEM file of the certificates to trust (empty: the system's)")
	s.text(&c.Cert, "redis-tls-cert", "PEM file of the certificate that this client shows")
	s.text(&c.Key, "redis-tls-key", "PEM file of its key")
	s.text(&c.ServerName, "redis-tls-server-name", "name in the server's certificate (empty: the host that is dialed)")
	s.flag(&c.SkipVerify, "redis-tls-skip-verify", "accept any certificate: for tests")
	s.number(&c.Pool, "redis-pool", "connections for operations, to a server; streams and doorbells have their own")
	s.span(&c.DialTimeout, "redis-dial-timeout", "for a connection to Redis")
	s.span(&c.Timeout, "redis-timeout", "for a reply of Redis")
}

// url puts the URL together that Hosts stand for. Credentials never enter it: they go to the store as they are.
func (c Connection) url() Secret {
	scheme := "redis"
	if c.TLS {
		scheme = "rediss"
	}
	switch {
	case strings.HasPrefix(c.Hosts, "/"):
		return Secret("unix://" + (&url.URL{Path: c.Hosts}).EscapedPath())
	case c.Master != "":
		scheme += "-sentinel"
	case c.Cluster:
		scheme += "+cluster"
	}
	return Secret(scheme + "://" + c.Hosts + "/" + url.PathEscape(c.Master))
}

// both says in an error that two settings exclude each other.
func (p *problems) both(setting, other string, remedy string) {
	p.add(setting, remedy, "it is set, and so is --%s (%s)", other, EnvName(other))
}

func (p *problems) needs(setting, other string) {
	p.add(setting, "", "it needs --%s (%s)", other, EnvName(other))
}

func (c Config) checkConnection(p *problems) {
	n := c.Connection
	if n.Hosts != "" && c.Redis != n.url() {
		p.both("redis-hosts", "redis", "name Redis by one of them")
	}
	socket := strings.HasPrefix(n.Hosts, "/")
	if !socket && strings.ContainsAny(n.Hosts, "/@?#%") {
		p.add("redis-hosts", "user and password have settings of their own", "it is not host:port,... or the path of a socket")
	}
	if n.Master != "" && n.Cluster {
		p.both("redis-master", "redis-cluster", "name one of them")
	}
	if socket && (n.Master != "" || n.Cluster) {
		p.add("redis-hosts", "name host:port,...", "a socket is one server, neither sentinels nor a cluster")
	}
	if n.Hosts == "" && n.Master != "" {
		p.needs("redis-master", "redis-hosts")
	}
	if n.Hosts == "" && n.Cluster {
		p.needs("redis-cluster", "redis-hosts")
	}
	n.checkCredentials(p)
	c.checkTLS(p)
	p.number("redis-db", n.DB, -1, 1_000_000)
	p.number("redis-pool", n.Pool, 1, 10_000)
	p.span("redis-dial-timeout", n.DialTimeout, time.Millisecond, time.Minute)
	p.span("redis-timeout", n.Timeout, time.Millisecond, time.Minute)
}

func (c Connection) checkCredentials(p *problems) {
	for _, one := range []struct {
		prefix, file string
		password     Password
	}{{"redis", c.PasswordFile, c.Password}, {"redis-sentinel", c.SentinelPasswordFile, c.SentinelPassword}} {
		if one.file != "" && one.password != "" {
			p.both(one.prefix+"-password", one.prefix+"-password-file", "keep one of them")
		}
	}
}

func (c Config) checkTLS(p *problems) {
	n := c.Connection
	scheme, _, _ := strings.Cut(c.Redis.Reveal(), "://")
	if n.TLS && scheme == "unix" {
		p.add("redis-tls", "switch it off", "there is no TLS over a socket of this machine")
	}
	if (n.Cert == "") != (n.Key == "") {
		p.add("redis-tls-cert", "name both or none", "it goes with --redis-tls-key (%s)", EnvName("redis-tls-key"))
	}
	if n.TLS || strings.HasPrefix(scheme, "rediss") {
		return
	}
	for _, one := range []struct {
		setting string
		set     bool
	}{{"redis-tls-ca", n.CA != ""}, {"redis-tls-cert", n.Cert != ""}, {"redis-tls-server-name", n.ServerName != ""},
		{"redis-tls-skip-verify", n.SkipVerify}} {
		if one.set {
			p.add(one.setting, "switch --redis-tls ("+EnvName("redis-tls")+") on, or write rediss:// in the URL", "there is no TLS")
		}
	}
}

// NeedsTLS reports whether settings say more of TLS than a URL does.
func (c Connection) NeedsTLS() bool {
	return c.TLS || c.SkipVerify || slices.ContainsFunc([]string{c.CA, c.Cert, c.ServerName}, func(s string) bool { return s != "" })
}
