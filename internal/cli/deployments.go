package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/windrow-run/windrow/api/client"
	"github.com/windrow-run/windrow/api/contract"
)

func (m *Main) deploymentsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "deployments [NAME]", Short: "Show deployments, their revisions, and who serves them",
		Long: "Show deployments, a line for each revision: what waits, what runs, and how many processes serve it. " +
			"A revision that has work and no worker says so.",
		Args: arguments(0, 1, "a deployment's name, or nothing"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := m.clientOf(cmd)
			if err != nil {
				return err
			}
			out := tabwriter.NewWriter(m.Stdout, 0, 0, 2, ' ', 0)
			if !asJSON {
				_, _ = fmt.Fprintln(out, "DEPLOYMENT\tREVISION\tSERVED\tWORKERS\tREADY\tDELAYED\tRUNNING\tWAITING\tOLDEST") // kept until Flush
			}
			show := func(d client.Deployment) error {
				if asJSON {
					_, err := fmt.Fprintf(m.Stdout, "%s\n", d.Raw)
					return err
				}
				return showRevisions(out, d, time.Now())
			}
			if len(args) == 1 {
				d, err := c.Deployment(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return errors.Join(show(d), out.Flush())
			}
			for d, err := range c.Deployments(cmd.Context()) {
				if err == nil {
					err = show(d)
				}
				if err != nil {
					return errors.Join(out.Flush(), err)
				}
			}
			return out.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, a line each")
	return cmd
}

// showRevisions writes a line for each revision of a deployment.
func showRevisions(table io.Writer, d client.Deployment, now time.Time) error {
	for _, r := range d.Revisions {
		served := "no"
		switch {
		case r.Stranded:
			served = "no worker for this revision"
		case r.Served:
			served = "yes"
		}
		workers, ready, delayed, running, waiting, oldest := "-", "-", "-", "-", "-", "-"
		if r.Workers != nil {
			workers = decimal(*r.Workers)
		}
		if b := r.Backlog; b != nil {
			ready, delayed, running, waiting = decimal(b.Ready), decimal(b.Delayed), decimal(b.Running), decimal(b.Waiting)
			oldest = age(b.OldestReadyAt, now)
		}
		line := []string{d.Name, r.Revision, served, workers, ready, delayed, running, waiting, oldest}
		if _, err := fmt.Fprintln(table, strings.Join(line, "\t")); err != nil {
			return err
		}
	}
	return nil
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// age is how long ago a time was; "-" where there is none.
func age(since *contract.Timestamp, now time.Time) string {
	if since == nil {
		return "-"
	}
	return max(now.Sub(since.Time), 0).Truncate(time.Second).String()
}
