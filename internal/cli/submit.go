package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/windrow-run/windrow/api/client"
)

type submitFlags struct {
	client.SubmitOptions
	wait, watch bool
}

func (m *Main) submitCommand() *cobra.Command {
	var flags submitFlags
	cmd := &cobra.Command{
		Use: "submit DEPLOYMENT [JSON|-|@FILE]", Short: "Submit work and print its id",
		Long: "Submit work and print its id. The input is JSON: given as it is, read from standard input (-), or from a file " +
			"(@FILE); {} where there is none.",
		Args: arguments(1, 2, "a deployment and an input"),
		RunE: func(cmd *cobra.Command, args []string) error { return m.submit(cmd, args, flags) },
	}
	cmd.Flags().StringVar(&flags.Key, "key", "", "idempotency key: the same input with the same key is submitted once")
	cmd.Flags().StringVar(&flags.Owner, "owner", "", "whose it is (default: the token's)")
	cmd.Flags().StringVar(&flags.TraceParent, "traceparent", "", "W3C Trace Context that it belongs to")
	cmd.Flags().StringVar(&flags.TraceState, "tracestate", "", "what goes with --traceparent")
	cmd.Flags().StringToStringVar(&flags.Labels, "label", nil, "key=value to find it by; may be repeated")
	cmd.Flags().Int64Var(&flags.Priority, "priority", 0, "0 to 9: higher is started earlier")
	cmd.Flags().TimeVar(&flags.RunAt, "run-at", time.Time{}, []string{time.RFC3339Nano}, "not to be started before, such as 2030-01-31T08:00:00Z")
	cmd.Flags().DurationVar(&flags.Delay, "delay", 0, "not to be started before so much time has passed, such as 90m")
	cmd.Flags().DurationVar(&flags.QueueTTL, "queue-ttl", 0, "fail if no worker has taken it up after so much time, such as 10m")
	cmd.Flags().TimeVar(&flags.Deadline, "deadline", time.Time{}, []string{time.RFC3339Nano}, "fail if it has not ended by then")
	cmd.Flags().BoolVar(&flags.wait, "wait", false, "wait for the end and print the result")
	cmd.Flags().BoolVar(&flags.watch, "watch", false, "show what happens until the end, as watch does")
	return cmd
}

func (m *Main) submit(cmd *cobra.Command, args []string, flags submitFlags) error {
	if flags.wait && flags.watch {
		return usageError(errors.New("--wait and --watch don't go together"))
	}
	if err := checkKey(cmd); err != nil {
		return err
	}
	input, err := m.document(args[1:])
	if err != nil {
		return err
	}
	c, err := m.clientOf(cmd)
	if err != nil {
		return err
	}
	e, err := c.Submit(cmd.Context(), args[0], input, &flags.SubmitOptions)
	if err != nil {
		return err
	}
	if !flags.wait && !flags.watch {
		_, err := fmt.Fprintln(m.Stdout, e.ExecutionID)
		return err
	}
	m.sayf("%s", e.ExecutionID)
	return m.follow(cmd.Context(), c, e.ExecutionID, flags.wait)
}
