package stream

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// Viewers that come, break off, come back by their cursors and fall behind, while the store fails now and then, all see the log as
// it was written, byte for byte; where history is bounded, they see a gap wherever something is missing.
func TestRandomJoinsAndCuts(t *testing.T) {
	t.Parallel()
	all, some := store.Limits{HistoryChunks: 1_000_000, HistoryBytes: 1 << 30}, store.Limits{HistoryChunks: 60}
	tests := map[string]struct {
		limits store.Limits
		whole  bool
		here   bool // the workers are in the hub's process
	}{
		"all history is kept":                       {all, true, false},
		"history is bounded":                        {some, false, false},
		"all history is kept, the workers are here": {all, true, true},
		"history is bounded, the workers are here":  {some, false, true},
	}
	for name, tt := range tests {
		for seed := range uint64(15) {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				t.Parallel()
				p := Params{BufferEvents: 40, GroupSize: 2, Keepalive: 2 * time.Second}
				bubble(t, tt.limits, p, func(r *rig) { scenario(r, seed, tt.whole, tt.here) })
			})
		}
	}
}

func scenario(r *rig, seed uint64, whole, here bool) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	var all sync.WaitGroup
	for i := range 3 {
		w := &script{work: r.submit(), rnd: rand.New(rand.NewPCG(seed, uint64(10+i)))}
		if here {
			w.moveHere().fate = w.fate
		}
		var restless []*restless
		for j := range 4 {
			v := newRestless(r, w.id, rand.New(rand.NewPCG(seed, uint64(100*i+j))))
			restless = append(restless, v)
			all.Go(v.run)
		}
		all.Go(func() {
			w.run()
			for _, v := range restless {
				<-v.done
				v.check(w, whole)
			}
		})
	}
	for range 4 {
		pass(time.Duration(rnd.IntN(1500)) * time.Millisecond)
		r.store.down(true)
		pass(time.Duration(rnd.IntN(1500)) * time.Millisecond)
		r.store.down(false)
	}
	all.Wait()
}

// script is a worker that does this and that, and remembers what it said.
type script struct {
	*work
	rnd  *rand.Rand
	said []string
}

// fate is what becomes of a reply: it comes at once, late, after a try whose outcome is not known, or does not tell all.
func (s *script) fate(lane int, settle func(whole bool)) {
	n := s.rnd.IntN(20)
	if n >= 17 {
		s.here.feed.Unknown(lane)
	}
	if n < 8 {
		settle(true)
		return
	}
	d := time.Duration(s.rnd.IntN(150)) * time.Millisecond
	go func() {
		pass(d)
		settle(n != 19)
	}()
}

func (s *script) run() {
	s.claim()
	for range 150 {
		switch n := s.rnd.IntN(20); {
		case n < 14:
			count := 1 + s.rnd.IntN(4)
			for i := range count {
				s.said = append(s.said, fmt.Sprintf("%d:%d", s.control.Attempt, s.next+int64(i)))
			}
			s.count(count)
		case n < 16:
			s.said = append(s.said, "progress")
			s.report("m")
		case n < 17 && s.control.Claims < 15:
			s.release().claim()
		default:
			pass(time.Duration(s.rnd.IntN(200)) * time.Millisecond)
		}
	}
	s.complete()
}

// restless is a viewer that breaks off and comes back until it has seen the end.
type restless struct {
	*rig
	id   string
	rnd  *rand.Rand
	done chan struct{}

	cursor execution.Cursor
	seen   []Event
	err    error
}

func newRestless(r *rig, id string, rnd *rand.Rand) *restless {
	return &restless{rig: r, id: id, rnd: rnd, done: make(chan struct{})}
}

func (v *restless) run() {
	defer close(v.done)
	cursor := ""
	for range 10_000 {
		pass(time.Duration(v.rnd.IntN(300)) * time.Millisecond)
		viewer, err := v.hub.Subscribe(v.t.Context(), Request{ID: v.id, Scope: store.Scope{All: true}, Cursor: cursor})
		if execution.Is(err, execution.CodeUnavailable) {
			continue
		}
		if err != nil {
			v.err = err
			return
		}
		over := v.session(viewer)
		viewer.Close()
		if over || v.err != nil {
			return
		}
		cursor = v.cursor.String()
	}
	v.err = errors.New("it never saw the end")
}

// session reads some events and reports whether the end was among them.
func (v *restless) session(viewer *Viewer) bool {
	for range 1 + v.rnd.IntN(80) {
		if v.rnd.IntN(10) == 0 {
			pass(time.Duration(v.rnd.IntN(400)) * time.Millisecond)
		}
		e, err := viewer.Next(v.t.Context())
		if errors.Is(err, io.EOF) {
			return false
		}
		if err != nil {
			v.err = err
			return false
		}
		if v.note(e); final(e) {
			_, ended := e.(*End)
			return ended
		}
	}
	return false
}

// note keeps what the viewer is told. Cursors strictly grow, but for the one that a session opens with.
func (v *restless) note(e Event) {
	switch e.(type) {
	case *Chunk, *Progress, *Gap, *End:
		v.seen = append(v.seen, e)
	}
	c, placed := e.Cursor()
	if !placed {
		return
	}
	grows := v.cursor.Entry.Less(c.Entry) || v.cursor.Entry == c.Entry && v.cursor.Chunk < c.Chunk
	if _, opened := e.(*Opened); opened {
		grows = v.cursor.Epoch == "" || v.cursor == c
	}
	if !grows && !c.End {
		v.err = fmt.Errorf("cursor %s after %s", c, v.cursor)
	}
	v.cursor = c
}

func (v *restless) check(w *script, whole bool) {
	if v.err != nil {
		v.t.Errorf("viewer: %v", v.err)
		return
	}
	got := render(v.seen)
	want := append(slices.Clone(w.said), `end completed "done"`)
	if whole {
		if diff := cmp.Diff(want, got); diff != "" {
			v.t.Errorf("events (-want +got):\n%s", diff)
		}
		return
	}
	v.checkGaps(got, slices.DeleteFunc(want, isProgress))
}

// checkGaps holds that wherever chunks are missing there is a gap, but where all that is missing was said by attempts before the one
// that follows from its beginning: that is void. Progress also stands in the projection, so missing it is no loss.
func (v *restless) checkGaps(got, rest []string) {
	gap := false
	for _, line := range slices.DeleteFunc(got, isProgress) {
		if line == "gap" {
			gap = true
			continue
		}
		at := slices.Index(rest, line)
		if at < 0 || at > 0 && !gap && !strings.HasSuffix(line, ":0") {
			v.t.Errorf("%q does not follow: %d are missing, without a gap", line, at)
			return
		}
		rest, gap = rest[at+1:], false
	}
	if len(rest) > 0 {
		v.t.Errorf("%d events are missing at the end", len(rest))
	}
}

func isProgress(line string) bool { return line == "progress" }
