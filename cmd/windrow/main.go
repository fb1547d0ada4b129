// Command windrow is the server and its command line. See windrow --help.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/internal/cli"
	"github.com/windrow-run/windrow/internal/config"
	"github.com/windrow-run/windrow/internal/server"
	"github.com/windrow-run/windrow/internal/telemetry"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	main := cli.Main{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, LookupEnv: os.LookupEnv, Exit: os.Exit, NewServer: newServer,
	}
	return main.Run(ctx, os.Args[1:])
}

func newServer(c config.Config, deployments []durable.Deployment, log *slog.Logger) (cli.Server, error) {
	metrics := telemetry.New()
	store, err := server.NewStore(c, log, metrics)
	if err != nil {
		return nil, err
	}
	return server.New(server.Params{Config: c, Deployments: deployments, Logger: log, Store: store, Metrics: metrics})
}
