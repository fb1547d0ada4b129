package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// table writes a line for each pair. CPU times are microseconds a job: of this process, and of the server that holds the jobs.
func table(w io.Writer, r report) error {
	_, _ = fmt.Fprintf(w, "%d jobs a run, %d slots, %d submitters; CPU in microseconds a job\n\n", r.Jobs, r.Slots, r.Submitters)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "way\tpeer\tpair\tpeer/s\town CPU\tserver CPU\twindrow/s\town CPU\tserver CPU\tratio\t")
	for _, res := range r.Results {
		for i, p := range res.Pairs {
			_, _ = fmt.Fprintf(t, "%s\t%s\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t\n", res.Way, res.Peer, i+1,
				p.Peer.Rate, p.Peer.OwnCPU, p.Peer.ServerCPU, p.Ours.Rate, p.Ours.OwnCPU, p.Ours.ServerCPU, p.Ratio)
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\tmedian\t\t\t\t\t\t\t%.2f\t\n", res.Way, res.Peer, res.Median)
	}
	return t.Flush()
}
