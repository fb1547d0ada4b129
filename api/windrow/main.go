package windrow

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/internal/cli"
	"github.com/windrow-run/windrow/internal/config"
)

// Main is the main function of a program that is a server of these deployments, with the command line of windrow: dev, serve,
// submit, watch and the rest. It ends the process.
func Main(deployments ...durable.Deployment) { os.Exit(run(deployments)) }

func run(deployments []durable.Deployment) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	program := cli.Main{
		Program: filepath.Base(os.Args[0]), Deployments: deployments, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		LookupEnv: os.LookupEnv, Exit: os.Exit,
		NewServer: func(c config.Config, served []durable.Deployment, log *slog.Logger) (cli.Server, error) {
			return assemble(c, served, log, false)
		},
	}
	return program.Run(ctx, os.Args[1:])
}
