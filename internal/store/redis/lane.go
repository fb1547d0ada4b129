package redis

import (
	"context"
	"fmt"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// maxFlights bounds the exchanges of a lane that are under way at once: the server has the next one while a reply travels.
	maxFlights = 2
	// maxBatch bounds the executions of one script, and maxBatchBytes their payloads, but for one execution's.
	maxBatch      = 32
	maxBatchBytes = 1_000_000
)

// lane is where operations of concurrent callers on a partition come together. One that finds fewer than maxFlights exchanges
// under way leaves at once; what arrives meanwhile leaves with the next one, all in one run of the script. So a lone caller
// waits for nobody, and many share what a run costs, and what the writes to indexes cost within it.
type lane struct {
	store  *Store
	script *script
	anchor string
	each   int // elements of the packed array that an operation adds

	mu      sync.Mutex // guards the following, and the flight of every job
	waiting []*job
	flights int
}

// job is one execution's part of a run.
type job struct {
	ctx    context.Context
	pack   func(p *packer, at int) // its elements; at is where in ARGV its data begins
	data   []any                   // byte slices
	flight *flight                 // nil: it waits
	done   chan struct{}           // closed once reply is set
	reply  reply
}

// flight is one exchange. left: it no longer counts as one under way, since somebody has waited for it in vain: who comes
// next must not wait for a server that does not answer.
type flight struct {
	jobs []*job
	left bool
}

func (l *lane) do(ctx context.Context, pack func(p *packer, at int), data []any) reply {
	if err := l.store.usable(ctx); err != nil {
		return reply{err: err}
	}
	j := &job{ctx: ctx, pack: pack, data: data, done: make(chan struct{})}
	l.mu.Lock()
	l.waiting = append(l.waiting, j)
	l.startLocked()
	l.mu.Unlock()
	select {
	case <-j.done:
		return j.reply
	case <-ctx.Done():
		return l.abandon(j)
	}
}

// startLocked has what waits leave, where it may.
func (l *lane) startLocked() {
	if l.flights >= maxFlights || len(l.waiting) == 0 {
		return
	}
	if !l.store.enter() {
		for _, j := range l.waiting {
			j.settle(reply{err: unavailable(goredis.ErrClosed)})
		}
		l.waiting = nil
		return
	}
	l.flights++
	go func() {
		defer l.store.calls.Done()
		for f := l.next(nil); f != nil; f = l.next(f) {
			l.fly(f)
		}
	}()
}

func (j *job) settle(r reply) {
	j.reply = r
	close(j.done)
}

// next is the exchange after that one; nil: there is none to make.
func (l *lane) next(before *flight) *flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before != nil && before.left {
		return nil
	}
	f, size := &flight{}, 0
	for len(l.waiting) > 0 && len(f.jobs) < maxBatch {
		j := l.waiting[0]
		if size += j.size(); size > maxBatchBytes && len(f.jobs) > 0 {
			break
		}
		l.waiting = l.waiting[1:]
		j.flight = f
		f.jobs = append(f.jobs, j)
	}
	if len(f.jobs) == 0 {
		l.flights--
		return nil
	}
	return f
}

func (j *job) size() (n int) {
	for _, d := range j.data {
		b, _ := d.([]byte)
		n += len(b)
	}
	return n
}

// abandon gives a job up whose caller waits no longer. One that has not left changes nothing any more.
func (l *lane) abandon(j *job) reply {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := unavailable(j.ctx.Err())
	if f := j.flight; f != nil {
		if !f.left {
			f.left = true
			l.flights--
			l.startLocked()
		}
		return reply{err: e}
	}
	for i, other := range l.waiting {
		if other == j {
			l.waiting = append(l.waiting[:i:i], l.waiting[i+1:]...)
			break
		}
	}
	e.Unchanged = true
	return reply{err: e}
}

// fly makes the exchange and hands out the replies.
func (l *lane) fly(f *flight) {
	var head packer
	head.array(l.each * len(f.jobs))
	args := make([]any, 1, 1+2*len(f.jobs))
	for _, j := range f.jobs {
		j.pack(&head, len(args)+1)
		args = append(args, j.data...)
	}
	args[0] = head.bytes()
	r := l.store.exchange(f.lasting(), call{script: *l.script, anchor: l.anchor, args: args})[0]
	parts, err := partsOf(r, len(f.jobs))
	for i, j := range f.jobs {
		if err != nil {
			j.settle(reply{err: err})
		} else {
			j.settle(l.store.part(parts[i]))
		}
	}
}

// lasting is a context that nobody's end cuts short, but for which the client waits no longer than the last of them does.
func (f *flight) lasting() context.Context {
	out := deadline{Context: context.WithoutCancel(f.jobs[0].ctx)}
	for _, j := range f.jobs {
		d, ok := j.ctx.Deadline()
		if !ok {
			return out.Context
		}
		if d.After(out.until) {
			out.until = d
		}
	}
	return out
}

// partsOf are the replies to the n executions of a run.
func partsOf(r reply, n int) ([]any, error) {
	if r.err != nil {
		return nil, r.err
	}
	parts, ok := r.value.([]any)
	if !ok || len(parts) != n {
		return nil, corrupt(fmt.Errorf("reply: not one for each of %d executions", n))
	}
	return parts, nil
}

// part is the reply to one execution of a run.
func (s *Store) part(v any) reply {
	if err, ok := v.(error); ok {
		if suspicious(err) {
			s.standing.doubt()
		}
		return reply{err: s.failed(err)}
	}
	return reply{value: v}
}

// deadline is a context that never ends, but for which the client waits no longer than until.
type deadline struct {
	context.Context //nolint:containedctx // it is one

	until time.Time
}

func (d deadline) Deadline() (time.Time, bool) { return d.until, true }

// lanes are those of a script, by partition.
func (s *Store) lanes(sc *script, each int) []*lane {
	out := make([]*lane, s.config.Partitions)
	for i := range out {
		out[i] = &lane{store: s, script: sc, anchor: s.keys.anchor(i), each: each}
	}
	return out
}
