package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/windrow-run/windrow/api/client"
	"github.com/windrow-run/windrow/api/contract"
)

// filterFlags choose executions.
type filterFlags struct {
	client.ListOptions
	statuses    []string
	since       time.Duration
	from, until string
}

type listFlags struct {
	filterFlags
	limit int
	json  bool
}

func (f *filterFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Deployment, "deployment", "", "only those of this deployment")
	flags.StringVar(&f.Revision, "revision", "", "only those of revisions of this name")
	flags.StringSliceVar(&f.statuses, "status", nil, "only those that are queued, running, waiting, completed, failed or canceled; may be repeated")
	flags.StringVar(&f.Owner, "owner", "", "only those of this owner")
	flags.StringToStringVar(&f.Labels, "label", nil, "only those with this key=value; may be repeated")
	flags.DurationVar(&f.since, "since", 0, "only those submitted within this time, such as 24h")
	flags.StringVar(&f.from, "from", "", "only those submitted at this time or later, such as 2026-03-01T09:30:00Z")
	flags.StringVar(&f.until, "before", "", "only those submitted before this time")
}

func (m *Main) listCommand() *cobra.Command {
	var flags listFlags
	cmd := &cobra.Command{
		Use: "list", Short: "List executions, the newest first", Args: arguments(0, 0, "no arguments"),
		Long: "List executions, the newest first: a table, or with --json one JSON document a line. What several flags name must all fit.",
		RunE: func(cmd *cobra.Command, _ []string) error { return m.list(cmd, flags) },
	}
	flags.add(cmd)
	f := cmd.Flags()
	f.IntVar(&flags.limit, "limit", 50, "how many at most (0: all)")
	f.BoolVar(&flags.json, "json", false, "print JSON, a line each")
	return cmd
}

func (m *Main) list(cmd *cobra.Command, flags listFlags) error {
	if err := flags.complete(time.Now()); err != nil {
		return usageError(err)
	}
	if flags.limit < 0 {
		return usageError(errors.New("--limit must not be negative"))
	}
	flags.Page = 200
	if flags.limit > 0 {
		flags.Page = min(flags.limit, flags.Page)
	}
	c, err := m.clientOf(cmd)
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(m.Stdout, 0, 0, 2, ' ', 0)
	if !flags.json {
		_, _ = fmt.Fprintln(out, "ID\tDEPLOYMENT\tREVISION\tSTATUS\tATTEMPT\tCREATED\tLABELS") // kept until Flush
	}
	n := 0
	for item, err := range c.List(cmd.Context(), &flags.ListOptions) {
		if err != nil {
			return errors.Join(out.Flush(), err)
		}
		if err := show(m.Stdout, out, item, flags.json); err != nil {
			return err
		}
		if n++; n == flags.limit {
			break
		}
	}
	return out.Flush()
}

// complete reads what the flags say in words.
func (f *filterFlags) complete(now time.Time) error {
	for _, status := range f.statuses {
		f.Statuses = append(f.Statuses, contract.ExecutionStatus(status))
	}
	for _, bound := range []struct {
		name, text string
		into       *time.Time
	}{{"--from", f.from, &f.CreatedFrom}, {"--before", f.until, &f.CreatedBefore}} {
		if bound.text == "" {
			continue
		}
		t, err := time.Parse(time.RFC3339, bound.text)
		if err != nil {
			return fmt.Errorf("%s: it must be a time such as 2026-03-01T09:30:00Z", bound.name)
		}
		*bound.into = t
	}
	switch {
	case f.since < 0:
		return errors.New("--since must not be negative")
	case f.since > 0 && f.from != "":
		return errors.New("--since and --from don't go together")
	case f.since > 0:
		f.CreatedFrom = now.Add(-f.since)
	}
	return nil
}

func show(plain io.Writer, table io.Writer, item client.Summary, asJSON bool) error {
	if asJSON {
		_, err := fmt.Fprintf(plain, "%s\n", item.Raw)
		return err
	}
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(item.Labels)) {
		labels = append(labels, key+"="+item.Labels[key])
	}
	_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", item.ExecutionID, item.Deployment, item.Revision, item.Status, item.Attempt,
		item.CreatedAt.Format(time.RFC3339), strings.Join(labels, ","))
	return err
}
