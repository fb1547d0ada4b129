package runtime

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kit is a runtime on a memory store that a test can break, in a bubble with its own clock.
type kit struct {
	*testing.T
	store *faulty
	rt    *Runtime
	log   *logbook
	done  chan error // Run's result
	halt  context.CancelFunc
}

// logbook keeps what all runtimes of a test log.
type logbook struct {
	mu  sync.Mutex // guards the following
	all bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// inBubble runs the test with a kit whose runtime has not been made yet.
func inBubble(t *testing.T, test func(k *kit)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		test(&kit{T: t, store: newFaulty(memory.New(memory.Config{})), log: &logbook{}})
	})
}

// deploy is the deployment "d" in revision "r" with one slot.
func deploy(run handler.Func) handler.Deployment {
	return handler.Deployment{Name: "d", Revision: "r", Handler: run, Options: handler.Options{Slots: 1}}
}

func (k *kit) params(deployments ...handler.Deployment) Params {
	return Params{Store: k.store, Deployments: deployments, Compact: compact, CompileSchema: compile,
		Logger: slog.New(slog.NewTextHandler(k.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
}

func (k *kit) make(p Params) *Runtime {
	k.Helper()
	rt, err := New(p)
	k.ok(err)
	return rt
}

// start makes and runs a runtime until the test ends, and returns once it is idle.
func (k *kit) start(p Params) {
	k.Helper()
	k.rt = k.make(p)
	k.halt, k.done = k.run(k.rt)
	k.Cleanup(func() {
		k.store.heal()
		k.halt()
		<-k.done
	})
	synctest.Wait()
}

func (k *kit) run(rt *Runtime) (halt context.CancelFunc, done chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	done = make(chan error, 1)
	go func() {
		done <- rt.Run(ctx)
		close(done)
	}()
	return cancel, done
}

func (k *kit) ok(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

func (k *kit) code(err error, want execution.Code) {
	k.Helper()
	if got := execution.CodeOf(err); got != want {
		k.Fatalf("error %v has code %q, want %q", err, got, want)
	}
}

// pass lets time pass in the bubble, and returns once all that became due has happened.
func (k *kit) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// submit hands work in and returns its id.
func (k *kit) submit() string {
	k.Helper()
	out, err := k.rt.Submit(k.Context(), SubmitRequest{Deployment: "d", Body: []byte(`{"input":1}`), Input: []byte(`1`)})
	k.ok(err)
	return out.Record.Control.ID
}

func (k *kit) read(id string) store.Record {
	k.Helper()
	r, err := k.store.Read(context.Background(), store.ReadRequest{ID: id, Scope: store.Scope{All: true}, Log: true, LogLimit: 10_000})
	k.ok(err)
	return r
}

// is holds the status of an execution against what it should be now.
func (k *kit) is(id string, want execution.Status) execution.Control {
	k.Helper()
	c := k.read(id).Control
	if c.Status != want {
		k.Fatalf("status %s, want %s; log:\n%s", c.Status, want, k.log)
	}
	return c
}

// failure is the public error of an execution that failed.
func (k *kit) failure(id string) execution.Failure {
	k.Helper()
	k.is(id, execution.Failed)
	f, err := execution.DecodeFailure(k.read(id).Error)
	k.ok(err)
	return f
}

// chunks are what viewers of an execution can still see, as "attempt:number:text".
func (k *kit) chunks(id string) (out []execution.ChunkBatch) {
	k.Helper()
	for _, e := range k.read(id).Log {
		if e.Kind == execution.EntryChunks {
			b, err := execution.DecodeChunkBatch(e.Data)
			k.ok(err)
			out = append(out, b)
		}
	}
	return out
}

// claimElsewhere takes due work as another process would.
func (k *kit) claimElsewhere(lease time.Duration) store.Claimed {
	k.Helper()
	p, err := k.store.Store.Poll(context.Background(), store.PollRequest{Worker: "elsewhere", Token: rand.Text(),
		Revisions: []store.Want{{Revision: store.Revision{Deployment: "d", Revision: "r"}, Count: 1, Lease: lease}}})
	k.ok(err)
	if len(p.Claimed) != 1 {
		k.Fatalf("%d executions are due, want 1", len(p.Claimed))
	}
	return p.Claimed[0]
}

func compact(raw []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// oneOf is a schema that admits the values it lists.
type oneOf []string

func compile(raw []byte) (handler.Schema, error) {
	var s oneOf
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	return s, nil
}

func (s oneOf) JSON() []byte { return nil }

func (s oneOf) Validate(value []byte) []execution.Violation {
	if slices.Contains(s, strings.Trim(string(value), `"`)) {
		return nil
	}
	return []execution.Violation{{Pointer: "", Message: "enum"}}
}

// fault is what happens to an exchange.
type fault int

const (
	lostRequest    fault = iota + 1 // not applied, outcome unknown
	lostReply                       // applied, outcome unknown
	unacknowledged                  // applied, and may not last
	hung                            // not applied, no answer until the context ends
	refusedCorrupt
	refusedForNow // not applied, for certain
	panics
)

// faulty is a store whose exchanges a test can break, by operation: the name of a method, or of a command.
type faulty struct {
	store.Store

	mu     sync.Mutex // guards the following
	faults map[string][]fault
	always map[string]fault
	calls  map[string]int
	beats  []store.Beat
	random func() fault // what else happens; nil: nothing
	mangle func(*store.Claimed)

	brokenLog bool // no chunk can be appended
	brief     int  // polls that asked for claims alone
}

var _ store.Store = (*faulty)(nil)

func newFaulty(s store.Store) *faulty {
	return &faulty{Store: s, faults: map[string][]fault{}, always: map[string]fault{}, calls: map[string]int{}}
}

// next breaks the next exchanges of the operation, one after the other.
func (f *faulty) next(op string, faults ...fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[op] = append(f.faults[op], faults...)
}

// every breaks every exchange of the operations until heal; of all where none is named.
func (f *faulty) every(kind fault, ops ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(ops) == 0 {
		ops = []string{""}
	}
	for _, op := range ops {
		f.always[op] = kind
	}
}

func (f *faulty) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.faults)
	clear(f.always)
	f.random = nil
}

func (f *faulty) count(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// exchanges counts all calls so far.
func (f *faulty) exchanges() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		n += c
	}
	return n
}

func (f *faulty) take(op string) fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[op]++
	if queue := f.faults[op]; len(queue) > 0 {
		f.faults[op] = queue[1:]
		return queue[0]
	}
	if kind := f.always[op]; kind != 0 {
		return kind
	}
	if kind := f.always[""]; kind != 0 || f.random == nil {
		return kind
	}
	return f.random()
}

// through carries an exchange out, or what is left of it.
func through[T any](ctx context.Context, f *faulty, op string, do func() (T, error)) (T, error) {
	var zero T
	unknown := func(err error) error {
		return &execution.Error{Code: execution.CodeUnavailable, Message: "the exchange failed", Err: err}
	}
	switch f.take(op) {
	case lostRequest:
		return zero, unknown(errors.New("request lost"))
	case lostReply:
		_, _ = do()
		return zero, unknown(errors.New("reply lost"))
	case unacknowledged:
		_, _ = do()
		return zero, execution.Errorf(execution.CodeUnconfirmed, "0 of 1 acknowledged it")
	case hung:
		<-ctx.Done()
		return zero, unknown(ctx.Err())
	case refusedForNow:
		return zero, &execution.Error{Code: execution.CodeUnavailable, Message: "no room", Unchanged: true}
	case refusedCorrupt:
		return zero, execution.Errorf(execution.CodeCorrupt, "broken")
	case panics:
		panic("a bug")
	}
	return do()
}

func (f *faulty) Submit(ctx context.Context, s store.Submission) (store.Submitted, error) {
	return through(ctx, f, "submit", func() (store.Submitted, error) { return f.Store.Submit(ctx, s) })
}

func (f *faulty) FindKey(ctx context.Context, key store.Key) (store.Submitted, error) {
	return through(ctx, f, "findKey", func() (store.Submitted, error) { return f.Store.FindKey(ctx, key) })
}

func (f *faulty) Poll(ctx context.Context, r store.PollRequest) (store.Polled, error) {
	if r.Brief {
		f.mu.Lock()
		f.brief++
		f.mu.Unlock()
	}
	out, err := through(ctx, f, "poll", func() (store.Polled, error) { return f.Store.Poll(ctx, r) })
	for i := range out.Claimed {
		if f.mangle != nil {
			f.mangle(&out.Claimed[i])
		}
	}
	return out, err
}

func (f *faulty) Transition(ctx context.Context, c execution.Control, cmd execution.Command) (store.Transitioned, error) {
	return through(ctx, f, execution.Name(cmd), func() (store.Transitioned, error) { return f.Store.Transition(ctx, c, cmd) })
}

func (f *faulty) Beat(ctx context.Context, beats []store.Beat) ([]store.Beaten, error) {
	f.mu.Lock()
	f.beats = append(f.beats, beats...)
	f.mu.Unlock()
	if !f.brokenLog {
		return through(ctx, f, "beat", func() ([]store.Beaten, error) { return f.Store.Beat(ctx, beats) })
	}
	bare := slices.Clone(beats)
	for i := range bare {
		bare[i].Chunks = nil
	}
	out, err := f.Store.Beat(ctx, bare)
	for i := range out {
		if beats[i].Chunks != nil {
			out[i].Err = execution.Errorf(execution.CodeCorrupt, "broken")
		}
	}
	return out, err
}

func (f *faulty) Resume(ctx context.Context, r store.ResumeRequest) (store.Resumed, error) {
	return through(ctx, f, "resume", func() (store.Resumed, error) { return f.Store.Resume(ctx, r) })
}

func (f *faulty) Cancel(ctx context.Context, id string, scope store.Scope, reason string) (store.Record, error) {
	return through(ctx, f, "cancel", func() (store.Record, error) { return f.Store.Cancel(ctx, id, scope, reason) })
}

func (f *faulty) Maintain(ctx context.Context, limit int) (store.Maintained, error) {
	return through(ctx, f, "maintain", func() (store.Maintained, error) { return f.Store.Maintain(ctx, limit) })
}

func (f *faulty) Counts(ctx context.Context) (store.Counts, error) {
	return through(ctx, f, "counts", func() (store.Counts, error) { return f.Store.Counts(ctx) })
}

func (f *faulty) Check(ctx context.Context) error {
	_, err := through(ctx, f, "check", func() (struct{}, error) { return struct{}{}, f.Store.Check(ctx) })
	return err
}

func (f *faulty) Listen(ctx context.Context, ring func(store.Revision)) error {
	_, err := through(ctx, f, "listen", func() (struct{}, error) { return struct{}{}, f.Store.Listen(ctx, ring) })
	return err
}
