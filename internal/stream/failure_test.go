package stream

import (
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// An end without a marker is found within one keepalive, after what the log holds.
func TestLostMarker(t *testing.T) {
	t.Parallel()
	for name, hide := range map[string]func(execution.Entry) bool{
		"marker":          func(e execution.Entry) bool { return e.Kind == execution.EntryEnd },
		"marker and log":  func(execution.Entry) bool { return true },
		"end and chunks":  func(e execution.Entry) bool { return e.Kind == execution.EntryEnd || e.Kind == execution.EntryChunks },
		"nothing is lost": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, store.Limits{}, Params{Keepalive: 15 * time.Second}, func(r *rig) {
				w := r.submit().claim()
				v := r.record(w.id, "")
				synctest.Wait()
				r.store.set(func(m *meddler) { m.hide = hide })
				began := time.Now()
				w.complete()
				<-v.done
				if d := time.Since(began); d > 15*time.Second {
					t.Errorf("it took %v", d)
				}
				lines := render(v.all())
				if lines[len(lines)-1] != `end completed "done"` {
					t.Errorf("events %q", lines)
				}
			})
		})
	}
}

// Without a log nor a mark the status is found out at the next keepalive.
func TestLostStatus(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{WatchTTL: time.Millisecond}, Params{Keepalive: 15 * time.Second}, func(r *rig) {
		w := r.submit()
		v := r.record(w.id, "")
		synctest.Wait()
		pass(time.Second)
		w.claim()
		pass(15 * time.Second)
		v.want(r, "opened", "queued 0", "running 1")
		w.say("a").say("b").complete()
		<-v.done
		v.want(r, "opened", "queued 0", "running 1", "1:a", "1:b", `end completed "done"`)
	})
}

// An erased execution, and one that can't be read any more, end their streams within one keepalive.
func TestGone(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"erased":     {execution.Errorf(execution.CodeNotFound, "gone"), "interrupted erased"},
		"unreadable": {execution.Errorf(execution.CodeCorrupt, "bad"), "interrupted unreadable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, store.Limits{}, Params{Keepalive: 15 * time.Second}, func(r *rig) {
				v := r.record(r.submit().id, "")
				synctest.Wait()
				r.store.set(func(m *meddler) {
					m.onControls = func(c []execution.Control) error { c[0] = execution.Control{ID: c[0].ID}; return nil }
					m.onRead = func(store.ReadRequest, *store.Record) error { return tt.err }
				})
				began := time.Now()
				<-v.done
				if d := time.Since(began); d > 15*time.Second {
					t.Errorf("it took %v", d)
				}
				v.want(r, "opened", "queued 0", tt.want)
			})
		})
	}
}

// A log that was begun anew gives a gap, then all that it holds, to live viewers and to those that come back.
func TestOtherLog(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{Keepalive: 15 * time.Second}, func(r *rig) {
		w := r.submit().claim().say("a", "b")
		v := r.record(w.id, "")
		v.want(r, "opened", "1:a", "1:b", "running 1")
		r.store.set(func(m *meddler) {
			m.onControls = func(c []execution.Control) error { c[0].LogEpoch = "9"; return nil }
			m.onRead = func(_ store.ReadRequest, rec *store.Record) error { rec.Control.LogEpoch = "9"; return nil }
		})
		pass(16 * time.Second)
		v.want(r, "opened", "1:a", "1:b", "running 1", "gap", "1:a", "1:b", "running 1")
		w.say("c")
		v.want(r, "opened", "1:a", "1:b", "running 1", "gap", "1:a", "1:b", "running 1", "1:c")
		if got := v.cursorAt(8); got[:2] != "9-" {
			t.Errorf("cursor %s", got)
		}
	})
}

// A log that lost its end, under the same name, is noticed when a read fails: its viewers get a gap.
func TestRolledBack(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		w := r.submit().claim().say("a").say("b")
		v := r.record(w.id, "")
		v.want(r, "opened", "1:a", "1:b", "running 1")
		last := v.all()[2].(*Chunk).cursor.Entry
		r.store.down(true)
		w.say("c") // ends the blocked read, which then fails
		synctest.Wait()
		r.store.down(false)
		r.store.set(func(m *meddler) { m.hide = func(e execution.Entry) bool { return !e.ID.Less(last) } })
		pass(10 * time.Second)
		v.want(r, "opened", "1:a", "1:b", "running 1", "gap", "1:a", "running 1")
	})
}

// An outage that loses nothing shows no gap, and its viewers are not left in silence.
func TestOutage(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{Keepalive: 15 * time.Second}, func(r *rig) {
		w, done := r.submit().claim().say("a"), r.submit().claim().say("x")
		v, u := r.record(w.id, ""), r.record(done.id, "")
		past := r.subscribe(w.id, "")
		defer past.Close()
		synctest.Wait()
		r.store.down(true)
		w.say("b")
		pass(time.Minute)
		w.say("c")
		done.complete()
		pass(time.Minute)
		synctest.Wait()
		if n := v.keepalives(); n < 8 {
			t.Errorf("%d keepalives in two minutes", n)
		}
		if n := r.store.tails.Load() + r.store.reads.Load(); n > 100 {
			t.Errorf("%d calls in two minutes of outage", n)
		}
		r.store.down(false)
		pass(10 * time.Second)
		v.want(r, "opened", "1:a", "running 1", "1:b", "1:c")
		u.want(r, "opened", "1:x", "running 1", `end completed "done"`)
		w.say("d")
		v.want(r, "opened", "1:a", "running 1", "1:b", "1:c", "1:d")
	})
}

// A viewer that reads the past waits for a store that does not answer, and is not left in silence.
func TestOutageInThePast(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{Keepalive: 15 * time.Second}, func(r *rig) {
		w := r.submit().claim()
		for range pageLimit + 1 {
			w.count(1)
		}
		v := r.subscribe(w.id, "")
		defer v.Close()
		for range pageLimit + 1 {
			next(r, v)
		}
		r.store.down(true)
		for range 4 {
			if got := line(next(r, v)); got != "keepalive" {
				t.Fatalf("got %s", got)
			}
		}
		r.store.down(false)
		if got := line(next(r, v)); got != "1:"+itoa(pageLimit) {
			t.Fatalf("got %s", got)
		}
	})
}

// One log that can't be read is found among the others. Its viewers are told after a few tries; the others go on.
func TestIsolation(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		var works []*work
		var viewers []*tape
		for range 20 {
			w := r.submit().claim().say("a")
			works, viewers = append(works, w), append(viewers, r.record(w.id, ""))
		}
		synctest.Wait()
		bad := works[13].id
		r.store.set(func(m *meddler) {
			m.onTailRead = func(logs []store.Position) error {
				if slices.ContainsFunc(logs, func(p store.Position) bool { return p.ID == bad }) {
					return execution.Errorf(execution.CodeCorrupt, "not a log")
				}
				return nil
			}
		})
		works[0].say("b")
		pass(500 * time.Millisecond)
		works[1].say("b")
		pass(20 * time.Second)
		works[2].say("b")
		for i, v := range viewers {
			switch {
			case i < 3:
				v.want(r, "opened", "1:a", "running 1", "1:b")
			case i == 13:
				<-v.done
				v.want(r, "opened", "1:a", "running 1", "interrupted unreadable")
			default:
				v.want(r, "opened", "1:a", "running 1")
			}
		}
		if n := r.seen.maxTails.Load(); n != 1 {
			t.Errorf("%d tails at once", n)
		}
	})
}

// A log that can't be read for a moment only is read on, without a gap.
func TestPassingStrike(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		w, other := r.submit().claim().say("a"), r.submit().claim().say("x")
		v, u := r.record(w.id, ""), r.record(other.id, "")
		synctest.Wait()
		failures := 0
		r.store.set(func(m *meddler) {
			m.onTailRead = func(logs []store.Position) error {
				if !slices.ContainsFunc(logs, func(p store.Position) bool { return p.ID == w.id }) {
					return nil
				}
				if failures++; len(logs) == 1 && failures > 4 {
					m.onTailRead = nil
				}
				return execution.Errorf(execution.CodeCorrupt, "not a log")
			}
		})
		w.say("b")
		other.say("y")
		pass(20 * time.Second)
		w.say("c")
		v.want(r, "opened", "1:a", "running 1", "1:b", "1:c")
		u.want(r, "opened", "1:x", "running 1", "1:y")
		if failures < 5 {
			t.Errorf("%d failures", failures)
		}
	})
}

// A store that stops answering while a bad log is looked for strikes nobody.
func TestStoreFailsDuringIsolation(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		v := r.record(r.submit().claim().say("a").id, "")
		synctest.Wait()
		r.store.set(func(m *meddler) {
			m.onTailRead = func([]store.Position) error { return errDown }
			m.onControls = func([]execution.Control) error { return errDown }
		})
		pass(time.Minute)
		v.want(r, "opened", "1:a", "running 1")
	})
}

// What is erased, or can't be read any more, ends a viewer also while it reads the past.
func TestGoneInThePast(t *testing.T) {
	t.Parallel()
	for code, want := range map[execution.Code]string{
		execution.CodeNotFound: "interrupted erased",
		execution.CodeCorrupt:  "interrupted unreadable",
	} {
		bubble(t, store.Limits{}, Params{}, func(r *rig) {
			w := r.submit().claim()
			for range pageLimit {
				w.count(1)
			}
			v := r.subscribe(w.id, "")
			defer v.Close()
			for range pageLimit + 1 {
				next(r, v)
			}
			r.store.set(func(m *meddler) {
				m.onRead = func(store.ReadRequest, *store.Record) error { return execution.Errorf(code, "gone") }
			})
			if got := line(next(r, v)); got != want {
				t.Errorf("%s: got %s", code, got)
			}
			if _, err := v.Next(r.t.Context()); !errors.Is(err, io.EOF) {
				t.Errorf("after the last event: %v", err)
			}
		})
	}
}

// Where topic and viewer follow different logs of one execution, the topic is proved and the viewer reads on, until they agree.
func TestTopicOfAnotherLog(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		w := r.submit().claim().say("a")
		live := r.record(w.id, "")
		live.want(r, "opened", "1:a", "running 1")
		r.store.set(func(m *meddler) {
			m.onRead = func(_ store.ReadRequest, rec *store.Record) error { rec.Control.LogEpoch = "9"; return nil }
		})
		fresh := r.record(w.id, "")
		pass(5 * time.Second)
		w.say("b")
		fresh.want(r, "opened", "1:a", "running 1", "1:b")
		live.want(r, "opened", "1:a", "running 1", "gap", "1:a", "running 1", "1:b")
	})
}

// A viewer that can't reach the topic, since the log lost its end, makes the topic prove itself.
func TestTopicAheadOfLog(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		w := r.submit().claim().say("a").say("b")
		live := r.record(w.id, "")
		live.want(r, "opened", "1:a", "1:b", "running 1")
		last := live.all()[2].(*Chunk).cursor.Entry
		r.store.set(func(m *meddler) { m.hide = func(e execution.Entry) bool { return e.ID == last } })
		fresh := r.record(w.id, "")
		pass(5 * time.Second)
		w.next--
		w.say("c")
		fresh.want(r, "opened", "1:a", "running 1", "1:c")
		live.want(r, "opened", "1:a", "1:b", "running 1", "gap", "1:a", "running 1", "1:c")
		if n := r.store.reads.Load(); n > 20 {
			t.Errorf("%d reads", n)
		}
	})
}

// Where no log at all can be read, the fault is not a log's, and nobody is sent away.
func TestNoScapegoat(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		var viewers []*tape
		for range 5 {
			viewers = append(viewers, r.record(r.submit().claim().say("a").id, ""))
		}
		synctest.Wait()
		r.store.set(func(m *meddler) { m.onTailRead = func([]store.Position) error { return errDown } })
		pass(time.Minute)
		for _, v := range viewers {
			v.want(r, "opened", "1:a", "running 1")
		}
	})
}

// A viewer that came back to a place that does not tell the number of the next chunk learns of chunks that are gone before its log
// is read on.
func TestGapBehindProgress(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{HistoryChunks: 10}, Params{}, func(r *rig) {
		w := r.submit().claim().say("a").report("m")
		first := r.record(w.id, "")
		first.want(r, "opened", "1:a", "progress", "running 1")
		cursor := first.cursorAt(2)
		first.cancel()
		<-first.done
		synctest.Wait()
		once := false
		r.store.set(func(m *meddler) {
			m.onTailRead = func([]store.Position) error {
				if !once { // what is said between two reads is more than the log keeps
					once = true
					for range 30 {
						w.count(1)
					}
				}
				return nil
			}
		})
		v := r.record(w.id, cursor)
		pass(time.Second)
		if lines := render(v.all()); !slices.Contains(lines, "gap") {
			t.Errorf("chunks are missing without a gap: %q", lines)
		}
	})
}

// A viewer that took its time over what it read of the past, so that the log has lost what came next, is told so before anything
// that has a cursor: whoever breaks off behind that would never be told.
func TestGapAfterSlowPast(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{HistoryChunks: 2}, Params{}, func(r *rig) {
		w := r.submit().claim().say("a")
		v := r.subscribe(w.id, "")
		pass(time.Second)
		for range 10 {
			w.count(1)
		}
		w.report("m").count(1)
		tape := r.recordOf(v)
		pass(time.Second)
		tape.want(r, "opened", "1:a", "running 1", "gap", "progress", "1:11")
	})
}
