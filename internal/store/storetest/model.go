package storetest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// Model drives two stores with the same random commands at the same time of their clocks and compares every reply, and
// after each command everything that can be seen. What a store may choose is left out of the comparison: the order within a
// batch of claims, the ids of log entries (but not their order), and when a mark of being watched is renewed (but not that
// it holds).
func Model(t *testing.T, newReference, newSubject Factory) {
	rapid.Check(t, property(t, newReference, newSubject))
}

// property is one random run.
func property(t testing.TB, newReference, newSubject Factory) func(*rapid.T) {
	limits := store.Limits{ProgressEvents: 3, HistoryChunks: 6, HistoryBytes: 60}
	return func(rt *rapid.T) {
		tb := scopedTB{t, rt}
		m := &model{T: rt, ctx: t.Context(), reference: newReference(tb, limits), subject: newSubject(tb, limits),
			seen: map[string]execution.Control{}, held: map[string]execution.Control{}, chunks: map[string]int64{}}
		m.align()
		for range 3 { // a life takes more steps than one round has
			m.submit(rt)
			m.submit(rt)
			rt.Repeat(m.actions())
		}
	}
}

// actions lists what may happen; what moves an execution along stands more than once.
func (m *model) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":             m.compare,
		"submit":       m.submit,
		"submit again": m.resubmit,
		"find key":     m.findKey,
		"poll":         m.poll,
		"poll more":    m.poll,
		"poll again":   m.repoll,
		"transition":   m.transition,
		"go on":        m.transition,
		"go on more":   m.transition,
		"repeat":       m.repeat,
		"beat":         m.beat,
		"resume":       m.resume,
		"resume more":  m.resume,
		"resume again": m.resumeAgain,
		"go around":    m.goAround,
		"cancel":       m.cancel,
		"maintain":     m.maintain,
		"watch":        m.watch,
		"controls":     m.controls,
		"list":         m.list,
		"erase":        m.erase,
		"displace":     m.displace,
		"advance":      m.advance,
	}
}

// scopedTB is the test as a factory sees it, ended with the one run of the model that the store is for.
type scopedTB struct {
	testing.TB
	rt *rapid.T
}

func (s scopedTB) Cleanup(f func()) { s.rt.Cleanup(f) }

// model holds two stores and what the driver knows of what it did, so that most commands make sense.
type model struct {
	*rapid.T
	ctx                context.Context
	reference, subject Env

	submissions []store.Submission
	seen        map[string]execution.Control // as it was last read
	held        map[string]execution.Control // as its last holder knows it
	chunks      map[string]int64             // number of the next chunk
	polled      *store.PollRequest           // the last one that claimed something, while its batch is sure to be kept
	control     execution.Control            // of the last owned command
	command     execution.Command
	answered    store.ResumeRequest // the last answer
	tokens      int
}

// align brings both clocks to the same time.
func (m *model) align() {
	a, err := m.reference.Store.Counts(m.ctx)
	b, err2 := m.subject.Store.Counts(m.ctx)
	if err != nil || err2 != nil {
		m.Fatalf("counts: %v, %v", err, err2)
	}
	if d := b.Now - a.Now; d > 0 {
		m.reference.Advance(span(d))
	} else {
		m.subject.Advance(span(-d))
	}
}

// both calls both stores and holds the subject's answer against the reference's. Errors are compared by their code.
func both[T any](m *model, what string, call func(s store.Store) (T, error), opts ...cmp.Option) T {
	want, wantErr := call(m.reference.Store)
	got, gotErr := call(m.subject.Store)
	if w, g := execution.CodeOf(wantErr), execution.CodeOf(gotErr); w != g {
		m.Fatalf("%s: error %q (%v), want %q (%v)", what, g, gotErr, w, wantErr)
	}
	if wantErr != nil {
		return got
	}
	if reflect.DeepEqual(want, got) { // as nearly always, and much faster to tell
		return got
	}
	if diff := cmp.Diff(want, got, append(opts, choices()...)...); diff != "" {
		m.Fatalf("%s (-reference +subject):\n%s", what, diff)
	}
	return got
}

// choices leaves out what a store may choose.
func choices() []cmp.Option {
	return []cmp.Option{
		cmpopts.EquateEmpty(),
		byID(),
		cmpopts.IgnoreFields(execution.Control{}, "WatchedUntil"),
		cmpopts.IgnoreFields(execution.Entry{}, "ID"),
		cmp.Comparer(func(a, b error) bool { return execution.CodeOf(a) == execution.CodeOf(b) }),
	}
}

// compare reads everything that can be seen.
func (m *model) compare(*rapid.T) {
	for _, s := range m.submissions {
		r := both(m, "read", func(st store.Store) (store.Record, error) {
			return m.ordered(st.Read(m.ctx, store.ReadRequest{ID: s.ID, Scope: everyone, Log: true, LogLimit: 1000, History: 7}))
		})
		if fault := disagreement(r); fault != "" && r.Control.ID != "" {
			m.Fatalf("history: %s", fault)
		}
		m.seen[s.ID] = r.Control
	}
	both(m, "counts", func(st store.Store) (store.Counts, error) { return occupied(st.Counts(m.ctx)) }, byRevision())
	both(m, "workers", func(st store.Store) ([]store.Worker, error) { return recent(st.Workers(m.ctx)) }, byWorker())
}

// recent leaves out the processes that a store may have forgotten, which it does when it maintains.
func recent(w store.Workers, err error) ([]store.Worker, error) {
	return slices.DeleteFunc(w.Seen, func(worker store.Worker) bool {
		return worker.SeenAt <= w.Now.Millis()-store.WorkersKept.Milliseconds()
	}), err
}

func byWorker() cmp.Option {
	return cmpopts.SortSlices(func(a, b store.Worker) bool { return fmt.Sprint(a) < fmt.Sprint(b) })
}

// ordered sees to it that log ids grow, then leaves out what a store may choose.
func (m *model) ordered(r store.Record, err error) (store.Record, error) {
	var last execution.LogID
	for i := range r.Log {
		id := &r.Log[i].ID
		if !last.Less(*id) {
			m.Fatalf("log id %v after %v", *id, last)
		}
		last, *id = *id, execution.LogID{}
	}
	r.Control.WatchedUntil = 0
	return r, err
}

// occupied leaves out the revisions that hold nothing: when they are forgotten is a store's own affair.
func occupied(c store.Counts, err error) (store.Counts, error) {
	var kept []store.RevisionCount
	for _, r := range c.Revisions {
		if r.Nonterminal != 0 {
			kept = append(kept, r)
		}
	}
	c.Revisions = kept
	return c, err
}

func byRevision() cmp.Option {
	return cmpopts.SortSlices(func(a, b store.RevisionCount) bool {
		return fmt.Sprint(a.Revision) < fmt.Sprint(b.Revision)
	})
}
