package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	goredis "github.com/redis/go-redis/v9"
)

const (
	barePairs      = 6
	bareSubmitters = 64
	bareRatio      = 60 // % of what the bare handler reaches
)

// bareOrder is to serve a handler that does one script, and nothing else.
type bareOrder struct{ Redis, Prefix string }

// bareScript writes a hash, a sorted set and a stream, as any queue on Redis has to.
const bareScript = `local key = KEYS[1]
redis.call('HSET', key .. ARGV[1], 's', 'q', 'd', ARGV[2], 'i', ARGV[3])
redis.call('ZADD', key .. 'ready', 0, ARGV[1])
redis.call('XADD', key .. 'log', 'MAXLEN', '~', '1000', '*', 's', 'q')
return 1`

// bare serves what submissions over HTTP are compared with.
func (c *child) bare(ctx context.Context, o bareOrder) (url string, err error) {
	options, err := goredis.ParseURL(o.Redis)
	if err != nil {
		return "", err
	}
	options.Protocol, options.PoolSize = 2, 16 // as the store has it
	client := goredis.NewClient(options)
	script := goredis.NewScript(bareScript)
	if err := script.Load(ctx, client).Err(); err != nil {
		return "", err
	}
	router := chi.NewRouter()
	router.Post("/v1/deployments/{deployment}/executions", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		id := rand.Text()
		if err == nil {
			err = script.EvalSha(r.Context(), client, []string{o.Prefix + ":{bare}:"}, id, chi.URLParam(r, "deployment"), body).Err()
		}
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprintf(w, `{"execution_id":%q}`, id) // the client has gone
	})
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: router, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until it is closed
	c.closers = append(c.closers, func() { _ = server.Close(); _ = client.Close() })
	return "http://" + listener.Addr().String(), nil
}

// bareRate compares submissions over HTTP with the bare handler, in turns. Nothing works on what is submitted.
func (r *run) bareRate(ctx context.Context, name string) error {
	f, err := r.fleet(ctx, 1, serveOrder{Redis: r.redis.url})
	if err != nil {
		return err
	}
	defer f.stop()
	bare, err := startProcess(ctx, r.Program)
	if err != nil {
		return err
	}
	defer bare.stop()
	a, err := bare.tell(order{Bare: &bareOrder{r.redis.url, r.redis.prefix}})
	if err != nil {
		return err
	}
	client := newHTTPClient(bareSubmitters)
	defer client.CloseIdleConnections()
	rate := func(url string, n int) (float64, error) {
		begin := time.Now()
		_, err := drive(ctx, overHTTP(client, url), driveOrder{Kind: workHeld, Count: n, Submitters: bareSubmitters})
		return float64(n) / time.Since(begin).Seconds(), err
	}
	for i := range barePairs + 1 {
		ours, err := rate(f.servers[0].url, r.Count)
		if err != nil {
			return err
		}
		theirs, err := rate(a.URL, r.Count)
		if err != nil {
			return err
		}
		if i > 0 { // the first pair warms up
			r.report.add(name, timed("submissions", "/s", ours, 0), timed("bare handler", "/s", theirs, 0), atLeast("of the bare handler", 100*ours/theirs, bareRatio))
		}
	}
	return nil
}
