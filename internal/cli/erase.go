package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/windrow-run/windrow/api/client"
	"github.com/windrow-run/windrow/api/contract"
)

func (m *Main) eraseCommand() *cobra.Command {
	var flags bulkFlags
	cmd := &cobra.Command{
		Use: "erase ID | --owner OWNER --yes | FILTERS --dry-run|--yes", Short: "Remove an execution, or many, with everything they have",
		Long: "Remove an execution, all executions of an owner, or those that filters choose, with everything that belongs to them. Work under " +
			"way is ended. It can't be undone. The token must have the scope admin.\n\n--owner with nothing but --yes takes along what is " +
			"submitted meanwhile, until the owner has nothing left." + bulkHelp,
		Args: arguments(0, 1, "an id, or filters"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("owner") && flags.Owner == "" {
				return usageError(errors.New("--owner: it is empty"))
			}
			if err := flags.check(cmd, args); err != nil {
				return err
			}
			if len(args) == 0 && !flags.wholeOwner(cmd) {
				return m.bulk(cmd, client.ActionErase, "erased", flags, client.BulkOptions{})
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
				return m.tell(e, flags.json)
			}
			return m.eraseOwner(cmd, c, flags)
		},
	}
	flags.add(cmd, "erase")
	cmd.Flags().BoolVar(&flags.yes, "yes", false, "erase an owner, or what the filters choose, without being asked")
	return cmd
}

// wholeOwner reports whether an owner and nothing else is named, whose erasure is an operation of its own.
func (f *bulkFlags) wholeOwner(cmd *cobra.Command) bool {
	others := slices.DeleteFunc(append(filterNames(), "at-most"), func(name string) bool { return name == "owner" || !cmd.Flags().Changed(name) })
	return f.yes && f.Owner != "" && len(others) == 0
}

// eraseOwner goes on until nothing is left, and tells what is gone also where it can't go on.
func (m *Main) eraseOwner(cmd *cobra.Command, c *client.Client, flags bulkFlags) error {
	var all contract.Erased
	for {
		e, err := c.EraseOwner(cmd.Context(), flags.Owner)
		all.Executions += e.Executions
		all.Unfinished += e.Unfinished
		all.Keys += e.Keys
		all.Kept = e.Kept
		if err != nil || !e.More {
			return errors.Join(err, m.tell(all, flags.json))
		}
	}
}

// tell prints what is gone.
func (m *Main) tell(e contract.Erased, asJSON bool) error {
	if asJSON {
		return m.printJSON(e)
	}
	_, err := fmt.Fprintf(m.Stdout, "executions %d, unfinished %d, keys %d\n", e.Executions, e.Unfinished, e.Keys)
	if e.Kept > 0 {
		m.sayf("%d stay: a newer release has written them", e.Kept)
	}
	return err
}
