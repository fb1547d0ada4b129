package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/windrow-run/windrow/internal/telemetry"
)

func (m *Main) healthCommand() *cobra.Command {
	var probe string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "health", Short: "Exit with 0 if a server is ready, else with 1", Args: arguments(0, 0, "no arguments"),
		Long: "Ask a server whether it is ready, or whatever else --url names, such as http://127.0.0.1:8080/livez.\n" +
			"Exit with 0 if it answers 200, else with 1. Made for the health checks of containers.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return ask(ctx, probe)
		},
	}
	cmd.Flags().StringVar(&probe, "url", m.defaultServer(), "what to ask; /readyz where it has no path ["+serverEnv+"]")
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for the answer")
	return cmd
}

func ask(ctx context.Context, probe string) error {
	u, err := url.Parse(probe)
	if err != nil || u.Host == "" {
		return usageError(fmt.Errorf("--url: it must be a URL such as %s/readyz", defaultServer))
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/readyz"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return usageError(err)
	}
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 2000)) // only to say more
		return fmt.Errorf("%s answers %s %s", u.Redacted(), resp.Status, body)
	}
	return nil
}

func (m *Main) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: arguments(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(m.Stdout, version())
			return err
		},
	}
}

// version tells the module's version and the commit that the program was built from.
func version() string {
	name, commit := telemetry.Build()
	return fmt.Sprintf("windrow %s (commit %s) %s %s/%s", name, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
