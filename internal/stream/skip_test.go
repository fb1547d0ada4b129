package stream

import (
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windrow-run/windrow/internal/store"
)

// What a viewer does without is passed over in the past and live, and never hides what is lost, or the end.
func TestSkip(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{HistoryChunks: 3}, Params{}, func(r *rig) {
		w := r.submit().claim().say("a").report("half").say("b")
		all := []*tape{r.tape(w.id, "", Skippable), r.tape(w.id, "", Chunks), r.tape(w.id, "", Statuses|Progresses)}
		synctest.Wait()
		w.count(2).suspend()
		synctest.Wait() // all have seen this before it makes room for more
		w.again(r)
		for i, want := range [][]string{
			{"opened", `end completed "done"`},
			{"opened", "progress", "running 1", `waiting 1 {"kind":"k"}`, "queued 1", "running 2", `end completed "done"`},
			{"opened", "1:a", "1:b", "1:2", "1:3", "2:0", "2:1", "2:2", `end completed "done"`},
		} {
			<-all[i].done
			all[i].want(r, want...)
		}
		late := r.tape(w.id, all[2].cursorAt(1), Skippable) // whose place is gone
		<-late.done
		late.want(r, "opened", "gap", `end completed "done"`)
	})
}

// again answers the wait and ends with a second attempt.
func (w *work) again(r *rig) {
	if _, err := r.mem.Resume(r.t.Context(), store.ResumeRequest{ID: w.id, Scope: store.Scope{All: true}, Answer: []byte("1"),
		Checked: w.control.WaitSequence}); err != nil {
		r.t.Fatal(err)
	}
	w.claim()
	synctest.Wait()
	w.count(3)
	synctest.Wait()
	w.complete()
}

func (r *rig) tape(id, cursor string, skip Kinds) *tape {
	r.t.Helper()
	v, err := r.hub.Subscribe(r.t.Context(), Request{ID: id, Scope: store.Scope{All: true}, Cursor: cursor, Skip: skip})
	if err != nil {
		r.t.Fatal(err)
	}
	return r.recordOf(v)
}

// A viewer that is told of nothing for long gets its keepalives all the same, with the place to come back to: who came back by an
// older one might be told of a gap in what it does without.
func TestSkippedIsKeptAlive(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{HistoryChunks: 20}, Params{Keepalive: 15 * time.Second}, func(r *rig) {
		w := r.submit().claim().say("a")
		v := r.tape(w.id, "", Chunks)
		for range 60 {
			w.count(1)
			pass(time.Second)
		}
		w.report("half")
		v.want(r, "opened", "running 1", "progress")
		if n := v.keepalives(); n < 4 || n > 5 {
			t.Errorf("%d keepalives in a minute", n)
		}
		v.mu.Lock()
		var last *Keepalive
		for _, e := range v.events {
			if k, ok := e.(*Keepalive); ok {
				last = k
			}
		}
		v.mu.Unlock()
		c, ok := last.Cursor()
		if !ok {
			t.Fatal("the keepalive has no place")
		}
		w.count(1)
		again, old := r.tape(w.id, c.String(), Chunks), r.tape(w.id, v.cursorAt(0), Chunks)
		again.want(r, "opened", "progress", "running 1")
		old.want(r, "opened", "gap", "progress", "running 1")
		w.complete()
		<-v.done
	})
}

// Who awaits a change gets the execution as it stands in one exchange and reads nothing of what was streamed before, alone or
// beside viewers that do, who miss nothing for it.
func TestAwait(t *testing.T) {
	t.Parallel()
	for name, beside := range map[string]bool{"alone": false, "beside others": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, store.Limits{}, Params{}, func(r *rig) {
				w := r.submit().claim().say("a", "b").report("half")
				var before *tape
				if beside {
					before = r.record(w.id, "")
					synctest.Wait()
				}
				reads := r.store.reads.Load()
				v, rec, err := r.hub.Await(t.Context(), Request{ID: w.id, Scope: store.Scope{All: true}})
				if err != nil || rec.Control.Version != w.control.Version || len(rec.Progress) != 1 {
					t.Fatalf("%+v, %v", rec, err)
				}
				awaits := r.recordOf(v)
				synctest.Wait()
				if n := r.store.reads.Load() - reads; n != 1 {
					t.Errorf("%d reads", n)
				}
				awaits.want(r)
				after := r.record(w.id, "")
				synctest.Wait()
				w.say("c").report("more").complete()
				<-awaits.done
				awaits.want(r, "1:c", "progress", `end completed "done"`)
				after.want(r, "opened", "1:a", "1:b", "progress", "running 1", "1:c", "progress", `end completed "done"`)
				if beside {
					before.want(r, "opened", "1:a", "1:b", "progress", "running 1", "1:c", "progress", `end completed "done"`)
				}
				v, rec, err = r.hub.Await(t.Context(), Request{ID: w.id, Scope: store.Scope{All: true}})
				if err != nil || !rec.Control.Status.Terminal() {
					t.Fatalf("%+v, %v", rec, err)
				}
				ended := r.recordOf(v)
				<-ended.done
				ended.want(r, `end completed "done"`)
			})
		})
	}
}

// An execution without a log is awaited as well: being awaited makes it have one.
func TestAwaitBeforeThereIsALog(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		w := r.submit()
		v, _, err := r.hub.Await(t.Context(), Request{ID: w.id, Scope: store.Scope{All: true}, Skip: Chunks})
		if err != nil {
			t.Fatal(err)
		}
		awaits := r.recordOf(v)
		synctest.Wait()
		began := time.Now()
		w.claim().complete()
		<-awaits.done
		awaits.want(r, "running 1", `end completed "done"`)
		if d := time.Since(began); d > 0 {
			t.Errorf("it took %v", d)
		}
	})
}

// More hands out what is at hand, in the past and live, and no more than that.
func TestMore(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		w := r.submit().claim().count(3)
		v := r.subscribe(w.id, "")
		defer v.Close()
		got := []Event{r.next(v)}
		drain := func() {
			for e, ok := v.More(); ok; e, ok = v.More() {
				got = append(got, e)
			}
		}
		drain()
		want := func(lines ...string) {
			t.Helper()
			if have := render(got); !slices.Equal(have, lines) {
				t.Fatalf("%v, want %v", have, lines)
			}
		}
		want("opened", "1:0", "1:1", "1:2", "running 1")
		ready := make(chan Event)
		go func() { ready <- r.next(v) }()
		synctest.Wait() // it is live, and waits
		w.count(2).count(1)
		got = append(got, <-ready)
		synctest.Wait()
		drain()
		want("opened", "1:0", "1:1", "1:2", "running 1", "1:3", "1:4", "1:5")
		w.complete()
		synctest.Wait()
		drain()
		want("opened", "1:0", "1:1", "1:2", "running 1", "1:3", "1:4", "1:5", `end completed "done"`)
		if _, err := v.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func (r *rig) next(v *Viewer) Event {
	e, err := v.Next(r.t.Context())
	if err != nil {
		r.t.Error(err)
	}
	return e
}
