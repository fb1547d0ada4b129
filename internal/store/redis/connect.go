package redis

import (
	"context"
	"fmt"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/windrow-run/windrow/internal/execution"
)

// topology is how the servers of a URL stand together.
type topology int

const (
	oneServer topology = iota
	sentinel
	cluster
)

// connect makes a client for the URL and what completes it. It opens no connection.
func connect(c Config) (goredis.UniversalClient, error) {
	to, err := parseURL(c.URL)
	if err != nil {
		return nil, err
	}
	if err := to.complete(c); err != nil {
		return nil, err
	}
	o := to.options
	tune(c, o)
	switch to.kind {
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
	o.PoolSize, o.DialTimeout, o.Dialer = c.PoolSize, c.DialTimeout, c.dial
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = c.Timeout, c.Timeout, c.Timeout
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

// failed is what a call to the servers came to. Where a cluster did not serve it another server may by now: the client looks
// for it by itself only once a minute, or when a server that answers says so.
func (s *Store) failed(err error) error {
	err = translate(err)
	if many, ok := s.client.(*goredis.ClusterClient); ok && execution.Is(err, execution.CodeUnavailable) {
		many.ReloadState(s.ctx) // in the background, and not more than a few times a second
	}
	return err
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
