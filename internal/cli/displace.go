package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windrow-run/windrow/api/client"
	"github.com/windrow-run/windrow/api/contract"
)

func (m *Main) moveCommand() *cobra.Command {
	var how contract.MoveRequest
	cmd := &cobra.Command{
		Use: "move DEPLOYMENT REVISION --to REVISION", Short: "Move the work of a revision to another one",
		Long: "Move what of a revision is queued or waits for an answer to another revision of the deployment, until nothing is left. " +
			"Inputs are not checked against the other revision's schema. What runs is left to its worker. The token must have the scope admin.",
		Args: arguments(2, 2, "a deployment and a revision"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if how.To == "" {
				return usageError(errors.New("--to: it must name the revision to move to"))
			}
			return m.displace(cmd, how.DryRun, func(ctx context.Context, c *client.Client) (contract.Displaced, error) {
				return c.MoveRevision(ctx, args[0], args[1], how)
			})
		},
	}
	cmd.Flags().StringVar(&how.To, "to", "", "the revision to move to")
	cmd.Flags().BoolVar(&how.Force, "force", false, "also where no worker serves that revision")
	cmd.Flags().BoolVar(&how.DryRun, "dry-run", false, "only tell what is there")
	return cmd
}

func (m *Main) failCommand() *cobra.Command {
	var how contract.FailRequest
	cmd := &cobra.Command{
		Use: "fail DEPLOYMENT REVISION", Short: "Fail the work of a revision that nobody serves",
		Long: "End what of a revision is queued or waits for an answer as failed, with the code revision_unserved, until nothing is left. " +
			"It can't be undone. The token must have the scope admin.",
		Args: arguments(2, 2, "a deployment and a revision"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return m.displace(cmd, how.DryRun, func(ctx context.Context, c *client.Client) (contract.Displaced, error) {
				return c.FailRevision(ctx, args[0], args[1], how)
			})
		},
	}
	cmd.Flags().StringVar(&how.Reason, "reason", "", "why; clients are shown it")
	cmd.Flags().BoolVar(&how.Force, "force", false, "also where workers serve the revision")
	cmd.Flags().BoolVar(&how.DryRun, "dry-run", false, "only tell what is there")
	return cmd
}

// displace goes on until nothing is left, or nothing more is done, and tells how far it has come also where it can't go on.
func (m *Main) displace(cmd *cobra.Command, dry bool, once func(context.Context, *client.Client) (contract.Displaced, error)) error {
	c, err := m.clientOf(cmd)
	if err != nil {
		return err
	}
	var all contract.Displaced
	for {
		d, err := once(cmd.Context(), c)
		if err == nil {
			all = contract.Displaced{Executions: all.Executions + d.Executions, Remaining: d.Remaining, Running: d.Running}
		}
		if err != nil && all.Executions == 0 {
			return err
		}
		if err != nil || dry || d.Executions == 0 || d.Remaining == 0 {
			_, failed := fmt.Fprintf(m.Stdout, "executions %d, remaining %d, running %d\n", all.Executions, all.Remaining, all.Running)
			return errors.Join(err, failed)
		}
	}
}
