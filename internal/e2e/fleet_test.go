package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/storetest"
)

// fleet is some servers on one Redis of their own, with work that is followed whatever happens to them.
type fleet struct {
	t       *testing.T
	ctx     context.Context
	redis   *redistest.Server
	checker *storetest.Checker
	boot    func() *server

	mu      sync.Mutex // guards the following
	servers []*server  // nil: down
	handed  []string   // all that was submitted
	work    []*followed
}

// followed is one execution with its two viewers.
type followed struct {
	id      string
	viewers [2]*spectator
}

// spectator follows an execution from server to server, and tells the checker.
type spectator struct {
	*sight
	name  string
	ended chan struct{} // closed when the end was seen, or the test is over
	end   projection    // of the terminal event; read after ended
}

// newFleet starts n servers with begin. All end with the test.
func newFleet(t *testing.T, n int, redis redistest.Options, begin func(testing.TB, ...string) *server, args ...string) *fleet {
	t.Helper()
	t.Parallel()
	f := &fleet{t: t, ctx: within(t, patience()), redis: redistest.Private(t, redis), checker: storetest.NewChecker()}
	args = append([]string{"dev", "--redis", f.redis.URL(), "--addr", "127.0.0.1:0", "--keepalive", "2s"}, args...)
	f.boot = func() *server { return begin(t, args...) }
	f.servers = make([]*server, n)
	for i := range f.servers {
		f.replace(i)
	}
	return f
}

// replace starts another server in the place of one that is down.
func (f *fleet) replace(i int) *server {
	f.t.Helper()
	s := f.boot()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers[i] = s
	return s
}

// down takes the server out, so that no client is sent to it any more.
func (f *fleet) down(i int) *server {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.servers[i]
	f.servers[i] = nil
	return s
}

// url is that of any server that is up; "" where none is.
func (f *fleet) url() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range rand.Perm(len(f.servers)) {
		if s := f.servers[i]; s != nil {
			return s.URL
		}
	}
	return ""
}

// ask sends a request to any server, again and again, until one answers with the status.
func (f *fleet) ask(status int, method, path, body string, headers ...string) reply {
	var last any
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ctx, cancel := context.WithTimeout(f.ctx, 10*time.Second)
		r, err := call(ctx, method, f.url()+path, body, headers...)
		cancel()
		if err == nil && r.Status == status {
			return r
		}
		if last = err; err == nil {
			last = fmt.Sprintf("%d %s", r.Status, r.Body)
		}
		select {
		case <-tick.C:
		case <-f.ctx.Done():
			f.t.Errorf("%s %s: never %d, but %v", method, path, status, last)
			return reply{Body: []byte("{}")}
		}
	}
}

// submit hands work in, once, however often it has to be sent.
func (f *fleet) submit(deployment, input string) string {
	key := fmt.Sprint(rand.Uint64())
	id := f.ask(http.StatusAccepted, "POST", "/v1/deployments/"+deployment+"/executions", `{"input":`+input+`}`,
		"Idempotency-Key: "+key).projection(f.t).ID
	f.checker.Submitted(store.Key{Deployment: deployment, Value: key}, id)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handed = append(f.handed, id)
	return id
}

// follow submits work and follows it.
func (f *fleet) follow(deployment, input string) *followed {
	w := &followed{id: f.submit(deployment, input)}
	for i := range w.viewers {
		v := &spectator{sight: newSight(f.t), name: fmt.Sprint("viewer ", i), ended: make(chan struct{})}
		w.viewers[i] = v
		go v.run(f, w.id)
		f.t.Cleanup(func() { <-v.ended })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.work = append(f.work, w)
	return w
}

// stay is how long a viewer stays with one server, which may not say that it is no more.
const stay = 2 * time.Second

// run goes on with its last id wherever a server is, until it has seen the end.
func (v *spectator) run(f *fleet, id string) {
	defer close(v.ended)
	cursor, over := "", false
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !over && f.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(f.ctx, stay)
		cursor, _ = follow(ctx, f.url(), id, cursor, func(e event) bool {
			v.tell(f, id, e)
			over = e.terminal()
			return v.see(e)
		})
		cancel()
		select {
		case <-tick.C:
		case <-f.ctx.Done():
		}
	}
}

func (v *spectator) tell(f *fleet, id string, e event) {
	at, err := execution.ParseCursor(e.ID)
	switch {
	case e.terminal():
		f.checker.SawEnd(v.name, id, execution.Status(e.Name))
		if err := json.Unmarshal([]byte(e.Data), &v.end); err != nil {
			f.t.Errorf("the end of %s: %v", id, err)
		}
	case e.Name == "gap":
		f.checker.Gap(v.name, id)
	case e.ID == "": // a status that the log does not show, or the end of the connection
	case err != nil:
		f.t.Errorf("the cursor %q: %v", e.ID, err)
	default:
		f.checker.Saw(v.name, id, at, []byte(e.Data))
	}
}

// await waits until a viewer of the work has seen that chunk of a story.
func (f *fleet) await(w *followed, chunk int64) {
	f.t.Helper()
	if err := w.viewers[0].await(f.ctx, chunk); err != nil {
		f.t.Fatal(err)
	}
}

// cancel asks for work to be canceled, and returns what it was when that was acknowledged.
func (f *fleet) cancel(w *followed) (status string) {
	r, err := call(f.ctx, "POST", f.url()+"/v1/executions/"+w.id+"/cancel", `{"reason":"enough"}`)
	if err != nil || r.Status != http.StatusOK && r.Status != http.StatusAccepted {
		f.t.Errorf("cancel: %v, %d %s", err, r.Status, r.Body)
		return ""
	}
	return r.projection(f.t).Status
}

// gone waits for the end of all work, and holds what was seen of it against what must always hold. It returns how each
// ended, and leaves nothing behind that is unfinished.
func (f *fleet) gone() map[string]projection {
	f.t.Helper()
	for _, w := range f.work {
		for _, v := range w.viewers {
			<-v.ended
			v.checkContiguous()
		}
	}
	f.atRest()
	ends := map[string]projection{}
	for _, id := range f.handed {
		p := f.ask(http.StatusOK, "GET", "/v1/executions/"+id, "").projection(f.t)
		f.checker.Ended("projection", id, execution.Status(p.Status))
		f.checker.Observed(store.Record{Control: execution.Control{ID: id, Status: execution.Status(p.Status), Version: p.Sequence}})
		ends[id] = p
	}
	for _, w := range f.work {
		if p, seen := ends[w.id], w.viewers[0].end; seen.Attempt != p.Attempt || seen.Sequence != p.Sequence {
			f.t.Errorf("%s: the stream ended with attempt %d, sequence %d, the projection says %d, %d", w.id, seen.Attempt,
				seen.Sequence, p.Attempt, p.Sequence)
		}
	}
	f.checker.Assert(f.t)
	return ends
}

// erased forgets work that nobody can find any more.
func (f *fleet) erased(id string) {
	f.checker.Erased(id)
	f.handed = slices.DeleteFunc(f.handed, func(other string) bool { return other == id })
}

// atRest waits until every server is ready and shows that nothing is unfinished.
func (f *fleet) atRest() {
	f.t.Helper()
	for _, s := range f.servers {
		if s == nil {
			continue
		}
		eventually(f.t, f.ctx, "a server is ready and at rest", func() bool {
			h := status(f.t, f.ctx, s.URL)
			r, err := call(f.ctx, "GET", s.URL+"/readyz", "")
			for _, d := range h.Deployments {
				if d.Counts.Nonterminal != 0 {
					return false
				}
			}
			return h.Status == "ok" && err == nil && r.Status == http.StatusOK
		})
	}
}

// completed is gone where all must have completed; it returns how many did with each number of attempts.
func (f *fleet) completed() map[int64]int {
	f.t.Helper()
	attempts := map[int64]int{}
	for id, p := range f.gone() {
		if p.Status != "completed" {
			f.t.Errorf("%s is %s after attempt %d: %+v", id, p.Status, p.Attempt, p.Error)
		}
		attempts[p.Attempt]++
	}
	return attempts
}

// gaps counts what viewers were told of.
func (f *fleet) gaps() (n int) {
	for _, w := range f.work {
		for _, v := range w.viewers {
			n += v.gaps
		}
	}
	return n
}

// key is the name of a key of the fleet's only partition.
func (f *fleet) key(rest string) string { return "windrow:{0}:" + rest }

// lostLeases is how many an execution has lost, which no client is told.
func (f *fleet) lostLeases(id string) string {
	return f.redis.Client().HGet(f.ctx, f.key("c:"+id), "l").Val()
}

// meanwhile does something again and again until the returned function is called, which waits for it.
func (f *fleet) meanwhile(every time.Duration, do func(round int)) (stop func()) {
	ctx, cancel := context.WithCancel(f.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for round := 0; ; round++ {
			select {
			case <-tick.C:
				do(round)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
