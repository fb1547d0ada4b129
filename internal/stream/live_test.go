package stream

import (
	"testing"

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
		if _, err := r.mem.Resume(t.Context(), store.ResumeRequest{ID: w.id, Scope: store.Scope{All: true},
			Answer: []byte("1"), Checked: w.control.WaitSequence}); err != nil {
			t.Fatal(err)
		}
		w.claim().say("d").complete()
		<-v.done
		v.want(r, "opened", "queued 0", "running 1", "1:a", "1:b", "progress", "1:c", `waiting 1 {"kind":"k"}`,
			"queued 1", "running 2", "2:d", `end completed "done"`)
	})
}
