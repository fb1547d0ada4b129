package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/internal/cli"
	"github.com/windrow-run/windrow/internal/config"
	app "github.com/windrow-run/windrow/internal/server"
	"github.com/windrow-run/windrow/internal/telemetry"
)

// serveHard is the variable that makes this test binary the windrow command line, with hard deployments beside the demo's.
const serveHard = "WINDROW_E2E_SERVE_HARD"

// startHard starts a server like start, with the hard deployments.
func startHard(t testing.TB, args ...string) *server {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), serveHard+"=1")
	return launch(t, cmd)
}

// serve is the main function of cmd/windrow with the hard deployments.
func serve() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	go collect()
	main := cli.Main{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, LookupEnv: os.LookupEnv, Exit: os.Exit, NewServer: hardServer}
	return main.Run(ctx, os.Args[1:])
}

func hardServer(c config.Config, demo []durable.Deployment, log *slog.Logger) (cli.Server, error) {
	metrics := telemetry.New()
	store, err := app.NewStore(c, log, metrics)
	if err != nil {
		return nil, err
	}
	return app.New(app.Params{Config: c, Deployments: append(demo, hardDeployments()...), Logger: log, Store: store, Metrics: metrics})
}

// hardDeployments are what authors should not write, and do.
func hardDeployments() []durable.Deployment {
	return []durable.Deployment{
		durable.MustDefine("poison", "1", poison, &durable.Options{Slots: 2}),
		durable.MustDefine("nap", "1", nap, nil),
		durable.MustDefine("deaf", "1", deaf, nil),
		durable.MustDefine("flood", "1", flood, nil),
		durable.MustDefine("bulky", "1", bulky, nil),
		durable.MustDefine("again", "1", again, &durable.Options{MaxUnfinished: durable.None}),
		durable.MustDefine("ticker", "1", ticker, &durable.Options{Slots: 1100, MaxUnfinished: durable.None}),
	}
}

// poison takes its process down so many milliseconds after the beginning of each attempt.
func poison(c durable.Context, ms int) (string, error) {
	if rested, err := nap(c, ms); err != nil {
		return rested, err
	}
	os.Exit(137)
	return "", nil
}

// nap sleeps for so many milliseconds, unless it must stop.
func nap(c durable.Context, ms int) (string, error) {
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
		return "rested", nil
	case <-c.Done():
		return "", context.Cause(c)
	}
}

// deaf sleeps for so many milliseconds, whatever happens.
func deaf(_ durable.Context, ms int) (string, error) {
	<-time.After(time.Duration(ms) * time.Millisecond)
	return "rested", nil
}

type flooded struct{ Sent, Refused int }

// flood streams so many chunks of 50,000 bytes as fast as it can.
func flood(c durable.Context, chunks int) (flooded, error) {
	var out flooded
	text := strings.Repeat("x", 50_000)
	for i := range chunks {
		err := durable.Stream(c, map[string]any{"index": i, "text": text})
		if err != nil {
			return out, err
		}
		out.Sent++
	}
	return out, nil
}

// bulky returns a text of so many bytes.
func bulky(_ durable.Context, bytes int) (string, error) { return strings.Repeat("x", bytes), nil }

// again asks for another attempt at the given time, in milliseconds since the epoch, once.
func again(c durable.Context, at int64) (int64, error) {
	if c.Retries() > 0 {
		return c.Attempt(), nil
	}
	return 0, durable.Retry(c, time.Until(time.UnixMilli(at)), errors.New("later"))
}

type score struct {
	Offset, Every, Count int
	Bytes                int `json:",omitempty"`
}

// ticker streams what time it is, so often, with so many bytes of text; times are in milliseconds.
func ticker(c durable.Context, s score) (int, error) {
	text := strings.Repeat("x", s.Bytes)
	at := time.Now().Add(time.Duration(s.Offset) * time.Millisecond)
	next := time.NewTimer(time.Until(at))
	defer next.Stop()
	for i := range s.Count {
		select {
		case <-next.C:
			at = at.Add(time.Duration(s.Every) * time.Millisecond) // a late tick does not delay those that follow
			next.Reset(time.Until(at))
		case <-c.Done():
			return i, context.Cause(c)
		}
		if err := durable.Stream(c, tick{int64(i), time.Now().UnixNano(), text}); err != nil {
			return i, err
		}
	}
	return s.Count, nil
}

// collect frees all memory that it can at each SIGUSR1, and says how often it has.
func collect() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	for n := 1; ; n++ {
		<-asked
		debug.FreeOSMemory()
		fmt.Fprintf(os.Stderr, "collected %d.\n", n)
	}
}
