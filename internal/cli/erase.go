package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windrow-run/windrow/api/client"
	"github.com/windrow-run/windrow/api/contract"
)

func (m *Main) eraseCommand() *cobra.Command {
	var owner string
	var sure bool
	cmd := &cobra.Command{
		Use: "erase ID | --owner OWNER --yes", Short: "Remove an execution, or all of an owner, with everything they have",
		Long: "Remove an execution, or all executions of an owner, with everything that belongs to them. Work under way is ended. " +
			"It can't be undone. The token must have the scope admin.",
		Args: arguments(0, 1, "an id, or --owner"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case (len(args) == 1) == cmd.Flags().Changed("owner"):
				return usageError(errors.New("erase takes either an id or --owner"))
			case len(args) == 0 && owner == "":
				return usageError(errors.New("--owner: it is empty"))
			case len(args) == 0 && !sure:
				return usageError(errors.New("--owner erases all executions of the owner, also those that run: add --yes"))
			}
			c, err := m.clientOf(cmd)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				e, err := c.Erase(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return m.tell(e)
			}
			return m.eraseOwner(cmd, c, owner)
		},
	}
	cmd.Flags().StringVar(&owner, "owner", "", "erase all executions of this owner")
	cmd.Flags().BoolVar(&sure, "yes", false, "erase an owner without being asked")
	return cmd
}

// eraseOwner goes on until nothing is left, and tells what is gone also where it can't go on.
func (m *Main) eraseOwner(cmd *cobra.Command, c *client.Client, owner string) error {
	var all contract.Erased
	for {
		e, err := c.EraseOwner(cmd.Context(), owner)
		all.Executions += e.Executions
		all.Unfinished += e.Unfinished
		all.Keys += e.Keys
		all.Kept = e.Kept
		if err != nil || !e.More {
			return errors.Join(err, m.tell(all))
		}
	}
}

// tell prints what is gone.
func (m *Main) tell(e contract.Erased) error {
	_, err := fmt.Fprintf(m.Stdout, "executions %d, unfinished %d, keys %d\n", e.Executions, e.Unfinished, e.Keys)
	if e.Kept > 0 {
		m.sayf("%d stay: a newer release has written them", e.Kept)
	}
	return err
}
