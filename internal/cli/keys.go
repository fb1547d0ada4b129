package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/windrow-run/windrow/internal/auth"
)

func (m *Main) keysCommand() *cobra.Command {
	keys := &cobra.Command{Use: "keys", Short: "Make API keys", GroupID: "server", Args: arguments(0, 0, "a command"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	keys.AddCommand(m.newKeyCommand())
	return keys
}

func (m *Main) newKeyCommand() *cobra.Command {
	var entry auth.KeyEntry
	var scopes []string
	var lifetime time.Duration
	cmd := &cobra.Command{
		Use: "new", Short: "Make an API key and the line that lists it", Args: arguments(0, 0, "no arguments"),
		Long: "Make an API key and the line that lists it. The line goes to standard output, to be appended to the file that the\n" +
			"server's --api-keys-file names, whose first line is \"keys:\". It holds no secret. The key goes to standard error, and\n" +
			"is not shown again.",
		Example: "  echo keys: >keys.yaml\n  windrow keys new --scopes submit,read,resume --owner acme >>keys.yaml",
		RunE: func(*cobra.Command, []string) error {
			for _, s := range scopes {
				entry.Scopes = append(entry.Scopes, auth.Scope(s))
			}
			if lifetime < 0 {
				return usageError(errors.New("--lifetime: it must not be negative"))
			}
			if lifetime > 0 {
				expires := time.Now().Add(lifetime)
				entry.Expires = &expires
			}
			return m.newKey(entry)
		},
	}
	cmd.Flags().StringSliceVar(&scopes, "scopes", nil, "what it may do: submit, read, resume, worker, admin")
	cmd.Flags().StringVar(&entry.Owner, "owner", "", "whose executions it makes, and the only ones it sees (empty: everybody's)")
	cmd.Flags().StringSliceVar(&entry.Deployments, "deployments", nil, "the only ones that it may use (none: all)")
	cmd.Flags().DurationVar(&lifetime, "lifetime", 0, "after which it expires, such as 2160h (0: never)")
	cmd.Flags().StringVar(&entry.Note, "note", "", "for people")
	return cmd
}

func (m *Main) newKey(entry auth.KeyEntry) error {
	key, id := auth.NewKey()
	entry.ID, entry.Hash = id, auth.HashKey(key)
	if err := entry.Check(); err != nil {
		return usageError(err)
	}
	m.sayf("The key, which is not shown again:\n\n  %s\n", key)
	_, err := fmt.Fprintln(m.Stdout, entry.Line())
	return err
}
