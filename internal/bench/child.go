package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/internal/config"
	"github.com/windrow-run/windrow/internal/server"
	"github.com/windrow-run/windrow/internal/telemetry"
)

// order is what a process of a benchmark is told to do, one JSON document each on its standard input.
type order struct {
	Serve *serveOrder `json:"serve,omitempty"` // to be the server that the following orders are about
	Drive *driveOrder `json:"drive,omitempty"` // to submit work to itself
	Watch *watchOrder `json:"watch,omitempty"` // to be viewers of somebody else's executions
	Leave bool        `json:"leave,omitempty"` // to be viewers no more
	Seen  bool        `json:"seen,omitempty"`  // to tell what viewers have seen since the last time
	Reset bool        `json:"reset,omitempty"` // to forget what was counted
	Usage bool        `json:"usage,omitempty"` // to tell what was counted, and what the process holds
	Tidy  bool        `json:"tidy,omitempty"`  // and to collect garbage first
	Done  bool        `json:"done,omitempty"`  // to tell how much has been completed, and no more
	Bare  *bareOrder  `json:"bare,omitempty"`  // to serve the handler that submissions are compared with
}

// answer is what the process says to an order.
type answer struct {
	Error string  `json:"error,omitempty"`
	URL   string  `json:"url,omitempty"`
	Usage usage   `json:"usage"`
	Drive driven  `json:"drive"`
	Seen  audited `json:"seen"`
}

// serveOrder is how to serve.
type serveOrder struct {
	Redis, Prefix string
	Deployments   int // of each kind of work
	Partitions    int
	Slots         int           // 0: the default
	Bystander     bool          // serve other work only: what runs must run elsewhere
	Lease         time.Duration // 0: the default
	Tell          bool          // count what completes
	Compress      bool          // large payloads and chunks
}

// usage is what a process has used since it began, and what it holds.
type usage struct {
	Completed     int64 // executions, since the last reset
	LastCompleted int64 // when, in nanoseconds since the epoch
	Pickups       []time.Duration

	CPU        float64 // seconds
	Mallocs    uint64
	Allocated  uint64 // bytes
	RSS        int64  // bytes
	Goroutines int
}

// child is the process's side.
type child struct {
	tally    *tally
	app      *server.App
	stop     context.CancelFunc
	ended    chan error
	audience *audience
	closers  []func()
}

// Child is the main function of a process of a benchmark: it carries out orders until in ends.
func Child(ctx context.Context, in io.Reader, out io.Writer) error {
	c := &child{tally: &tally{}, audience: newAudience()}
	defer c.close()
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o order
		err := orders.Decode(&o)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("this is for `windrow bench` alone: %w", err)
		}
		a, err := c.obey(ctx, o)
		if err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
}

func (c *child) obey(ctx context.Context, o order) (a answer, err error) {
	switch {
	case o.Serve != nil:
		a.URL, err = c.serve(ctx, *o.Serve)
	case o.Drive != nil:
		a.Drive, err = drive(ctx, c.embedded, *o.Drive)
	case o.Watch != nil:
		a.Seen = c.audience.join(ctx, *o.Watch)
	case o.Leave:
		c.audience.leave()
	case o.Seen:
		a.Seen = c.audience.report()
	case o.Reset:
		c.tally.reset()
	case o.Usage:
		a.Usage, err = c.usage(o.Tidy)
	case o.Done:
		a.Usage.Completed = c.tally.completions()
	case o.Bare != nil:
		a.URL, err = c.bare(ctx, *o.Bare)
	}
	return a, err
}

func (c *child) close() {
	c.audience.leave()
	for _, end := range c.closers {
		end()
	}
	if c.app == nil {
		return
	}
	c.stop()
	for range c.ended { // how it ends that was told to does not matter
	}
}

// serve starts a server as production does, but for a door on loopback alone.
func (c *child) serve(ctx context.Context, o serveOrder) (url string, err error) {
	if c.app != nil {
		return "", errors.New("it serves already")
	}
	cfg := config.Default()
	cfg.Addr, cfg.Redis, cfg.Prefix, cfg.Slots, cfg.MaxNonterminal = "127.0.0.1:0", config.Secret(o.Redis), o.Prefix, o.Slots, 0
	cfg.Partitions, cfg.Compress = max(o.Partitions, 1), o.Compress
	cfg.ShutdownGrace, cfg.DrainTimeout = 100*time.Millisecond, 100*time.Millisecond
	if o.Lease > 0 {
		cfg.Lease = o.Lease
	}
	cfg = cfg.Complete()
	if err := cfg.Validate(); err != nil {
		return "", err
	}
	var deployments []durable.Deployment
	if o.Bystander {
		deployments, err = bystanders(max(o.Deployments, 1))
	} else {
		deployments, err = works(max(o.Deployments, 1), c.tally)
	}
	if err != nil {
		return "", err
	}
	metrics := telemetry.New()
	kept, err := server.NewStore(cfg, nil, metrics)
	if err != nil {
		return "", err
	}
	if o.Tell {
		kept = told{kept.(checkedStore), c.tally}
	}
	app, err := server.New(server.Params{Config: cfg, Deployments: deployments, Store: kept, Metrics: metrics})
	if err != nil {
		return "", errors.Join(err, kept.Close())
	}
	return c.run(ctx, app)
}

// run returns once the server takes work.
func (c *child) run(ctx context.Context, app *server.App) (url string, err error) {
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- app.Run(running)
		close(ended)
	}()
	select {
	case <-app.Listening():
	case err := <-ended:
		stop()
		return "", fmt.Errorf("the server ended: %w", err)
	}
	c.app, c.stop, c.ended = app, stop, ended
	for {
		if err = app.Runtime.Ready(ctx); err == nil {
			return app.URL(), nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (c *child) usage(tidy bool) (usage, error) {
	if tidy {
		debug.FreeOSMemory()
	}
	u := c.tally.usage()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.Mallocs, u.Allocated, u.Goroutines = m.Mallocs, m.TotalAlloc, runtime.NumGoroutine()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return u, err
	}
	u.CPU = time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
	u.RSS = residentSize()
	return u, nil
}
