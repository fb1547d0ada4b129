package stream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// The lanes as the runtime has them.
const (
	flushes = iota
	commits
)

// here is what the worker of an execution tells a hub of its own process.
type here struct {
	feed *Feed
	busy [feedLanes]chan struct{} // closed when the lane is free
	// fate settles an exchange, now or later; nil: now.
	fate func(lane int, settle func(whole bool))
}

func (w *work) moveHere() *here {
	w.here = &here{}
	return w.here
}

func (h *here) begin(w *work) {
	if h != nil {
		h.feed, h.busy = w.hub.Feed(w.id, w.control.Attempt), [feedLanes]chan struct{}{}
	}
}

func (h *here) sending(lane int) {
	if h == nil || h.feed == nil {
		return
	}
	if busy := h.busy[lane]; busy != nil {
		<-busy
	}
	h.feed.Sending(lane)
}

func (h *here) settle(lane int, epoch string, log []execution.Entry) {
	if h == nil || h.feed == nil {
		return
	}
	feed, busy := h.feed, make(chan struct{})
	h.busy[lane] = busy
	settle := func(whole bool) {
		if !whole {
			log = nil
		}
		feed.Settled(lane, epoch, log, whole)
		close(busy)
	}
	if h.fate == nil {
		settle(true)
		return
	}
	h.fate(lane, settle)
}

func (h *here) end() {
	if h != nil && h.feed != nil {
		h.feed.Close()
		h.feed = nil
	}
}

// traffic is what a hub asked its store for.
type traffic struct{ Reads, TailReads int64 }

func (r *rig) traffic() traffic { return traffic{r.store.reads.Load(), r.store.tailReads.Load()} }

// local runs a test with an execution whose worker is in the hub's process, and a viewer that has seen the beginning.
func local(t *testing.T, test func(r *rig, w *work, v *tape)) {
	t.Helper()
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		w := r.submit()
		w.moveHere()
		w.claim()
		v := r.record(w.id, "")
		synctest.Wait()
		w.say("a")
		v.want(r, "opened", "running 1", "1:a")
		test(r, w, v)
	})
}

// A viewer in the worker's process costs nothing between its first sight of the log and the end.
func TestFeedReadsNothing(t *testing.T) {
	local(t, func(r *rig, w *work, v *tape) {
		before := r.traffic()
		w.say("b", "c").report("m")
		for range 100 {
			w.say("d")
			pass(50 * time.Millisecond)
		}
		if diff := cmp.Diff(before, r.traffic()); diff != "" {
			t.Errorf("the store was asked (-before +after):\n%s", diff)
		}
		w.complete()
		<-v.done
		lines := render(v.all())
		if n := len(lines); n != 107 || lines[5] != "progress" || lines[n-1] != `end completed "done"` {
			t.Errorf("events %q", lines)
		}
		before.Reads++ // of what it ended as
		if diff := cmp.Diff(before, r.traffic()); diff != "" {
			t.Errorf("the store was asked (-want +got):\n%s", diff)
		}
	})
}

// What viewers see does not depend on where they are: not their cursors, nor the bytes.
func TestFeedAsElsewhere(t *testing.T) {
	local(t, func(r *rig, w *work, v *tape) {
		other, err := New(Params{Store: r.mem})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		there, err := other.Subscribe(t.Context(), Request{ID: w.id, Scope: store.Scope{All: true}})
		if err != nil {
			t.Fatal(err)
		}
		u := r.recordOf(there)
		w.say("b").report("m").say("c", "d").suspend()
		synctest.Wait()
		second := r.record(w.id, "")
		if _, err := r.mem.Cancel(t.Context(), w.id, store.Scope{All: true}, ""); err != nil {
			t.Fatal(err)
		}
		<-v.done
		<-u.done
		<-second.done
		for _, other := range []*tape{u, second} {
			if diff := cmp.Diff(placed(other.all()), placed(v.all())); diff != "" {
				t.Errorf("events (-another +here):\n%s", diff)
			}
		}
	})
}

// placed are the events that the log tells of, with their cursors.
func placed(events []Event) []string {
	var out []string
	for _, e := range events[1:] {
		if c, ok := e.Cursor(); ok && (c.End || !c.Entry.IsZero()) {
			out = append(out, c.String()+" "+line(e))
		}
	}
	return out
}

// Replies that overtake one another are told in the order of the log.
func TestFeedOrder(t *testing.T) {
	local(t, func(r *rig, w *work, v *tape) {
		var late func(bool)
		w.here.fate = func(lane int, settle func(bool)) {
			if lane == flushes {
				late = settle
				return
			}
			settle(true)
		}
		w.say("b").report("m")
		v.want(r, "opened", "running 1", "1:a")
		late(true)
		v.want(r, "opened", "running 1", "1:a", "1:b", "progress")
	})
}

// Whenever the feed can't tell all, the log is read from where the viewer stands; once it can again, the log is left alone.
func TestFeedInDoubt(t *testing.T) {
	t.Parallel()
	t.Run("a flush of unknown outcome", func(t *testing.T) {
		local(t, func(r *rig, w *work, v *tape) {
			var late func(bool)
			w.here.fate = func(lane int, settle func(bool)) {
				late = settle
				w.here.feed.Unknown(lane)
			}
			w.say("b")
			v.want(r, "opened", "running 1", "1:a", "1:b")
			w.here.fate = nil
			w.report("m")
			v.want(r, "opened", "running 1", "1:a", "1:b", "progress")
			late(true)
			quiet(r, w, v, "opened", "running 1", "1:a", "1:b", "progress")
		})
	})
	t.Run("a transition of which nobody tells", func(t *testing.T) {
		local(t, func(r *rig, w *work, v *tape) {
			w.here.fate = func(_ int, settle func(bool)) { settle(false) }
			w.report("m")
			v.want(r, "opened", "running 1", "1:a", "progress")
			w.here.fate = nil
			quiet(r, w, v, "opened", "running 1", "1:a", "progress")
		})
	})
	t.Run("another log", func(t *testing.T) {
		local(t, func(r *rig, w *work, v *tape) {
			w.here.feed.Settled(commits, "7", []execution.Entry{{ID: execution.LogID{Ms: 1}, Kind: execution.EntryProgress,
				Data: []byte("{}")}}, true)
			w.say("b")
			v.want(r, "opened", "running 1", "1:a", "1:b")
			quiet(r, w, v, "opened", "running 1", "1:a", "1:b")
		})
	})
}

// quiet says two more chunks. The log is at most read for the first one.
func quiet(r *rig, w *work, v *tape, before ...string) {
	r.t.Helper()
	w.say("x")
	v.want(r, append(before, "1:x")...)
	asked := r.traffic()
	w.say("y")
	v.want(r, append(before, "1:x", "1:y")...)
	if diff := cmp.Diff(asked, r.traffic()); diff != "" {
		r.t.Errorf("the store was asked (-before +after):\n%s", diff)
	}
}

// A worker that does not own the execution any more has no say in what viewers see.
func TestFeedAfterTakeover(t *testing.T) {
	local(t, func(r *rig, w *work, v *tape) {
		stale := w.here
		w.here = nil
		w.release().claim().say("b")
		v.want(r, "opened", "running 1", "1:a")
		stale.feed.Settled(flushes, "", nil, true)
		stale.end()
		v.want(r, "opened", "running 1", "1:a", "queued 1", "running 2", "2:b")
		stale.feed = nil
		w.say("c").complete()
		<-v.done
		v.want(r, "opened", "running 1", "1:a", "queued 1", "running 2", "2:b", "2:c", `end completed "done"`)
	})
}

// A feed holds nothing but what is on its way, also where nobody follows.
func TestFeedHoldsNothing(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		w := r.submit()
		f := w.moveHere()
		w.claim().count(50).report("m").count(50)
		if f.feed.held != nil || f.feed.topic != nil {
			t.Errorf("%d entries are held", len(f.feed.held))
		}
		w.complete()
		if len(r.hub.feeds) != 0 {
			t.Errorf("%d feeds are left", len(r.hub.feeds))
		}
	})
}

// What nobody told of stands before what was sent afterwards, and only before that.
func TestFeedHole(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		f := r.hub.Feed("x", 1)
		chunk := func(ms uint64) []execution.Entry {
			return []execution.Entry{{ID: execution.LogID{Ms: ms}, Kind: execution.EntryChunks}}
		}
		f.Sending(flushes)
		f.Sending(commits)
		f.Settled(commits, "", nil, false)
		f.Settled(flushes, "", chunk(1), true)
		if !f.hole {
			t.Error("a flush that was on its way then hides what was left in the log")
		}
		f.Sending(flushes)
		f.Settled(flushes, "", chunk(3), true)
		if f.hole || f.gone != (execution.LogID{Ms: 3}) {
			t.Errorf("hole %v, gone %v after a flush that was sent later", f.hole, f.gone)
		}
		f.Close()
	})
}
