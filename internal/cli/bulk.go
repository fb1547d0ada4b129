package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windrow-run/windrow/api/client"
	"github.com/windrow-run/windrow/api/contract"
)

// bulkFlags say which executions are meant where no id does.
type bulkFlags struct {
	filterFlags
	all, dryRun, yes, json bool
	atMost                 int64
}

// filterNames are the flags that choose executions.
func filterNames() []string {
	return []string{"deployment", "revision", "status", "owner", "label", "since", "from", "before", "all"}
}

const bulkHelp = "\n\nIn place of an id, the filters of list choose executions, or --all does; what several flags name must all fit. --dry-run counts them. " +
	"--yes counts them and then goes on, with those that were counted and no others; with --at-most, only if they are not more. " +
	"Progress goes to standard error. The exit code is 1 where something failed. " +
	"A token that is not limited to an owner must have the scope admin."

func (f *bulkFlags) add(cmd *cobra.Command, verb string) {
	f.filterFlags.add(cmd)
	cmd.Flags().BoolVar(&f.all, "all", false, verb+" all executions that can be")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only count what the filters choose")
	cmd.Flags().Int64Var(&f.atMost, "at-most", -1, "with --yes: do nothing if more are counted (-1: however many)")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
}

// chosen reports whether a filter is given.
func chosen(cmd *cobra.Command) bool {
	return slices.ContainsFunc(filterNames(), func(name string) bool { f := cmd.Flags().Lookup(name); return f != nil && f.Changed })
}

// check refuses what can't be meant: ids together with filters, or neither.
func (f *bulkFlags) check(cmd *cobra.Command, args []string) error {
	switch by := chosen(cmd); {
	case by && len(args) > 0:
		return usageError(fmt.Errorf("%s takes either ids or filters", cmd.Name()))
	case !by && len(args) == 0:
		return usageError(fmt.Errorf("%s takes an id, or filters such as --status: see `%s --help`", cmd.Name(), cmd.CommandPath()))
	case by && f.dryRun == f.yes:
		return usageError(errors.New("the filters may choose many: add --dry-run to count them, or --yes to go on"))
	}
	if err := f.complete(time.Now()); err != nil {
		return usageError(err)
	}
	return nil
}

// bulk counts what the filters choose, and does it where that is asked for.
func (m *Main) bulk(cmd *cobra.Command, what client.Action, done string, f bulkFlags, opts client.BulkOptions) error {
	c, err := m.clientOf(cmd)
	if err != nil {
		return err
	}
	opts.Filter, opts.All = f.ListOptions, f.all
	var counted contract.BulkAnswer
	for got, err := range c.BulkDryRun(cmd.Context(), what, opts) {
		if err != nil {
			return err
		}
		if counted = got; got.Cursor != nil {
			m.sayf("counted %d", got.Total)
		}
	}
	switch {
	case counted.Confirmation == nil:
		return errors.New("the server gave no confirmation: is this a Windrow server?")
	case f.dryRun && f.json:
		return m.printJSON(counted)
	case f.dryRun:
		_, err := fmt.Fprintf(m.Stdout, "%d would be %s\n", counted.Total, done)
		return err
	case f.atMost >= 0 && counted.Total > f.atMost:
		return fmt.Errorf("%d match, which are more than --at-most %d: nothing was done", counted.Total, f.atMost)
	}
	return m.carryOut(cmd.Context(), c, what, done, f, opts, counted)
}

// carryOut does it to what was counted, and tells what it came to also where it can't go on.
func (m *Main) carryOut(ctx context.Context, c *client.Client, what client.Action, done string, f bulkFlags, opts client.BulkOptions, counted contract.BulkAnswer) error {
	sum := contract.BulkAnswer{AsOf: counted.AsOf, Skipped: map[string]int64{}, Failures: []contract.BulkFailure{}}
	var failed error
	for got, err := range c.Bulk(ctx, what, opts, *counted.Confirmation) {
		if err != nil {
			failed = err
			break
		}
		sum.Matched, sum.Total = sum.Matched+got.Matched, got.Total
		sum.Done, sum.Failed, sum.Stopped = sum.Done+got.Done, sum.Failed+got.Failed, got.Stopped
		for why, n := range got.Skipped {
			sum.Skipped[why] += n
		}
		for _, one := range got.Failures {
			m.sayf("%s: %s", one.ExecutionID, cmp.Or(one.Problem.Detail, one.Problem.Title))
			if len(sum.Failures) < 20 {
				sum.Failures = append(sum.Failures, one)
			}
		}
		if got.Cursor != nil {
			m.sayf("%d of %d", got.Total, counted.Total)
		}
	}
	if failed == nil && sum.Failed > 0 {
		failed = &codedError{exitError, fmt.Errorf("%d failed", sum.Failed)}
	}
	if f.json {
		return errors.Join(failed, m.printJSON(sum))
	}
	parts := []string{fmt.Sprintf("%s %d", done, sum.Done)}
	for _, why := range slices.Sorted(maps.Keys(sum.Skipped)) {
		parts = append(parts, fmt.Sprintf("skipped as %s %d", why, sum.Skipped[why]))
	}
	_, err := fmt.Fprintln(m.Stdout, strings.Join(append(parts, fmt.Sprintf("failed %d", sum.Failed)), ", "))
	return errors.Join(failed, err)
}

func (m *Main) printJSON(v any) error {
	data, err := contract.Encode(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(m.Stdout, "%s\n", data)
	return err
}

func (m *Main) retryCommand() *cobra.Command {
	var opts client.ResubmitOptions
	var flags bulkFlags
	cmd := &cobra.Command{
		Use: "retry ID... | FILTERS --dry-run|--yes", Short: "Submit the input of ended executions again",
		Long: "Submit the input of ended executions again, with their owner, labels and priority, and print the ids of the new ones, a line each. " +
			"The label windrow/resubmitted-from leads back. With --key the same command can be given again, after a run that broke off or to be sure: " +
			"under the same key an execution is submitted again once." + bulkHelp,
		Example: "  windrow retry 4YtGzq0XnJ2rVb8mKd7Lw1Qs\n  windrow retry --deployment story --status failed --since 24h --dry-run\n" +
			"  windrow retry --deployment story --status failed --since 24h --yes",
		Args: arguments(0, 1000, "ids"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(checkKey(cmd), flags.check(cmd, args)); err != nil {
				return err
			}
			if len(args) == 0 {
				return m.bulk(cmd, client.ActionResubmit, "resubmitted", flags, client.BulkOptions{SameRevision: opts.SameRevision, Key: opts.Key})
			}
			return m.retry(cmd, args, opts, flags.json)
		},
	}
	flags.add(cmd, "retry")
	cmd.Flags().BoolVar(&flags.yes, "yes", false, "retry what the filters choose")
	cmd.Flags().StringVar(&opts.Key, "key", "", "idempotency key: with the same key an execution is submitted again once")
	cmd.Flags().BoolVar(&opts.SameRevision, "same-revision", false, "under the revision that it had, in place of the current one")
	return cmd
}

// retry goes on where one of them can't be submitted again.
func (m *Main) retry(cmd *cobra.Command, ids []string, opts client.ResubmitOptions, asJSON bool) error {
	c, err := m.clientOf(cmd)
	if err != nil {
		return err
	}
	var failed error
	for _, id := range ids {
		e, err := c.Resubmit(cmd.Context(), id, &opts)
		switch {
		case err != nil && len(ids) > 1:
			err = fmt.Errorf("%s: %w", id, err)
		case err == nil && asJSON:
			_, err = fmt.Fprintf(m.Stdout, "%s\n", e.Raw)
		case err == nil:
			_, err = fmt.Fprintln(m.Stdout, e.ExecutionID)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}
