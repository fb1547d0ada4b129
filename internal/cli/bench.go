package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windrow-run/windrow/internal/bench"
	"github.com/windrow-run/windrow/internal/config"
)

// benchFlags are those that every benchmark has.
type benchFlags struct {
	bench.Params
	asJSON, strict bool
}

func (m *Main) benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure what it costs, and hold it against the budgets", GroupID: "server",
		Long: "Measure what it costs, and hold it against the budgets.\n\n" +
			"Each benchmark starts a redis-server of its own from the PATH, on loopback and without persistence, or uses the one that --redis " +
			"names, under a prefix of its own whose keys it removes. Commands and CPU time of that server are all counted, so nothing else " +
			"should use it.\n\n" +
			"Counts come out the same on any machine; times are those of this one, and worth as much as it is quiet. Exit with 0 if every " +
			"count is within its budget, with 1 if one is not, with --strict also where a ratio or a time is beyond its limit.",
		Args: arguments(0, 0, "the name of a benchmark"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, b := range bench.All() {
		cmd.AddCommand(m.oneBench(b))
	}
	cmd.AddCommand(&cobra.Command{Use: "process", Hidden: true, Args: arguments(0, 0, "no arguments"),
		Short: "Be a process of a benchmark", RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.Child(cmd.Context(), m.Stdin, m.Stdout)
		}})
	return cmd
}

func (m *Main) oneBench(b bench.Bench) *cobra.Command {
	var flags benchFlags
	cmd := &cobra.Command{
		Use: b.Name, Short: b.Short, Long: b.Short + ".\n\n" + b.Long, Args: arguments(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return m.bench(cmd, b, flags) },
	}
	f := cmd.Flags()
	f.StringVar(&flags.Redis, "redis", "", "URL of a Redis or Valkey that nothing else uses; default: one of its own ["+config.EnvName("bench-redis")+"]")
	f.BoolVar(&flags.Short, "short", false, "a form of less than half a minute, with budgets of its own")
	f.IntVar(&flags.Runs, "runs", 1, "measure so often, and show median and spread")
	f.BoolVar(&flags.asJSON, "json", false, "print JSON in place of a table")
	f.BoolVar(&flags.strict, "strict", false, "fail also where a ratio or a time is beyond its limit")
	addBenchFlags(f, b.Name, &flags.Params)
	return cmd
}

func (m *Main) bench(cmd *cobra.Command, b bench.Bench, flags benchFlags) error {
	if flags.Runs < 1 || flags.Runs > 1000 {
		return usageError(fmt.Errorf("--runs: %d is not between 1 and 1000", flags.Runs))
	}
	if p := flags.Params; min(p.Executions, p.Count, p.Slots, p.Viewers, p.Stored) < 0 || p.Watch < 0 {
		return usageError(errors.New("a number is below 0"))
	}
	if url, ok := m.LookupEnv(config.EnvName("bench-redis")); ok && !cmd.Flags().Changed("redis") {
		flags.Redis = url
	}
	flags.Progress = m.sayf
	report, err := b.Run(cmd.Context(), flags.Params)
	if err != nil {
		return err
	}
	if flags.asJSON {
		err = report.WriteJSON(m.Stdout)
	} else {
		err = report.WriteTable(m.Stdout)
	}
	if err != nil {
		return err
	}
	over := report.Over(flags.strict)
	for _, what := range over {
		m.sayf("over budget: %s", what)
	}
	if len(over) > 0 {
		return &codedError{exitError, nil}
	}
	return nil
}

// addBenchFlags adds what only some benchmarks know. Zero is each one's default.
func addBenchFlags(f *pflag.FlagSet, name string, p *bench.Params) {
	switch name {
	case "standard":
		f.IntVar(&p.Executions, "executions", 0, "so many at once; default 1")
		f.BoolVar(&p.Compress, "compress", false, "compress large payloads and chunks in Redis, of random words")
		f.BoolVar(&p.Words, "words", false, "random words in place of repeated letters")
	case "throughput", "growth":
		f.IntVar(&p.Count, "count", 0, "executions of a case, or of a turn; default 3000, or 2000")
		f.IntVar(&p.Slots, "slots", 0, "attempts at once, a process; default one a CPU")
		f.StringVar(&p.Only, "only", "", "cases whose name has this in it, such as \"noop, 64\" or \"stored\"")
	case "idle":
		f.DurationVar(&p.Watch, "watch", 0, "look for so long; default 30s")
	case "viewers":
		f.DurationVar(&p.Watch, "watch", 0, "look for so long; default 30s")
		f.IntVar(&p.Viewers, "viewers", 0, "how many; default 10000")
	}
	if name == "memory" || name == "growth" {
		f.IntVar(&p.Stored, "stored", 0, "executions that are stored; default 100000")
	}
}
