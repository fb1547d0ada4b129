package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Bounds of what one may ask for: a run must end, also on a slow machine.
const (
	maxJobs  = 1_000_000
	maxPairs = 100
)

type settings struct {
	peers             []string
	ways              []string
	jobs, pairs       int
	slots, submitters int
	limit             time.Duration // of one run
	json              bool
	postgres          string // folder of PostgreSQL's programs
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, s, os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench-peers:", err)
		stop()
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

func parse(args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet("bench-peers", flag.ContinueOnError)
	peers := f.String("peers", "asynq,river", "what to measure against")
	ways := f.String("ways", "together,drained", "submitted and run at once, and submitted first")
	f.IntVar(&s.jobs, "jobs", 20_000, "jobs a run")
	f.IntVar(&s.pairs, "pairs", 3, "pairs of runs")
	f.IntVar(&s.slots, "slots", 16, "jobs that run at once")
	f.IntVar(&s.submitters, "submitters", 64, "goroutines that submit")
	f.DurationVar(&s.limit, "limit", 2*time.Minute, "the longest that a run may take")
	f.BoolVar(&s.json, "json", false, "write JSON in place of a table")
	f.StringVar(&s.postgres, "postgres", "", "folder of initdb and postgres; default: the PATH, then where Debian has them")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	s.peers, s.ways = strings.Split(*peers, ","), strings.Split(*ways, ",")
	return s, s.validate()
}

func (s settings) validate() error {
	for _, p := range s.peers {
		if p != "asynq" && p != "river" {
			return fmt.Errorf("--peers: %q is neither asynq nor river", p)
		}
	}
	for _, w := range s.ways {
		if w != together && w != drained {
			return fmt.Errorf("--ways: %q is neither %s nor %s", w, together, drained)
		}
	}
	for name, v := range map[string][2]int{"jobs": {s.jobs, maxJobs}, "pairs": {s.pairs, maxPairs}, "slots": {s.slots, 10_000},
		"submitters": {s.submitters, 10_000}} {
		if v[0] < 1 || v[0] > v[1] {
			return fmt.Errorf("--%s: %d is not between 1 and %d", name, v[0], v[1])
		}
	}
	if s.limit < time.Second || s.limit > time.Hour {
		return fmt.Errorf("--limit: %v is not between 1s and 1h", s.limit)
	}
	return nil
}

// pair is a run of a peer and one of ours, right after each other.
type pair struct {
	Peer  figures `json:"peer"`
	Ours  figures `json:"windrow"`
	Ratio float64 `json:"ratio"` // of the rates; over 1: ours is faster
}

// result is all pairs of a peer, one way.
type result struct {
	Peer   string  `json:"peer"`
	Way    string  `json:"way"`
	Pairs  []pair  `json:"pairs"`
	Median float64 `json:"median_ratio"`
}

// report is everything that was measured.
type report struct {
	Jobs       int      `json:"jobs"`
	Slots      int      `json:"slots"`
	Submitters int      `json:"submitters"`
	Results    []result `json:"results"`
}

func run(ctx context.Context, s settings, stdout, stderr io.Writer) error {
	b, err := newBench(ctx, s)
	if err != nil {
		return err
	}
	defer b.close()
	out := report{Jobs: s.jobs, Slots: s.slots, Submitters: s.submitters}
	for _, way := range s.ways {
		for _, name := range s.peers {
			r, err := b.compare(ctx, name, way, stderr)
			if err != nil {
				return err
			}
			out.Results = append(out.Results, r)
		}
	}
	if s.json {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(out)
	}
	return table(stdout, out)
}

// compare makes the pairs of runs with one peer. A first pair, which is not counted, warms both up.
func (b *bench) compare(ctx context.Context, name, way string, stderr io.Writer) (result, error) {
	out := result{Peer: name, Way: way}
	for i := range b.settings.pairs + 1 {
		jobs := b.settings.jobs
		if i == 0 {
			jobs = max(jobs/10, 1)
		}
		p, err := b.pair(ctx, name, way, jobs, i%2 == 0)
		if err != nil {
			return out, err
		}
		_, _ = fmt.Fprintf(stderr, "%s %s pair %d: %.0f/s against %.0f/s, ratio %.2f\n", name, way, i, p.Ours.Rate, p.Peer.Rate, p.Ratio)
		if i > 0 {
			out.Pairs = append(out.Pairs, p)
		}
	}
	var ratios []float64
	for _, p := range out.Pairs {
		ratios = append(ratios, p.Ratio)
	}
	slices.Sort(ratios)
	out.Median = (ratios[(len(ratios)-1)/2] + ratios[len(ratios)/2]) / 2
	return out, nil
}

func (b *bench) pair(ctx context.Context, name, way string, jobs int, oursFirst bool) (p pair, err error) {
	order := []string{name, ours}
	if oursFirst {
		slices.Reverse(order)
	}
	for _, who := range order {
		f, err := b.measure(ctx, who, way, jobs)
		if err != nil {
			return p, fmt.Errorf("%s, %s: %w", who, way, err)
		}
		if who == ours {
			p.Ours = f
		} else {
			p.Peer = f
		}
	}
	p.Ratio = p.Ours.Rate / p.Peer.Rate
	return p, nil
}
