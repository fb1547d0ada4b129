package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/internal/config"
	"github.com/windrow-run/windrow/internal/demo"
	"github.com/windrow-run/windrow/internal/telemetry"
)

func (m *Main) addServer(root *cobra.Command) {
	root.AddCommand(m.devCommand(), m.serveCommand())
}

func (m *Main) devCommand() *cobra.Command {
	c := config.Default()
	c.Demo = true
	cmd := &cobra.Command{
		Use: "dev", Short: "Try it out: a server with demo deployments, in memory unless --redis names one",
		GroupID: "server", Args: exactly(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return m.serve(cmd, &c, true) },
	}
	config.Register(cmd.Flags(), &c)
	return cmd
}

func (m *Main) serveCommand() *cobra.Command {
	c := config.Default()
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve on Redis or Valkey, for production",
		GroupID: "server", Args: exactly(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return m.serve(cmd, &c, false) },
	}
	config.Register(cmd.Flags(), &c)
	config.RegisterDemo(cmd.Flags(), &c)
	return cmd
}

// serve runs a server until the command's context ends. The flags of cmd write into flags.
func (m *Main) serve(cmd *cobra.Command, flags *config.Config, dev bool) error {
	c, err := m.complete(cmd, flags, dev)
	if err != nil {
		return usageError(err)
	}
	log, err := m.logger(c)
	if err != nil {
		return usageError(err)
	}
	deployments, err := m.deployments(c)
	if err != nil {
		return err
	}
	s, err := m.NewServer(c, deployments, log)
	if err != nil {
		return err
	}
	if dev {
		stop := m.announce(cmd.Context(), s, c)
		defer stop()
	}
	return s.Run(cmd.Context())
}

// complete reads the environment, derives and checks.
func (m *Main) complete(cmd *cobra.Command, flags *config.Config, dev bool) (config.Config, error) {
	if err := config.LoadEnv(cmd.Flags(), m.LookupEnv); err != nil {
		return config.Config{}, err
	}
	if !dev {
		if err := flags.RequireRedis(); err != nil {
			return config.Config{}, err
		}
	}
	c := flags.Complete()
	return c, c.Validate()
}

func (m *Main) logger(c config.Config) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	return telemetry.NewLogger(m.Stderr, level, c.LogFormat)
}

func (m *Main) deployments(c config.Config) ([]durable.Deployment, error) {
	if !c.Demo {
		return nil, nil
	}
	return demo.Deployments(demo.Params{Revision: c.Revision, Exit: m.Exit})
}

// announce prints where the server is and what to try, once it listens. The returned function waits until that is done or
// given up.
func (m *Main) announce(ctx context.Context, s Server, c config.Config) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-s.Listening():
			writeWelcome(m.Stdout, s.URL(), c)
		case <-ctx.Done():
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// writeWelcome is the one block that a newcomer reads. Its lines work as they are printed.
func writeWelcome(w io.Writer, url string, c config.Config) {
	store := "in memory: what is submitted is gone when this process ends"
	if c.Redis != "" {
		store = "in " + c.Redis.String()
	}
	welcome := strings.NewReplacer("{url}", url, "{store}", store)
	_, _ = welcome.WriteString(w, `
  Windrow is listening on {url}
  State is kept {store}

  Submit work, and follow it as it runs:

    curl -s {url}/v1/deployments/story/executions -H 'Content-Type: application/json' -d '{"input":{"chunks":60,"seconds":5}}'
    curl -N {url}/v1/executions/EXECUTION_ID/stream

  Or with this program:

    windrow submit story '{"chunks":60,"seconds":5}' --watch --server {url}
    windrow submit approval '{"question":"Ship it?"}' --server {url}
    windrow resume EXECUTION_ID '{"approved":true,"note":"yes"}' --server {url}

  Also there: echo, flaky and crash, {url}/status and {url}/openapi.yaml. Stop with Ctrl-C.

`) // a server does not end because nobody reads its welcome
}
