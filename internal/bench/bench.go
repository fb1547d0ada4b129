package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Params are how a benchmark is run. What a benchmark does not know it leaves alone.
type Params struct {
	Redis    string                           // URL of one server that nothing else uses; empty: one of its own, from the PATH
	Short    bool                             // a form of less than half a minute, with budgets of its own
	Runs     int                              // how often everything is measured; 0: once
	Program  []string                         // what starts a process that is a [Child]; nil: this program, as `bench process`
	Progress func(format string, args ...any) // is told what is being done; nil: nobody is

	Executions int           // standard: at once
	Words      bool          // standard: random words in place of repeated letters
	Compress   bool          // standard: compress large payloads and chunks in Redis
	Watch      time.Duration // idle: how long it looks; viewers: how long they stay
	Count      int           // throughput and growth: executions of a case, or of a turn
	Slots      int           // throughput and growth: attempts at once, a process; 0: the default
	Only       string        // throughput and growth: cases whose name has this in it; empty: all
	Stored     int           // memory and growth: executions
	Viewers    int           // viewers: how many
}

// Bench is one benchmark.
type Bench struct {
	Name  string
	Short string // what it measures, in a line
	Long  string // how, and what its budgets are
	Run   func(ctx context.Context, p Params) (*Report, error)
}

// All are the benchmarks, in the order in which they are read.
func All() []Bench {
	return []Bench{
		{"standard", "What an agent of six turns costs: exchanges, commands and bytes", standardLong, Standard},
		{"throughput", "How much work goes through, how soon, and at what cost", throughputLong, Throughput},
		{"idle", "What a process costs that has nothing to do", idleLong, Idle},
		{"memory", "What an execution takes in Redis", memoryLong, Memory},
		{"growth", "Whether an execution costs more where there is more of everything", growthLong, Growth},
		{"viewers", "What very many viewers cost, and how soon they see what is said", viewersLong, Viewers},
	}
}

// run is one benchmark under way.
type run struct {
	Params
	report *Report
	redis  *redisServer
}

// begin opens Redis. end must be called.
func begin(ctx context.Context, name string, p Params) (*run, error) {
	p.Runs = max(p.Runs, 1)
	if p.Progress == nil {
		p.Progress = func(string, ...any) {}
	}
	if p.Program == nil {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		p.Program = []string{self, "bench", "process"}
	}
	r := &run{Params: p, report: &Report{Bench: name, Short: p.Short, Began: time.Now().UTC(), Machine: thisMachine()}}
	server, err := openRedis(ctx, p.Redis)
	if err != nil {
		return nil, err
	}
	r.redis, r.report.Machine.Redis = server, server.version
	return r, nil
}

func (r *run) end() { r.redis.Close() }

// repeatedly measures as often as it was asked for, each time from an empty server.
func (r *run) repeatedly(ctx context.Context, what string, measure func() error) error {
	for i := range r.Runs {
		r.Progress("%s: run %d of %d", what, i+1, r.Runs)
		err := r.redis.empty(ctx)
		if err == nil {
			err = measure()
		}
		if cause := context.Cause(ctx); cause != nil && errors.Is(cause, context.Canceled) {
			return cause // whatever broke then
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}
