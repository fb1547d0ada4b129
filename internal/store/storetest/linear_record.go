package storetest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/faultstore"
)

const (
	clients = 5 // at once
	// enough operations, at which clients stop: what they have begun, and what comes when they are done, makes no more than 60.
	enough = 44
	// losable is how many requests of a history may stay without an answer: each multiplies the orders to be searched.
	losable = 8
	// sends is how often a client repeats a request for an answer.
	sends = 3
	// spareTime is how many more moves a client makes once the execution has ended.
	spareTime = 6
	never     = math.MaxInt64
)

// history is what clients asked and were told.
type history struct {
	model porcupine.Model

	ticks atomic.Int64 // a time that grows with each reading

	mu         sync.Mutex // guards the following
	operations []porcupine.Operation
}

func (h *history) tick() int64 { return h.ticks.Add(1) }

func (h *history) add(o porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, o)
}

func (h *history) full() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.operations) >= enough
}

// scene is the store that clients share, and their history.
type scene struct {
	*history
	t      *testing.T
	ctx    context.Context
	faults *faultstore.Store
	losses bool
	id     atomic.Pointer[string] // of the execution that clients have last seen
	over   atomic.Bool            // that execution was seen to have ended
	lost   atomic.Int64
	late   sync.WaitGroup // requests that nobody waits for

	clock   sync.Mutex // held while the store's clock is moved
	advance func(time.Duration)
}

func newScene(t *testing.T, env Env, losses bool) *scene {
	return &scene{history: &history{}, t: t, ctx: t.Context(), faults: faultstore.New(env.Store), losses: losses, advance: env.Advance}
}

// now is the store's time, before there are clients.
func (s *scene) now() execution.Instant {
	c, err := s.faults.Counts(s.ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return c.Now
}

// play lets clients act at once until the history is full, each by what act makes of it, and returns one that is alone.
func (s *scene) play(seed uint64, act func(c *client) func()) *client {
	var all sync.WaitGroup
	for n := range clients {
		c := &client{scene: s, number: n, rand: dice(seed, uint64(n)+1)}
		next := act(c)
		all.Go(func() {
			for rest := spareTime; !c.full() && rest > 0; next() {
				if c.over.Load() {
					rest--
				}
			}
		})
	}
	all.Wait()
	s.late.Wait()
	return &client{scene: s, number: clients, rand: dice(seed, clients+1), alone: true}
}

// client sends one request after another.
type client struct {
	*scene
	number int
	rand   *rand.Rand
	names  int
	alone  bool // nobody else acts, and nothing is lost
}

// name is one that nobody else uses.
func (c *client) name() string {
	c.names++
	return fmt.Sprintf("%d.%d", c.number, c.names)
}

// once is true one time in n.
func (c *client) once(n int) bool { return c.rand.IntN(n) == 0 }

// one of the given values.
func one[T any](c *client, of ...T) T { return of[c.rand.IntN(len(of))] }

// pause lets others go first, sometimes.
func (c *client) pause() {
	for range c.rand.IntN(4) {
		runtime.Gosched()
	}
}

// send carries out one request and records it. One whose answer is lost is left at that, or, where a repeat has one effect
// with it, sent again. Some clients don't even wait.
func (c *client) send(method faultstore.Method, in any, repeatable bool, call func() told) told {
	lossy := c.losses && !c.alone
	begin := c.tick()
	if lossy && c.once(12) && c.spare() {
		c.record(in, begin, told{outcome: lost}, never)
		c.late.Go(func() { call() })
		return told{code: execution.CodeUnavailable}
	}
	repeatable = repeatable && !c.once(3)
	starts := []int64{begin} // of the tries that got no answer, each of which may have an effect: a renewal has, at its own time
	for try := 1; ; try++ {
		if lossy && c.once(5) && (repeatable || c.spare()) {
			c.lose(method)
		}
		start := c.tick()
		c.pause()
		out := call()
		c.pause()
		switch {
		case out.code != execution.CodeUnavailable:
			done := c.tick()
			for _, at := range starts[:try-1] {
				c.record(in, at, told{outcome: retried}, done)
			}
			c.record(in, start, out, done)
			return out
		case !lossy:
			c.t.Errorf("%T got no answer", in)
			return out
		case !repeatable || try == sends:
			for _, at := range starts {
				c.record(in, at, told{outcome: lost}, never)
			}
			return out
		}
		starts = append(starts, c.tick())
	}
}

// spare reports whether one more request may be lost.
func (c *client) spare() bool { return c.lost.Add(1) <= losable }

// lose drops a request or a reply: the next one of the method, whoever sends it.
func (c *client) lose(method faultstore.Method) {
	before := c.once(2)
	c.faults.Inject(method, faultstore.Fault{Times: 1, Before: before, After: !before})
}

func (c *client) record(in any, begin int64, out told, done int64) {
	c.add(porcupine.Operation{ClientId: c.number, Input: in, Call: begin, Output: out, Return: done})
}

// advanced moves the store's clock.
func (c *client) advanced(in any, d time.Duration) {
	begin := c.tick()
	c.clock.Lock()
	c.advance(d)
	c.clock.Unlock()
	c.record(in, begin, told{}, c.tick())
}

// close ends the history.
func (c *client) close() *history {
	at := c.tick()
	c.record(end{}, at, told{}, c.tick())
	return c.history
}

// shownAs is a record as the specification knows it.
func shownAs(r store.Record, err error) told {
	if err != nil {
		return told{code: execution.CodeOf(err)}
	}
	return told{control: r.Control, progress: int64(len(r.Progress)), now: r.Now,
		payloads: payloads{result: string(r.Result), failure: string(r.Error), wait: string(r.Wait)}}
}

// summary counts what was recorded.
type summary struct {
	mu        sync.Mutex // guards the following
	histories int
	least     int
	most      int
	all       int
	unknown   int
	together  int // pairs of operations that overlapped
	ends      map[execution.Status]int
}

func (s *summary) add(h *history) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(h.operations) - 1 // the end is no operation
	if s.histories == 0 {
		s.least, s.ends = n, map[execution.Status]int{}
	}
	s.histories++
	s.least, s.most, s.all = min(s.least, n), max(s.most, n), s.all+n
	for i, o := range h.operations {
		out := o.Output.(told)
		if out.outcome != answered {
			s.unknown++
		}
		for _, p := range h.operations[:i] {
			if out.outcome != lost && p.Output.(told).outcome != lost && o.Call < p.Return && p.Call < o.Return {
				s.together++
			}
		}
	}
	for i := n; i >= 0; i-- { // the status that the store was left with when clients were done
		if r, ok := h.operations[i].Input.(viewing); ok && r.first {
			s.ends[h.operations[i].Output.(told).control.Status]++
		}
	}
}

// String is one line for a test's log.
func (s *summary) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := max(s.histories, 1)
	return fmt.Sprintf("%d histories of %d to %d operations, %.1f on average, of them %.1f%% unknown; %.1f overlaps a history; left %v",
		s.histories, s.least, s.most, float64(s.all)/float64(n), 100*float64(s.unknown)/float64(max(s.all, 1)), float64(s.together)/float64(n), s.ends)
}
