package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/redistest"
)

// lossy starts a server on a Redis that keeps what a test saves, and nothing else.
func lossy(t *testing.T, args ...string) (*server, *redistest.Server) {
	t.Helper()
	redis := redistest.Private(t, redistest.Options{})
	return start(t, append([]string{"dev", "--redis", redis.URL(), "--addr", "127.0.0.1:0", "--lease", "2s", "--maintenance", "500ms",
		"--keepalive", "2s"}, args...)...), redis
}

// indices are the chunks that were seen, in the pieces between gaps.
func (s *sight) indices() (pieces [][]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range s.chunks {
		if i == 0 || s.breaks[i] {
			pieces = append(pieces, nil)
		}
		last := &pieces[len(pieces)-1]
		*last = append(*last, c.Payload.Index)
	}
	return pieces
}

// contiguous reports whether a piece has no hole and no repeat.
func contiguous(piece []int64) bool {
	for i := 1; i < len(piece); i++ {
		if piece[i] != piece[i-1]+1 {
			return false
		}
	}
	return true
}

// Redis comes back with an older copy of its data, in which an attempt was not claimed yet. Its viewers, those that stayed and
// those that come back by a cursor, get one gap, then the new attempt from its first chunk to its end.
func TestLostAttempt(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	s, redis := lossy(t, "--slots", "1")
	where := func() string { return s.URL }
	first := watch(t, ctx, submit(t, ctx, s.URL, "story", `{"chunks":20,"seconds":1}`), where)
	id := submit(t, ctx, s.URL, "story", `{"chunks":60,"seconds":4}`)
	v := watch(t, ctx, id, where)
	if err := first.await(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if err := redis.Client().Save(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	var seen int
	cursor, err := follow(ctx, s.URL, id, "", func(e event) bool {
		if e.Name == "chunk" {
			seen++
		}
		return seen < 20
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.await(ctx, 20); err != nil {
		t.Fatal(err)
	}
	redis.Restart()
	<-v.ended
	pieces := v.indices()
	if len(pieces) != 2 || v.gaps != 1 || len(v.ends) != 1 || v.ends[0].Name != "completed" {
		t.Fatalf("%d gaps, ends %v, chunks %v", v.gaps, v.ends, pieces)
	}
	for i, piece := range pieces {
		if !contiguous(piece) || piece[0] != 0 || i == 1 && len(piece) != 60 {
			t.Errorf("chunks %v", piece)
		}
	}
	var names []string
	if _, err := follow(ctx, s.URL, id, cursor, func(e event) bool {
		names = append(names, e.Name)
		return !e.terminal()
	}); err != nil {
		t.Fatal(err)
	}
	if names[0] != "gap" || slices.Index(names[1:], "gap") >= 0 || names[len(names)-1] != "completed" {
		t.Errorf("by its cursor a viewer got %v", names)
	}
	if got := status(t, ctx, s.URL).Store.message("restarted"); !strings.Contains(got, "epoch 2 after 1") {
		t.Errorf("/status says %q of the restart", got)
	}
	if n := strings.Count(s.logs.String(), "restarted or replaced"); n != 1 {
		t.Errorf("%d lines of the log tell of the restart", n)
	}
}

// Redis comes back without the newest chunks of an attempt that goes on. Its viewer is told wherever what it sees does not follow; where
// it had seen all that is lost, and no write was under way, that is nowhere.
func TestLostChunks(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	s, redis := lossy(t)
	v := watch(t, ctx, submit(t, ctx, s.URL, "story", `{"chunks":60,"seconds":4}`), func() string { return s.URL })
	if err := v.await(ctx, 10); err != nil {
		t.Fatal(err)
	}
	if err := redis.Client().Save(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if err := v.await(ctx, 25); err != nil {
		t.Fatal(err)
	}
	redis.Restart()
	<-v.ended
	pieces := v.indices()
	for _, piece := range pieces {
		if !contiguous(piece) {
			t.Errorf("chunks %v", piece)
		}
	}
	if last := pieces[len(pieces)-1]; v.gaps < len(pieces)-1 || v.gaps > 2 || pieces[0][0] != 0 || len(v.ends) != 1 || last[len(last)-1] != 59 {
		t.Errorf("%d gaps, ends %v, chunks %v", v.gaps, v.ends, pieces)
	}
}
