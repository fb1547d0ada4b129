package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/internal/config"
	"github.com/windrow-run/windrow/internal/demo"
	"github.com/windrow-run/windrow/internal/telemetry"
)

func (m *Main) addServer(root *cobra.Command) {
	root.AddCommand(m.devCommand(), m.serveCommand(), m.doctorCommand(), m.benchCommand(), m.keysCommand())
}

func (m *Main) devCommand() *cobra.Command {
	c := config.Default()
	c.Demo = len(m.Deployments) == 0
	cmd := &cobra.Command{
		Use: "dev", Short: "Try it out: a server in memory, or on the Redis that --redis names",
		Long: "Try it out: a server that keeps its state in memory, or in the Redis or Valkey that --redis names.\n" +
			"It serves the program's own deployments, or else the demo deployments.",
		GroupID: "server", Args: arguments(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return m.serve(cmd, &c, true) },
	}
	config.Register(cmd.Flags(), &c)
	return cmd
}

func (m *Main) serveCommand() *cobra.Command {
	c := config.Default()
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve on Redis or Valkey, for production",
		Long: "Serve on Redis or Valkey, for production: " + config.EnvName("redis") + " or --redis says where it is.\n" +
			"Every setting is a flag or, better for secrets, the variable in brackets; the flag wins.",
		GroupID: "server", Args: arguments(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return m.serve(cmd, &c, false) },
	}
	config.Register(cmd.Flags(), &c)
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
	deployments, err := m.deployments(c, log)
	if err != nil {
		return err
	}
	if len(deployments) == 0 {
		log.Warn("this program serves no deployment, so nothing can be submitted to it; --demo serves the demo deployments")
	}
	s, err := m.NewServer(c, deployments, log)
	if _, ok := errors.AsType[*config.Problem](err); ok {
		return usageError(err)
	}
	if err != nil {
		return err
	}
	if dev {
		stop := m.announce(cmd.Context(), s, c, deployments)
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

// deployments are the program's own, and the demo where it is asked for.
func (m *Main) deployments(c config.Config, log *slog.Logger) ([]durable.Deployment, error) {
	if !c.Demo {
		return m.Deployments, nil
	}
	exit := func(code int) {
		log.Warn("the demo deployment crash ends this process, as it was asked to", "exit_code", code)
		m.Exit(code)
	}
	all, err := demo.Deployments(demo.Params{Revision: c.Revision, Exit: exit})
	if err != nil {
		return nil, err
	}
	return slices.Concat(m.Deployments, all), nil
}

// announce prints where the server is and what to try, once it listens. The returned function waits until that is done or
// given up.
func (m *Main) announce(ctx context.Context, s Server, c config.Config, served []durable.Deployment) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-s.Listening():
			writeWelcome(m.Stdout, m.program(), s.URL(), c, served)
		case <-ctx.Done():
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
