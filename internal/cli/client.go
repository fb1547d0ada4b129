package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windrow-run/windrow/api/client"
)

const (
	serverEnv     = "WINDROW_SERVER"
	defaultServer = "http://127.0.0.1:8080"
	tokenEnv      = "WINDROW_TOKEN" //nolint:gosec // the name of a variable
)

func (m *Main) addClient(root *cobra.Command) {
	for _, cmd := range []*cobra.Command{
		m.submitCommand(), m.getCommand(), m.listCommand(), m.deploymentsCommand(), m.moveCommand(), m.failCommand(), m.historyCommand(),
		m.watchCommand(), m.resumeCommand(), m.cancelCommand(), m.retryCommand(), m.eraseCommand(),
		m.payloadCommand("result", "Print what an execution came to", (*client.Client).Result),
		m.payloadCommand("input", "Print what an execution was submitted with", (*client.Client).Input),
	} {
		cmd.GroupID = "client"
		cmd.Flags().String("server", m.defaultServer(), "URL of the server ["+serverEnv+"]")
		cmd.Flags().String("token", "", "API key or JWT; as a variable it stays out of process lists ["+tokenEnv+"]")
		cmd.RunE = m.withHint(cmd.RunE)
		root.AddCommand(cmd)
	}
}

// withHint says what to do where nothing listens, or where what listens wants to know who asks.
func (m *Main) withHint(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if lost, ok := errors.AsType[*net.OpError](err); ok && lost.Op == "dial" && cmd.Context().Err() == nil {
			return fmt.Errorf("%w\n  `%s dev` starts a server; --server or %s says where another one is", err, m.program(), serverEnv)
		}
		if refused, ok := errors.AsType[*client.Problem](err); ok && refused.Status == http.StatusUnauthorized {
			return fmt.Errorf("%w\n  --token or %s names an API key or a JWT", err, tokenEnv)
		}
		return err
	}
}

func (m *Main) defaultServer() string {
	if url, ok := m.LookupEnv(serverEnv); ok && url != "" {
		return url
	}
	return defaultServer
}

// token is what the flag names, or else the variable.
func (m *Main) token(cmd *cobra.Command) (string, error) {
	token, err := cmd.Flags().GetString("token")
	if err != nil || token != "" {
		return token, err
	}
	token, _ = m.LookupEnv(tokenEnv)
	return strings.TrimSpace(token), nil
}

func (m *Main) clientOf(cmd *cobra.Command) (*client.Client, error) {
	server, err := cmd.Flags().GetString("server")
	if err != nil {
		return nil, err
	}
	token, err := m.token(cmd)
	if err != nil {
		return nil, err
	}
	c, err := client.New(server, &client.Options{Token: token})
	if err != nil {
		return nil, usageError(fmt.Errorf("--server (%s): it must be a URL such as %s", serverEnv, defaultServer))
	}
	return c, nil
}

func (m *Main) getCommand() *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use: "get ID", Short: "Print an execution as it stands", Args: arguments(1, 1, "an id"),
		Long: "Print an execution as it stands. With --wait, as it ended, and the exit code says how: 0 completed, 3 failed, 4 canceled.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := m.clientOf(cmd)
			if err != nil {
				return err
			}
			get := c.Get
			if wait {
				get = c.Wait
			}
			e, err := get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := m.print(e); err != nil || !wait {
				return err
			}
			return outcome(e)
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for the end, however long that takes")
	return cmd
}

// payloadCommand prints a payload as it is stored.
func (m *Main) payloadCommand(
	name, short string, get func(*client.Client, context.Context, string) (json.RawMessage, error),
) *cobra.Command {
	return &cobra.Command{
		Use: name + " ID", Short: short, Args: arguments(1, 1, "an id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := m.clientOf(cmd)
			if err != nil {
				return err
			}
			payload, err := get(c, cmd.Context(), args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(m.Stdout, "%s\n", payload)
			return err
		},
	}
}

func (m *Main) resumeCommand() *cobra.Command {
	var opts client.ResumeOptions
	cmd := &cobra.Command{
		Use: "resume ID JSON|-|@FILE", Short: "Answer a waiting execution", Args: arguments(2, 2, "an id and an answer"),
		Long: "Answer a waiting execution with JSON: given as it is, read from standard input (-), or from a file (@FILE).",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkKey(cmd); err != nil {
				return err
			}
			answer, err := m.document(args[1:])
			if err != nil {
				return err
			}
			c, err := m.clientOf(cmd)
			if err != nil {
				return err
			}
			e, err := c.Resume(cmd.Context(), args[0], answer, &opts)
			if err != nil {
				return err
			}
			return m.print(e)
		},
	}
	cmd.Flags().StringVar(&opts.Key, "key", "", "idempotency key: the same answer with the same key is applied once")
	cmd.Flags().Int64Var(&opts.Sequence, "sequence", 0, "the wait that the answer is for (0: whichever is open)")
	return cmd
}

func (m *Main) cancelCommand() *cobra.Command {
	var reason string
	var flags bulkFlags
	cmd := &cobra.Command{
		Use: "cancel ID | FILTERS --dry-run|--yes", Short: "Ask an execution, or many, to stop", Args: arguments(0, 1, "an id"),
		Long: "Ask an execution to stop, and print it as it then stands." + bulkHelp,
		Example: "  windrow cancel 4YtGzq0XnJ2rVb8mKd7Lw1Qs --reason 'the order was withdrawn'\n" +
			"  windrow cancel --deployment story --status queued --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.check(cmd, args); err != nil {
				return err
			}
			if len(args) == 0 {
				return m.bulk(cmd, client.ActionCancel, "canceled", flags, client.BulkOptions{Reason: reason})
			}
			c, err := m.clientOf(cmd)
			if err != nil {
				return err
			}
			e, err := c.Cancel(cmd.Context(), args[0], reason)
			if err != nil {
				return err
			}
			return m.print(e)
		},
	}
	flags.add(cmd, "cancel")
	cmd.Flags().BoolVar(&flags.yes, "yes", false, "cancel what the filters choose")
	cmd.Flags().StringVar(&reason, "reason", "", "why; kept with the execution")
	return cmd
}

// print shows an execution as the server sent it, indented.
func (m *Main) print(e client.Execution) error {
	var b bytes.Buffer
	if err := json.Indent(&b, e.Raw, "", "  "); err != nil {
		return fmt.Errorf("the answer is not JSON: %w", err)
	}
	_, err := fmt.Fprintln(m.Stdout, b.String())
	return err
}

// document reads a JSON argument: as it is, from standard input, or from a file. Without one it is {}. Whatever JSON it
// is goes to the server byte for byte.
func (m *Main) document(args []string) (json.RawMessage, error) {
	data, err := m.argument(args)
	if err != nil {
		return nil, err
	}
	switch {
	case json.Valid(data):
		return data, nil
	case args[0] == "-":
		return nil, usageError(errors.New("what standard input holds is not JSON"))
	case strings.HasPrefix(args[0], "@"):
		return nil, usageError(fmt.Errorf("what %s holds is not JSON", args[0][1:]))
	}
	return nil, usageError(errors.New("the argument is not JSON: quote it for the shell, as in '{\"chunks\": 60}'"))
}

// checkKey refuses an idempotency key that is given but empty: a script whose variable is not set would otherwise lose its
// protection without a word.
func checkKey(cmd *cobra.Command) error {
	if f := cmd.Flags().Lookup("key"); f.Changed && f.Value.String() == "" {
		return usageError(errors.New("--key: the key is empty: name one, or leave the flag out"))
	}
	return nil
}

func (m *Main) argument(args []string) ([]byte, error) {
	switch {
	case len(args) == 0:
		return []byte("{}"), nil
	case args[0] == "-":
		return io.ReadAll(m.Stdin)
	case strings.HasPrefix(args[0], "@"):
		return os.ReadFile(args[0][1:])
	}
	return []byte(args[0]), nil
}
