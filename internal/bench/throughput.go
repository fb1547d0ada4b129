package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const throughputLong = `Executions a second, submitted, run and completed all at once: of nothing (noop), with three checkpoints, and with twenty chunks;
by 1, 16, 64 and 256 submitters; with one process that works, and with two; over HTTP, and by the processes themselves (embedded).

Latencies: of a submission, and from the submission to the handler (pickup). CPU time and allocations are those of the processes
that work, which over HTTP do not submit. Exchanges, commands and bytes are counted in a pass of their own behind a proxy, which
takes time.

Then, each in turns with what it is compared with:
  pickup        by another process under light load, one submission every 20 ms
  pipelines     executions a second, in a run of noop, against those that eight connections reach which submit, claim and complete
                with the same scripts, one operation each, 16 at once; with 16 slots, where --slots says nothing else
  HTTP          submissions a second, against a bare chi handler that does one EVALSHA

--only names cases by a part of their name; --slots is how many attempts a process runs at once; --short does noop with 16
submitters, and counts.`

// throughputCase is one way to load the servers.
type throughputCase struct {
	kind        string
	submitters  int
	processes   int
	http        bool
	deployments int // over which it is spread; 0: one
}

func (c throughputCase) String() string {
	way, processes := "embedded", "1 process"
	if c.http {
		way = "over HTTP"
	}
	if c.processes > 1 {
		processes = fmt.Sprintf("%d processes", c.processes)
	}
	return fmt.Sprintf("%s, %d submitters, %s, %s", c.kind, c.submitters, processes, way)
}

// throughputBudget is what an execution of a kind may cost: each operation is an exchange of one command at most, and polls that
// find nothing come on top.
func throughputBudget(kind string) float64 {
	switch kind {
	case workCheckpoints:
		return 6.2
	case workChunks:
		return 5.2 // the first chunk leaves at once, the others together
	}
	return 3.2
}

// Throughput measures how much work goes through.
func Throughput(ctx context.Context, p Params) (*Report, error) {
	if p.Count == 0 {
		p.Count = 3000
		if p.Short {
			p.Count = 1000
		}
	}
	r, err := begin(ctx, "throughput", p)
	if err != nil {
		return nil, err
	}
	defer r.end()
	for _, processes := range []int{1, 2} {
		if err := r.throughputs(ctx, processes); err != nil {
			return nil, err
		}
	}
	for _, one := range []struct {
		name    string
		measure func(context.Context, string) error
	}{{"pickup by another process", r.pickup}, {"noop against pipelines", r.scriptRate}, {"submissions over HTTP", r.bareRate}} {
		if p.Short || !r.wanted(one.name) {
			continue
		}
		if err := r.repeatedly(ctx, one.name, func() error { return one.measure(ctx, one.name) }); err != nil {
			return nil, err
		}
	}
	return r.report, nil
}

// cases are those that were asked for.
func (r *run) cases(processes int) []throughputCase {
	kinds, submitters := []string{workNoop, workCheckpoints, workChunks}, []int{1, 16, 64, 256}
	if r.Short {
		kinds, submitters = kinds[:1], submitters[1:2]
	}
	var out []throughputCase
	for _, kind := range kinds {
		for _, n := range submitters {
			for _, http := range []bool{false, true} {
				c := throughputCase{kind: kind, submitters: n, processes: processes, http: http}
				if r.wanted(c.String()) && (!r.Short || processes == 1) {
					out = append(out, c)
				}
			}
		}
	}
	return out
}

func (r *run) wanted(name string) bool { return strings.Contains(name, r.Only) }

// throughputs measures with so many processes: times without a proxy, then counts behind one.
func (r *run) throughputs(ctx context.Context, processes int) error {
	cases := r.cases(processes)
	if len(cases) == 0 {
		return nil
	}
	return r.repeatedly(ctx, fmt.Sprintf("processes that work: %d", processes), func() error {
		if err := r.throughputTimes(ctx, processes, cases); err != nil {
			return err
		}
		return r.throughputCounts(ctx, processes, cases)
	})
}

func (r *run) throughputTimes(ctx context.Context, processes int, cases []throughputCase) error {
	f, err := r.fleet(ctx, processes, serveOrder{Redis: r.redis.url, Slots: r.Slots, Tell: true})
	if err != nil {
		return err
	}
	defer f.stop()
	for _, c := range cases {
		if _, err := f.load(ctx, c, r.Count/10+1); err != nil { // connections and scripts
			return err
		}
		before, err := r.redis.load(ctx)
		if err != nil {
			return err
		}
		l, err := f.load(ctx, c, r.Count)
		if err != nil {
			return err
		}
		after, err := r.redis.load(ctx)
		if err != nil {
			return err
		}
		l.redisCPU = after.cpu - before.cpu
		r.Progress("%s: %s executions a second", c, number(l.rate()))
		r.report.add(c.String(), l.figures()...)
	}
	return nil
}

func (r *run) throughputCounts(ctx context.Context, processes int, cases []throughputCase) error {
	proxy, url, err := r.redis.proxy(ctx)
	if err != nil {
		return err
	}
	defer proxy.Close()
	f, err := r.fleet(ctx, processes, serveOrder{Redis: url, Slots: r.Slots, Tell: true})
	if err != nil {
		return err
	}
	defer f.stop()
	for _, c := range cases {
		n := r.Count/4 + 1
		if _, err := f.load(ctx, c, n/4+1); err != nil {
			return err
		}
		before, err := proxy.Traffic()
		if err != nil {
			return err
		}
		if _, err := f.load(ctx, c, n); err != nil {
			return err
		}
		after, err := proxy.Traffic()
		if err != nil {
			return err
		}
		t, each, limit := after.since(before), float64(n), throughputBudget(c.kind)
		r.report.add(c.String(), count("exchanges", "each", float64(t.Exchanges)/each, limit),
			count("client commands", "each", float64(t.Commands)/each, limit), count("bytes", "B each", float64(t.Bytes)/each, 0))
	}
	return nil
}

// fleet is some processes that work.
type fleet struct{ servers []*process }

// fleet starts them, under the prefix of the run.
func (r *run) fleet(ctx context.Context, n int, o serveOrder) (*fleet, error) {
	f := &fleet{}
	o.Prefix = r.redis.prefix
	for range n {
		p, err := r.serve(ctx, o)
		if err != nil {
			f.stop()
			return nil, err
		}
		f.servers = append(f.servers, p)
	}
	return f, nil
}

func (f *fleet) stop() {
	for _, p := range f.servers {
		p.stop()
	}
}

// loaded is what a load came to.
type loaded struct {
	count            int
	took             time.Duration // from the first submission to the last commit
	submits, pickups []time.Duration
	used             usage   // over all processes
	redisCPU         float64 // seconds
}

func (l loaded) rate() float64 { return float64(l.count) / l.took.Seconds() }

func (l loaded) figures() []Figure {
	n := float64(l.count)
	slices.Sort(l.submits)
	slices.Sort(l.pickups)
	return []Figure{
		timed("executions", "/s", l.rate(), 0),
		timed("submit p50", "ms", percentile(l.submits, 50), 0), timed("submit p99", "ms", percentile(l.submits, 99), 0),
		timed("pickup p50", "ms", percentile(l.pickups, 50), 0), timed("pickup p99", "ms", percentile(l.pickups, 99), 0),
		timed("CPU of Redis", "µs each", l.redisCPU*1e6/n, 0), timed("CPU of the processes", "µs each", l.used.CPU*1e6/n, 0),
		count("allocations", "each", float64(l.used.Mallocs)/n, 0), count("allocated", "B each", float64(l.used.Allocated)/n, 0),
	}
}

// load has work submitted and waits until all of it is done.
func (f *fleet) load(ctx context.Context, c throughputCase, n int) (loaded, error) {
	l := loaded{count: n}
	for _, p := range f.servers {
		if _, err := p.tell(order{Reset: true}); err != nil {
			return l, err
		}
	}
	before, _, err := f.usage()
	if err != nil {
		return l, err
	}
	d := driveOrder{Kind: c.kind, Deployments: c.deployments, Count: n, Submitters: c.submitters}
	began, err := f.submit(ctx, c.http, d, &l)
	if err != nil {
		return l, err
	}
	if err := f.await(ctx, int64(n)); err != nil {
		return l, err
	}
	after, last, err := f.usage()
	if err != nil {
		return l, err
	}
	l.took = last.Sub(began)
	l.pickups = after.Pickups
	l.used = usage{CPU: after.CPU - before.CPU, Mallocs: after.Mallocs - before.Mallocs, Allocated: after.Allocated - before.Allocated}
	return l, nil
}

// await returns once so many executions have been completed since the last reset. It asks seldom: the processes know when.
func (f *fleet) await(ctx context.Context, n int64) error {
	for {
		done := int64(0)
		for _, p := range f.servers {
			a, err := p.tell(order{Done: true})
			if err != nil {
				return err
			}
			done += a.Usage.Completed
		}
		if done >= n {
			return nil
		}
		if pause(ctx, 10*time.Millisecond); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// submit returns when it began.
func (f *fleet) submit(ctx context.Context, http bool, d driveOrder, l *loaded) (time.Time, error) {
	if http {
		client := newHTTPClient(d.Submitters)
		defer client.CloseIdleConnections()
		urls := make([]string, len(f.servers))
		for i, p := range f.servers {
			urls[i] = p.url
		}
		out, err := drive(ctx, overHTTP(client, urls...), d)
		l.submits = out.Submits
		return time.Unix(0, out.Began), err
	}
	answers, errs := make([]answer, len(f.servers)), make([]error, len(f.servers))
	var all sync.WaitGroup
	for i, p := range f.servers {
		share := d
		share.Count, share.Submitters = part(d.Count, i, len(f.servers)), max(part(d.Submitters, i, len(f.servers)), 1)
		all.Go(func() { answers[i], errs[i] = p.tell(order{Drive: &share}) })
	}
	all.Wait()
	began := time.Now()
	for i, a := range answers {
		if errs[i] != nil {
			return began, errs[i]
		}
		l.submits = append(l.submits, a.Drive.Submits...)
		if at := time.Unix(0, a.Drive.Began); at.Before(began) {
			began = at
		}
	}
	return began, nil
}

// part is the i-th of n parts of a whole.
func part(whole, i, n int) int {
	share := whole / n
	if i < whole%n {
		share++
	}
	return share
}

// usage is that of all processes, and when the last execution was completed.
func (f *fleet) usage() (sum usage, last time.Time, err error) {
	for _, p := range f.servers {
		u, err := p.usage()
		if err != nil {
			return sum, last, err
		}
		sum.Completed += u.Completed
		sum.Pickups = append(sum.Pickups, u.Pickups...)
		sum.CPU += u.CPU
		sum.Mallocs += u.Mallocs
		sum.Allocated += u.Allocated
		if at := time.Unix(0, u.LastCompleted); at.After(last) {
			last = at
		}
	}
	return sum, last, nil
}
