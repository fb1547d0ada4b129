package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/windrow-run/windrow/api/client"
	"github.com/windrow-run/windrow/api/contract"
)

func (m *Main) historyCommand() *cobra.Command {
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use: "history ID", Short: "Show how an execution got where it is", Args: arguments(1, 1, "an id"),
		Long: "Show the submission of an execution and the newest transitions after it, oldest first: a table, or with --json the document.\n" +
			"Names of clients and workers take a token with the scope admin.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := m.clientOf(cmd)
			if err != nil {
				return err
			}
			h, err := c.History(cmd.Context(), args[0], limit)
			if err != nil {
				return err
			}
			return m.history(h, asJSON)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "how many entries at most, 2 to 100 (0: all that are kept)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (m *Main) history(h client.History, asJSON bool) error {
	if asJSON {
		var b bytes.Buffer
		if err := json.Indent(&b, h.Raw, "", "  "); err != nil {
			return fmt.Errorf("the answer is not JSON: %w", err)
		}
		_, err := fmt.Fprintln(m.Stdout, b.String())
		return err
	}
	out := tabwriter.NewWriter(m.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(out, "AT\tSTATUS\tATTEMPT\tCAUSE\tBY") // kept until Flush
	for i, e := range h.Entries {
		if i == 1 && h.Omitted > 0 {
			_, _ = fmt.Fprintf(out, "(%d omitted)\t\t\t\t\n", h.Omitted)
		}
		_, _ = fmt.Fprintf(out, "%s\t%s\t%d\t%s\t%s\n", e.At.UTC().Format("2006-01-02T15:04:05.000Z"), e.Status, e.Attempt, causeOf(e), actorOf(e.Actor))
	}
	return out.Flush()
}

// causeOf is why a transition was made, in a few words.
func causeOf(e contract.HistoryEntry) string {
	text := string(e.Cause)
	if e.Code != nil {
		text += ": " + *e.Code
	}
	if e.Times > 1 {
		text += fmt.Sprintf(" (%d times)", e.Times)
	}
	return text
}

func actorOf(a contract.Actor) string {
	if a.Name == nil {
		return string(a.Kind)
	}
	return string(a.Kind) + " " + *a.Name
}
