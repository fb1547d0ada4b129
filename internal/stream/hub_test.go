package stream

import (
	"context"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/memory"
)

// A hub says what is wrong with its parameters.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Config{})
	for name, p := range map[string]Params{
		"no store":           {},
		"negative keepalive": {Store: s, Keepalive: -1},
		"negative bound":     {Store: s, BufferBytes: -1},
	} {
		if _, err := New(p); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Without metrics and logger a hub works as well, and needs nobody to run it for a viewer of what has ended.
func TestDefaults(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Config{})
	h, err := New(Params{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, mem: s, hub: h}
	w := r.submit().claim().say("a").complete()
	v := r.record(w.id, "")
	<-v.done
	if got := line(v.all()[2]); got != `end completed "done"` {
		t.Errorf("got %s", got)
	}
	h.Close()
}

// A viewer whose context ends may be asked again, and one that was closed has nothing more.
func TestNextAgain(t *testing.T) {
	t.Parallel()
	bubble(t, store.Limits{}, Params{}, func(r *rig) {
		w := r.submit().claim()
		v := r.subscribe(w.id, "")
		for range 2 {
			next(r, v)
		}
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
		defer cancel()
		if _, err := v.Next(ctx); err != context.DeadlineExceeded {
			t.Errorf("Next = %v", err)
		}
		w.say("a")
		if got := line(next(r, v)); got != "1:a" {
			t.Errorf("got %s", got)
		}
		v.Close()
		v.Close()
		if _, err := v.Next(r.t.Context()); err == nil {
			t.Error("a closed viewer got an event")
		}
	})
}

// Every reason has a sentence for clients.
func TestReasons(t *testing.T) {
	t.Parallel()
	seen := map[string]Reason{}
	for _, r := range []Reason{ReasonShutdown, ReasonSlow, ReasonUnreadable, ReasonErased, "other"} {
		if other, ok := seen[r.Detail()]; ok {
			t.Errorf("%s and %s say the same", r, other)
		}
		seen[r.Detail()] = r
	}
}

// Waits after failures grow up to a bound, and keepalives are never late.
func TestJitter(t *testing.T) {
	t.Parallel()
	for n := 1; n < 100; n++ {
		want := min(100*time.Millisecond<<min(n-1, 10), 5*time.Second)
		if d := backoff(n); d < want/2 || d > want {
			t.Errorf("backoff(%d) = %v, want at most %v", n, d, want)
		}
		if d := shorten(time.Minute); d < 48*time.Second || d > time.Minute {
			t.Errorf("shorten(1m) = %v", d)
		}
	}
}
