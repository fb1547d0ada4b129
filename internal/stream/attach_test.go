package stream

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// pass lets virtual time go by.
func pass(d time.Duration) { <-time.After(d) }

// Where viewers of a finished execution begin, and what they get: what the log holds after the cursor, then one end.
func TestTerminal(t *testing.T) {
	t.Parallel()
	const done = `end completed "done"`
	tests := []struct {
		name   string
		cursor func(all *tape) string
		gone   bool // the log has expired
		want   []string
	}{
		{"fresh", func(*tape) string { return "" }, false, []string{"opened", "queued 0", "running 1", "1:a", "1:b", done}},
		{"from the beginning", func(a *tape) string { return a.cursorAt(0) }, false, []string{"opened", "running 1", "1:a", "1:b", done}},
		{"inside an entry", func(a *tape) string { return a.cursorAt(3) }, false, []string{"opened", "1:b", done}},
		{"after the last chunk", func(a *tape) string { return a.cursorAt(4) }, false, []string{"opened", done}},
		{"after the end of another log", func(*tape) string { return "5-end" }, false, []string{"opened", "gap", "running 1", "1:a", "1:b", done}},
		{"fresh, log gone", func(*tape) string { return "" }, true, []string{"opened", "gap", done}},
		{"inside, log gone", func(a *tape) string { return a.cursorAt(3) }, true, []string{"opened", "gap", done}},
		{"after the end of another log, log gone", func(*tape) string { return "5-end" }, true, []string{"opened", "gap", done}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, store.Limits{}, Params{}, func(r *rig) {
				w := r.submit()
				all := r.record(w.id, "")
				synctest.Wait()
				w.claim().say("a", "b").complete()
				<-all.done
				if tt.gone {
					pass(2 * time.Hour)
				}
				got := r.record(w.id, tt.cursor(all))
				<-got.done
				want := tt.want
				if want[1] == "queued 0" {
					want = append([]string{"opened"}, want[2:]...) // the log does not hold what was told at its beginning
				}
				got.want(r, want...)
			})
		})
	}
}

// Exactly the cursor after the end leaves nothing to say, with and without a log.
func TestNothingMore(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		logged, plain := r.submit().claim().say("a").complete(), r.submit().claim().complete()
		for _, w := range []*work{logged, plain} {
			v := r.record(w.id, "")
			<-v.done
			last := v.cursorAt(len(v.all()) - 1)
			_, err := r.hub.Subscribe(r.t.Context(), Request{ID: w.id, Scope: store.Scope{All: true}, Cursor: last})
			if !errors.Is(err, ErrNothingMore) {
				t.Errorf("from %s: %v", last, err)
			}
		}
		if last := r.record(plain.id, ""); last != nil {
			<-last.done
			last.want(r, "opened", `end completed "done"`)
			if got := last.cursorAt(1); got != "0-end" {
				t.Errorf("end without a log has cursor %s", got)
			}
		}
	})
}

// What can't be followed is refused with a code.
func TestSubscribeRefuses(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		w := r.submit()
		all := store.Scope{All: true}
		tests := []struct {
			name string
			req  Request
			want execution.Code
		}{
			{"no such id", Request{ID: r.mem.NewID(store.Key{}), Scope: all}, execution.CodeNotFound},
			{"not an id", Request{ID: "x", Scope: all}, execution.CodeNotFound},
			{"another owner's", Request{ID: w.id, Scope: store.Scope{Owner: "p"}}, execution.CodeNotFound},
			{"not a cursor", Request{ID: w.id, Scope: all, Cursor: "1-2"}, execution.CodeCursorInvalid},
		}
		for _, tt := range tests {
			if _, err := r.hub.Subscribe(r.t.Context(), tt.req); !execution.Is(err, tt.want) {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
		r.store.down(true)
		if _, err := r.hub.Subscribe(r.t.Context(), Request{ID: w.id, Scope: all}); !execution.Is(err, execution.CodeUnavailable) {
			t.Errorf("store down: %v", err)
		}
		if n := r.seen.viewers.Load(); n != 0 {
			t.Errorf("%d viewers are left", n)
		}
	})
}

// The owner may look.
func TestSubscribeOwner(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		w := r.submit()
		v, err := r.hub.Subscribe(r.t.Context(), Request{ID: w.id, Scope: store.Scope{Owner: "o"}})
		if err != nil {
			t.Fatal(err)
		}
		v.Close()
	})
}

// A long history comes page by page, and goes over into what is live.
func TestPages(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		w := r.submit().claim()
		want := []string{"opened"}
		for i := range 3*pageLimit + 7 {
			w.count(1)
			want = append(want, line(&Chunk{Attempt: 1, Payload: []byte(itoa(i))}))
		}
		want = append(want, "running 1")
		v := r.record(w.id, "")
		v.want(r, want...)
		w.count(1)
		v.want(r, append(want, line(&Chunk{Attempt: 1, Payload: []byte(itoa(3*pageLimit + 7))}))...)
		if n := r.store.reads.Load(); n != 4 {
			t.Errorf("%d reads for 4 pages", n)
		}
	})
}

// A log that is trimmed while a viewer reads its pages gives a gap.
func TestTrimmedBetweenPages(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{HistoryChunks: 300}, Params{}, func(r *rig) {
		w := r.submit().claim()
		for range 300 {
			w.count(1)
		}
		v := r.subscribe(w.id, "")
		defer v.Close()
		next, gaps := 0, 0
		for next < 800 {
			e, err := v.Next(r.t.Context())
			if err != nil {
				t.Fatal(err)
			}
			switch e := e.(type) {
			case *Chunk:
				if got := string(e.Payload); got != itoa(next) && gaps == 0 {
					t.Fatalf("chunk %s where %d comes next", got, next)
				}
				if next++; next == pageLimit {
					w.count(600)
				}
			case *Gap:
				gaps++
				next = 200 // what was kept begins with the batch of 600
			}
		}
		if gaps != 1 {
			t.Fatalf("%d gaps", gaps)
		}
	})
}
