package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/windrow-run/windrow/internal/config"
	"github.com/windrow-run/windrow/internal/server"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/redis"
	"github.com/windrow-run/windrow/internal/telemetry"
)

// Exit codes of doctor.
const (
	exitFindings  = 1
	exitUnchecked = 2 // also where the command line is wrong: nothing was checked
)

type doctorFlags struct {
	repair, asJSON bool
	rate           int
}

func (m *Main) doctorCommand() *cobra.Command {
	c := config.Default()
	c.Partitions = 0
	var flags doctorFlags
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check what a namespace holds in Redis, and repair it",
		Long: "Check what a namespace holds in Redis or Valkey, while servers work on it, and repair it with --repair.\n" +
			"Exit with 0 if it is healthy, with 1 if something was found that is not repaired, with 2 if it could not be checked.",
		GroupID: "server", Args: arguments(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := m.doctor(cmd, &c, flags)
			if _, coded := errors.AsType[*codedError](err); err == nil || coded {
				return err
			}
			return &codedError{exitUnchecked, err}
		},
	}
	cmd.Flags().BoolVar(&flags.repair, "repair", false, "repair what can be repaired")
	cmd.Flags().BoolVar(&flags.asJSON, "json", false, "print JSON in place of a table")
	cmd.Flags().IntVar(&flags.rate, "rate", 5000, "keys a second to look at, at most, 1 to 1000000")
	config.RegisterDoctor(cmd.Flags(), &c)
	return cmd
}

func (m *Main) doctor(cmd *cobra.Command, c *config.Config, flags doctorFlags) error {
	if err := config.LoadEnv(cmd.Flags(), m.LookupEnv); err != nil {
		return err
	}
	*c = c.Complete()
	if err := cmp.Or(c.RequireRedis(), c.ValidateDoctor()); err != nil {
		return err
	}
	if flags.rate < 1 || flags.rate > 1_000_000 {
		return fmt.Errorf("--rate: %d is not between 1 and 1000000", flags.rate)
	}
	at, err := server.RedisConfig(*c)
	if err != nil {
		return err
	}
	at.Limits = store.Limits{TerminalTTL: c.TerminalTTL, StreamTTL: c.StreamTTL}
	how := redis.Diagnosis{Repair: flags.repair, Rate: flags.rate, Partitions: c.Partitions, Lease: c.Lease}
	if telemetry.IsTerminal(m.Stderr) {
		how.Progress = m.progress
	}
	report, err := redis.Diagnose(cmd.Context(), at, how)
	if how.Progress != nil {
		m.sayf("")
	}
	if wrong, ok := errors.AsType[*redis.SettingError](err); ok {
		return server.RedisProblem(*c, wrong)
	}
	if err != nil {
		return err
	}
	if err := m.show(report, flags); err != nil {
		return err
	}
	if !report.Healthy() {
		return &codedError{exitFindings, nil}
	}
	if len(report.Unverified) > 0 {
		return errors.New("some counters could not be verified: try again when their deployments are less busy, or at a higher --rate")
	}
	return nil
}

// progress overwrites one line of the terminal.
func (m *Main) progress(step string, keys int64) {
	_, _ = fmt.Fprintf(m.Stderr, "\r%s: %d looked at", step, keys) // a check goes on where nobody looks
}

func (m *Main) show(r redis.Report, flags doctorFlags) error {
	if flags.asJSON {
		e := json.NewEncoder(m.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return writeReport(m.Stdout, r, flags.repair)
}

// writeReport writes a line for each kind of finding, its samples and its remedy.
func writeReport(w io.Writer, r redis.Report, repaired bool) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%d keys in %s of namespace %s\n", r.Keys, plural(r.Partitions, "partition"), r.Prefix)
	if len(r.Findings) > 0 {
		writeFindings(&out, r.Findings, repaired)
	}
	for _, name := range r.Unverified {
		fmt.Fprintf(&out, "not verified: counter %s\n", name)
	}
	if r.Healthy() && len(r.Unverified) == 0 {
		fmt.Fprintln(&out, "healthy")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// writeFindings adds to out, which takes everything.
func writeFindings(out *strings.Builder, findings []redis.Finding, repaired bool) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "\nCODE\tFOUND\tLEFT\tREMEDY")
	for _, f := range findings {
		left := "-"
		if repaired {
			left = strconv.Itoa(f.Left)
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", f.Code, f.Count, left, f.Remedy)
	}
	_ = table.Flush()
	for _, f := range findings {
		fmt.Fprintf(out, "\n%s:\n", f.Code)
		for _, sample := range f.Samples {
			fmt.Fprintf(out, "  %s\n", sample)
		}
		if more := f.Count - len(f.Samples); more > 0 {
			fmt.Fprintf(out, "  and %d more\n", more)
		}
	}
	fmt.Fprintln(out)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
