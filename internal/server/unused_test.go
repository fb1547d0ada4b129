package server_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/server"
)

// A connection that nobody has sent anything on does not keep a server from ending.
func TestUnusedConnection(t *testing.T) {
	t.Parallel()
	const never = time.Hour
	r := start(t, func(p *server.Params, _ *watched) { p.Config.DrainTimeout = never })
	r.ready(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.app.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r.call(t, "GET", "/livez") // by now the server has accepted the first one, too
	r.stop()
	select {
	case err := <-r.done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(4 * time.Second): // net/http gives such a connection five
		t.Fatal("the server waits for it")
	}
}
