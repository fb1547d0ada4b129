package stream

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windrow-run/windrow/internal/store"
)

// A viewer that is there from the beginning sees everything once, in order, and one end.
func TestWhole(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		w := r.submit()
		v := r.record(w.id, "")
		v.want(r, "opened", "queued 0")
		w.claim().say("a", "b").report("half")
		v.want(r, "opened", "queued 0", "running 1", "1:a", "1:b", "progress")
		w.say("c").suspend()
		v.want(r, "opened", "queued 0", "running 1", "1:a", "1:b", "progress", "1:c", `waiting 1 {"kind":"k"}`)
		if _, err := r.mem.Resume(r.t.Context(), store.ResumeRequest{ID: w.id, Scope: store.Scope{All: true},
			Answer: []byte("1"), Checked: w.control.WaitSequence}); err != nil {
			t.Fatal(err)
		}
		w.claim().say("d").complete()
		<-v.done
		v.want(r, "opened", "queued 0", "running 1", "1:a", "1:b", "progress", "1:c", `waiting 1 {"kind":"k"}`,
			"queued 1", "running 2", "2:d", `end completed "done"`)
	})
}

// Events reach a viewer without any time going by, also where its execution joins a read that is blocked already.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		first, second := r.submit().claim(), r.submit().claim()
		a := r.record(first.id, "")
		synctest.Wait()
		b := r.record(second.id, "")
		synctest.Wait()
		began := time.Now()
		first.say("a")
		second.say("b")
		a.want(r, "opened", "running 1", "1:a")
		b.want(r, "opened", "running 1", "1:b")
		if d := time.Since(began); d > 0 {
			t.Errorf("it took %v", d)
		}
		if n := r.seen.tails.Load(); n != 1 {
			t.Errorf("%d tails", n)
		}
	})
}

// A thousand viewers of one execution share one tail, one topic and the reading of the outcome. Nothing of them stays.
func TestThousandViewers(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		w := r.submit().claim()
		var viewers []*tape
		for range 1000 {
			viewers = append(viewers, r.record(w.id, ""))
		}
		synctest.Wait()
		reads := r.store.reads.Load()
		w.say("a").say("b").complete()
		for _, v := range viewers {
			<-v.done
			v.want(r, "opened", "running 1", "1:a", "1:b", `end completed "done"`)
		}
		// One to learn the name of the log at its first entry, one for the outcome.
		if n := r.store.reads.Load() - reads; n > 2 {
			t.Errorf("%d reads for 1,000 viewers", n)
		}
		if n := r.store.tails.Load(); n != 1 {
			t.Errorf("%d tails were opened", n)
		}
		pass(2 * lingerTime)
		synctest.Wait()
		if r.seen.tails.Load() != 0 || r.seen.viewers.Load() != 0 || len(r.hub.topics) != 0 || r.hub.open != 0 {
			t.Errorf("left: %d tails, %d viewers, %d topics, %d groups", r.seen.tails.Load(), r.seen.viewers.Load(), len(r.hub.topics), r.hub.open)
		}
	})
}

// What viewers of the same execution get is the same event, decoded once, and rendered once.
func TestSharedEvents(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		w := r.submit().claim().say("a")
		a, b := r.record(w.id, ""), r.record(w.id, "")
		synctest.Wait()
		w.say("b")
		a.want(r, "opened", "1:a", "running 1", "1:b")
		x, y := a.all()[3], b.all()[3]
		if x != y {
			t.Fatal("two viewers got two events")
		}
		x.Frame(func() []byte { return []byte("frame") })
		if got := y.Frame(func() []byte { t.Error("rendered again"); return nil }); string(got) != "frame" {
			t.Fatalf("frame %q", got)
		}
	})
}

// A viewer that does not read is cut, while others go on, and catches up by its cursor without a gap.
func TestSlowViewer(t *testing.T) {
	t.Parallel()
	tests := map[string]Params{"events": {BufferEvents: 10}, "bytes": {BufferBytes: 10 * overhead}}
	for name, p := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, store.Limits{}, p, func(r *rig) {
				w := r.submit().claim().say("a")
				slow, fast := r.subscribe(w.id, ""), r.record(w.id, "")
				defer slow.Close()
				var got []Event
				for range 3 { // opened, chunk, status: the next one finds it live
					got = append(got, next(r, slow))
				}
				stand(slow)
				want := []string{"opened", "1:a", "running 1"}
				for i := range 30 {
					synctest.Wait()
					w.say(itoa(i))
					want = append(want, "1:"+itoa(i))
				}
				fast.want(r, want...)
				e := next(r, slow)
				if line(e) != "interrupted slow" {
					t.Fatalf("the slow viewer got %s", line(e))
				}
				if slow.gate.Load() != nil || slow.queue != nil {
					t.Error("it still holds events")
				}
				c, _ := got[1].Cursor()
				again := r.record(w.id, c.String())
				again.want(r, append(append([]string{"opened"}, want[3:]...), "running 1")...)
			})
		})
	}
}

// stand makes the viewer live without waiting for an event.
func stand(v *Viewer) {
	for v.topic == nil {
		if err := v.fill(v.hub.ctx); err != nil {
			panic(err)
		}
	}
}

func next(r *rig, v *Viewer) Event {
	r.t.Helper()
	e, err := v.Next(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

// Silence is broken before the keepalive has passed, and no more often than it takes.
func TestKeepalive(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{Keepalive: 15 * time.Second}, func(r *rig) {
		v := r.record(r.submit().id, "")
		for range 4 {
			before := v.keepalives()
			pass(15 * time.Second)
			synctest.Wait()
			if n := v.keepalives() - before; n < 1 || n > 2 {
				t.Fatalf("%d keepalives in 15 s", n)
			}
		}
		v.want(r, "opened", "queued 0")
	})
}

// Many executions need few tails: one for each GroupSize, and no more than TailConnections, and all get their events.
func TestGroups(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		p     Params
		tails int64
	}{
		{"as many groups as it takes", Params{GroupSize: 10}, 5},
		{"as many groups as there may be", Params{GroupSize: 10, TailConnections: 2}, 2},
		{"one group", Params{}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, store.Limits{}, tt.p, func(r *rig) {
				r.store.set(func(m *meddler) {
					m.onTailRead = func(logs []store.Position) error {
						if len(logs) > r.hub.p.GroupSize {
							t.Errorf("%d logs in one read", len(logs))
						}
						return nil
					}
				})
				var works []*work
				var viewers []*tape
				for range 50 {
					w := r.submit().claim()
					works, viewers = append(works, w), append(viewers, r.record(w.id, ""))
				}
				synctest.Wait()
				for i, w := range works {
					w.say(itoa(i))
				}
				pass(10 * turnWait)
				for i, v := range viewers {
					v.want(r, "opened", "running 1", fmt.Sprint("1:", i))
				}
				if n := r.seen.maxTails.Load(); n != tt.tails {
					t.Errorf("%d tails, want %d", n, tt.tails)
				}
			})
		})
	}
}

// Closing the hub ends every viewer with a word, wherever it stands, and later ones are refused.
func TestClose(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		w := r.submit().claim().say("a")
		live, past := r.record(w.id, ""), r.subscribe(w.id, "")
		synctest.Wait()
		r.hub.Close()
		<-live.done
		live.want(r, "opened", "1:a", "running 1", "interrupted shutdown")
		if got := line(next(r, past)); got != "interrupted shutdown" {
			t.Errorf("a viewer in the past got %s", got)
		}
		past.Close()
		if _, err := r.hub.Subscribe(r.t.Context(), Request{ID: w.id, Scope: store.Scope{All: true}}); err == nil {
			t.Error("a closed hub took a viewer")
		}
		r.hub.Close()
	})
}
