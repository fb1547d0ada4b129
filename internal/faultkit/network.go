package faultkit

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Network is the way to one Redis, with all that may be wrong with a network. What is set holds until [Network.Heal].
type Network struct {
	t        testing.TB
	upstream *url.URL
	proxy    *toxiproxy.Proxy
}

// NewNetwork makes the way to the server of a redis:// URL. It ends with the test.
func NewNetwork(tb testing.TB, server string) *Network {
	tb.Helper()
	upstream, err := url.Parse(server)
	if err != nil {
		tb.Fatalf("the server's URL: %v", err)
	}
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(api, "redis", "127.0.0.1:0", upstream.Host)
	if err := proxy.Start(); err != nil {
		tb.Fatalf("start the network: %v", err)
	}
	tb.Cleanup(proxy.Stop)
	return &Network{tb, upstream, proxy}
}

// URL is that of the server, over this network.
func (n *Network) URL() string {
	u := *n.upstream
	u.Host = n.proxy.Listen
	return u.String()
}

// Latency delays what the server says by that much, give or take the jitter.
func (n *Network) Latency(d, jitter time.Duration) {
	n.t.Helper()
	n.add("latency", map[string]int64{"latency": d.Milliseconds(), "jitter": jitter.Milliseconds()})
}

// Bandwidth lets the server say no more than so many kilobytes a second.
func (n *Network) Bandwidth(kilobytes int64) {
	n.t.Helper()
	n.add("bandwidth", map[string]int64{"rate": kilobytes})
}

// Blackhole lets nothing that the server says arrive, and leaves connections open.
func (n *Network) Blackhole() {
	n.t.Helper()
	n.add("timeout", map[string]int64{"timeout": 0})
}

// Reset resets connections as soon as the server says something.
func (n *Network) Reset() {
	n.t.Helper()
	n.add("reset_peer", map[string]int64{"timeout": 0})
}

// Limit closes each connection once the server has said so many bytes on it.
func (n *Network) Limit(bytes int64) {
	n.t.Helper()
	n.add("limit_data", map[string]int64{"bytes": bytes})
}

// Down closes every connection and refuses new ones, until [Network.Up].
func (n *Network) Down() { n.proxy.Stop() }

// Up takes connections again, at the same address.
func (n *Network) Up() {
	n.t.Helper()
	if err := n.proxy.Start(); err != nil {
		n.t.Fatalf("start the network: %v", err)
	}
}

// Heal undoes all but Down.
func (n *Network) Heal() { n.proxy.Toxics.ResetToxics(context.Background()) }

func (n *Network) add(kind string, attributes map[string]int64) {
	n.t.Helper()
	text, err := json.Marshal(map[string]any{"type": kind, "stream": "downstream", "attributes": attributes})
	if err == nil {
		_, err = n.proxy.Toxics.AddToxicJson(strings.NewReader(string(text)))
	}
	if err != nil {
		n.t.Fatalf("%s: %v", kind, err)
	}
}
