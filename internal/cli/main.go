// Package cli is the command line of windrow. [Main] is the whole program, so that tests start the same one as main does.
//
// Server commands (dev, serve) take every setting of package config as a flag or a variable. Client commands talk HTTP to
// the server that --server names. What a command was asked for goes to standard output, all else to standard error.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/internal/config"
)

// Exit codes.
const (
	exitOK       = 0
	exitError    = 1   // it could not be done
	exitUsage    = 2   // the command line is wrong
	exitFailed   = 3   // the execution failed
	exitCanceled = 4   // the execution was canceled
	exitSignal   = 130 // the user interrupted
)

// Server is what dev and serve run.
type Server interface {
	// Run serves until ctx ends, and returns once all is handed over and closed.
	Run(ctx context.Context) error
	// Listening is closed once the server accepts connections; URL is where.
	Listening() <-chan struct{}
	URL() string
}

// Main is the program with all that it needs from outside.
type Main struct {
	Program        string               // how the user calls it; empty: windrow
	Deployments    []durable.Deployment // what dev and serve run; none: only what --demo adds
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	LookupEnv      func(name string) (string, bool)
	// Exit ends the process at once, for the demo deployment crash.
	Exit func(code int)
	// NewServer makes a server from a complete and valid configuration. It starts nothing.
	NewServer func(config.Config, []durable.Deployment, *slog.Logger) (Server, error)
}

// Run carries out a command line, without the program's name, and returns the exit code.
func (m *Main) Run(ctx context.Context, args []string) int {
	root := m.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var exit *codedError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit) && exit.err == nil:
		return exit.code
	case errors.As(err, &exit):
		m.sayf("%s: %v", m.program(), exit.err)
		return exit.code
	case ctx.Err() != nil:
		return exitSignal
	}
	m.sayf("%s: %v", m.program(), err)
	return exitError
}

func (m *Main) program() string { return cmp.Or(m.Program, "windrow") }

// sayf writes a line to standard error. Where that fails there is no place left to report it.
func (m *Main) sayf(format string, args ...any) { _, _ = fmt.Fprintf(m.Stderr, format+"\n", args...) }

// codedError is an exit code with an error to show; nil: there is nothing more to say.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return fmt.Sprintf("exit %d: %v", e.code, e.err) }
func (e *codedError) Unwrap() error { return e.err }

func usageError(err error) error { return &codedError{exitUsage, err} }

func (m *Main) root() *cobra.Command {
	root := &cobra.Command{
		Use:   m.program(),
		Short: "Work that survives crashes, deploys and lost connections",
		Long: "Windrow runs durable executions: submit work over HTTP, follow it live, and see it finish whatever happens " +
			"to processes and connections.\n\nStart with `" + m.program() + " dev`; it needs nothing but itself.",
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError(fmt.Errorf("unknown command %q: see `%s --help`", args[0], m.program()))
			}
			return cmd.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetIn(m.Stdin)
	root.SetOut(m.Stdout)
	root.SetErr(m.Stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError(fmt.Errorf("%w: see `%s --help`", err, cmd.CommandPath()))
	})
	root.AddGroup(&cobra.Group{ID: "server", Title: "Server:"}, &cobra.Group{ID: "client", Title: "Client:"})
	m.addServer(root)
	m.addClient(root)
	root.AddCommand(m.healthCommand(), m.versionCommand())
	return root
}

// arguments takes low to high arguments; names says what they are, for the error of usage.
func arguments(low, high int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low || len(args) > high {
			return usageError(fmt.Errorf("%s takes %s: see `%s --help`", cmd.Name(), names, cmd.CommandPath()))
		}
		return nil
	}
}
