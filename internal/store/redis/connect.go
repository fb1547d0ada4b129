package redis

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// topology is how the servers of a URL stand together.
type topology int

const (
	oneServer topology = iota
	sentinel
	cluster
)

// connect makes a client for the URL. It opens no connection.
func connect(c Config) (goredis.UniversalClient, error) {
	o, kind, err := parseURL(c.URL)
	if err != nil {
		return nil, err
	}
	tune(c, o)
	switch kind {
	case sentinel:
		return goredis.NewFailoverClient(o.Failover()), nil
	case cluster:
		return goredis.NewClusterClient(o.Cluster()), nil
	case oneServer:
	}
	return goredis.NewClient(o.Simple()), nil
}

// tune sets what does not come from the URL. Nothing is sent twice by itself. What scripts return has the same shape in both
// protocols, and RESP2 spares a look for pushes before each reply.
func tune(c Config, o *goredis.UniversalOptions) {
	o.Protocol = 2
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.PoolSize, o.DialTimeout = c.PoolSize, c.DialTimeout
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = c.Timeout, c.Timeout, c.Timeout
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
func parseURL(raw string) (*goredis.UniversalOptions, topology, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return nil, 0, badURL("it has no scheme")
	}
	u, hosts, err := splitHosts(rest)
	if err != nil {
		return nil, 0, err
	}
	o := &goredis.UniversalOptions{Addrs: hosts}
	if u.User != nil {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	kind, err := place(o, scheme, u)
	if err != nil {
		return nil, 0, err
	}
	return o, kind, parameters(o, u.Query())
}

func badURL(reason string) error { return fmt.Errorf("the Redis URL can't be used: %s", reason) }

// splitHosts parses what follows the scheme, which may name several hosts.
func splitHosts(rest string) (u *url.URL, hosts []string, err error) {
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority, tail := rest[:end], rest[end:]
	user := ""
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, authority = authority[:at+1], authority[at+1:]
	}
	if u, err = url.Parse("redis://" + user + "host" + tail); err != nil {
		return nil, nil, badURL("user, path or parameters are malformed")
	}
	for host := range strings.SplitSeq(authority, ",") {
		if host == "" {
			host = "localhost"
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "6379")
		}
		hosts = append(hosts, host)
	}
	return u, hosts, nil
}

// place sets what depends on the scheme.
func place(o *goredis.UniversalOptions, scheme string, u *url.URL) (topology, error) {
	path := strings.Trim(u.Path, "/")
	if scheme, ok := strings.CutPrefix(scheme, "rediss"); ok {
		name, _, _ := net.SplitHostPort(o.Addrs[0])
		o.TLSConfig = &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}
		return placeNamed(o, "redis"+scheme, path)
	}
	if scheme == "unix" {
		o.Addrs = []string{u.Path}
		return oneServer, nil
	}
	return placeNamed(o, scheme, path)
}

func placeNamed(o *goredis.UniversalOptions, scheme, path string) (topology, error) {
	switch scheme {
	case "redis":
		return oneServer, database(o, path)
	case "redis+cluster":
		if path != "" {
			return 0, badURL("a cluster has no databases")
		}
		return cluster, nil
	case "redis-sentinel":
		master, db, _ := strings.Cut(path, "/")
		if master == "" {
			return 0, badURL("it names no master: redis-sentinel://host,host/master")
		}
		o.MasterName = master
		return sentinel, database(o, db)
	}
	return 0, badURL("its scheme is none of redis, rediss, unix, redis-sentinel, rediss-sentinel, redis+cluster, rediss+cluster")
}

func database(o *goredis.UniversalOptions, text string) (err error) {
	if text == "" {
		return nil
	}
	if o.DB, err = strconv.Atoi(text); err != nil || o.DB < 0 {
		return badURL("the database is not a number")
	}
	return nil
}

func parameters(o *goredis.UniversalOptions, query url.Values) error {
	for name := range query {
		value := query.Get(name)
		switch name {
		case "db":
			if err := database(o, value); err != nil {
				return err
			}
		case "sentinel_username":
			o.SentinelUsername = value
		case "sentinel_password":
			o.SentinelPassword = value
		case "skip_verify":
			if o.TLSConfig == nil {
				return badURL("skip_verify needs TLS: rediss")
			}
			o.TLSConfig.InsecureSkipVerify = value == "true"
		default:
			return badURL("a parameter is none of db, skip_verify, sentinel_username, sentinel_password")
		}
	}
	return nil
}

// node is the client of the server that holds the key.
func (s *Store) node(ctx context.Context, key string) (*goredis.Client, error) {
	switch client := s.client.(type) {
	case *goredis.Client:
		return client, nil
	case *goredis.ClusterClient:
		return client.MasterForKey(ctx, key)
	}
	return nil, fmt.Errorf("client of unknown kind %T", s.client)
}

// nodeOptions are the options of a client of its own for the server that holds the key.
func (s *Store) nodeOptions(ctx context.Context, key string) (*goredis.Options, error) {
	node, err := s.node(ctx, key)
	if err != nil {
		return nil, translate(err)
	}
	o := *node.Options()
	o.MaxRetries = -1 // it stands completed, as 0, which would become the default once more
	return &o, nil
}
