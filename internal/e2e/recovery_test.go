package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/redistest"
)

// chunkData is the data of a chunk event of the story.
type chunkData struct {
	Attempt int64
	Payload struct{ Index int64 }
}

// sight is what one viewer saw of a story, over all its connections.
type sight struct {
	t        testing.TB
	mu       sync.Mutex
	chunks   []chunkData   // guarded by mu
	gaps     int           // guarded by mu
	breaks   map[int]bool  // by place in chunks: it follows a gap; guarded by mu
	ends     []event       // guarded by mu
	first    chan struct{} // closed at the first chunk
	advanced chan struct{} // one token whenever something new was seen
}

func newSight(t testing.TB) *sight {
	return &sight{t: t, breaks: map[int]bool{}, first: make(chan struct{}), advanced: make(chan struct{}, 1)}
}

func (s *sight) see(e event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.Name == "chunk":
		var c chunkData
		if err := json.Unmarshal([]byte(e.Data), &c); err != nil {
			s.t.Errorf("chunk: %v: %s", err, e.Data)
		}
		s.chunks = append(s.chunks, c)
		if len(s.chunks) == 1 {
			close(s.first)
		}
	case e.Name == "gap":
		s.gaps++
		s.breaks[len(s.chunks)] = true
	case e.terminal():
		s.ends = append(s.ends, e)
	}
	select {
	case s.advanced <- struct{}{}:
	default:
	}
	return !e.terminal()
}

// last is the newest chunk seen.
func (s *sight) last() chunkData {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chunks[len(s.chunks)-1]
}

// await blocks until a chunk with at least that index was seen.
func (s *sight) await(ctx context.Context, index int64) error {
	for {
		s.mu.Lock()
		ok := len(s.chunks) > 0 && s.chunks[len(s.chunks)-1].Payload.Index >= index
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-s.advanced:
		case <-ctx.Done():
			return fmt.Errorf("chunk %d never came: %w", index, ctx.Err())
		}
	}
}

// checkContiguous asserts invariant 6 on what was seen: within an attempt the chunks follow one another, or a gap, and no
// attempt comes back once a newer one was seen.
func (s *sight) checkContiguous() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 1; i < len(s.chunks); i++ {
		a, b := s.chunks[i-1], s.chunks[i]
		skipped := b.Payload.Index - a.Payload.Index - 1
		if b.Attempt < a.Attempt || b.Attempt == a.Attempt && (skipped < 0 || skipped > 0 && !s.breaks[i]) {
			s.t.Errorf("chunk %d of attempt %d follows chunk %d of attempt %d", b.Payload.Index, b.Attempt, a.Payload.Index, a.Attempt)
		}
	}
}

// attempts is the first chunk of each attempt that was seen.
func (s *sight) attempts() map[int64]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := map[int64]int64{}
	for _, c := range s.chunks {
		if _, ok := first[c.Attempt]; !ok {
			first[c.Attempt] = c.Payload.Index
		}
	}
	return first
}

// viewer follows one execution over restarts: it reconnects with its last id to whatever server is given next.
type viewer struct {
	*sight
	id     string
	cursor string
	ended  chan struct{}
}

// run follows until a terminal event came, asking where for the server before each connection.
func (v *viewer) run(ctx context.Context, where func() string) {
	defer close(v.ended)
	for ctx.Err() == nil {
		cursor, _ := follow(ctx, where(), v.id, v.cursor, v.see)
		v.cursor = cursor
		v.mu.Lock()
		over := len(v.ends) > 0
		v.mu.Unlock()
		if over {
			return
		}
	}
}

func watch(t testing.TB, ctx context.Context, id string, where func() string) *viewer {
	v := &viewer{sight: newSight(t), id: id, ended: make(chan struct{})}
	go v.run(ctx, where)
	t.Cleanup(func() { <-v.ended })
	return v
}

const paragraph = 30 // chunks of a story of 300 between two checkpoints

// A story whose server is killed at a random moment goes on from its last checkpoint after a restart, with one more
// attempt, and its viewer sees what followed and exactly one end. Twenty times.
func TestKilledServer(t *testing.T) {
	redis := redistest.Private(t, redistest.Options{AppendFsync: "everysec"})
	var wg sync.WaitGroup
	for i := range 20 { // all at once: each mostly waits
		wg.Go(func() {
			t.Run(fmt.Sprint(i), func(t *testing.T) { killOnce(t, redis.URL(), redistest.Prefix(t)) })
		})
	}
	wg.Wait()
}

func killOnce(t *testing.T, redisURL, prefix string) {
	ctx := within(t, 2*time.Minute)
	args := []string{"dev", "--redis", redisURL, "--key-prefix", prefix, "--addr", "127.0.0.1:0", "--lease", "3s"}
	first := start(t, args...)
	var mu sync.Mutex
	current := first
	where := func() string { mu.Lock(); defer mu.Unlock(); return current.URL }

	id := submit(t, ctx, first.URL, "story", `{"chunks":300,"seconds":10}`)
	v := watch(t, ctx, id, where)
	killAt := rand.Int64N(9*paragraph - 1)
	if err := v.await(ctx, killAt); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	first.kill()
	seen := v.last().Payload.Index
	second := start(t, args...)
	current = second
	mu.Unlock()
	<-v.ended

	v.checkContiguous()
	if len(v.ends) != 1 || v.ends[0].Name != "completed" {
		t.Fatalf("ends: %+v", v.ends)
	}
	var p projection
	if err := json.Unmarshal([]byte(v.ends[0].Data), &p); err != nil {
		t.Fatal(err)
	}
	if p.Attempt != 2 || p.Status != "completed" {
		t.Errorf("attempt %d, status %s; want 2, completed", p.Attempt, p.Status)
	}
	from, ok := v.attempts()[2]
	if saved := seen / paragraph * paragraph; !ok || from%paragraph != 0 || from < saved {
		t.Errorf("killed after chunk %d: attempt 2 began at chunk %d, want at a checkpoint, not before %d", seen, from, saved)
	}
	if end := v.last(); end.Payload.Index != 299 || end.Attempt != 2 {
		t.Errorf("last chunk is %d of attempt %d, want 299 of 2", end.Payload.Index, end.Attempt)
	}
	must(t, ctx, http.StatusNoContent, "GET", second.URL+"/v1/executions/"+id+"/stream", "", "Last-Event-ID: "+v.cursor)
}

// A server that is told to stop in the middle of a story hands it to the other one without spending a budget, and the
// viewer goes on there.
func TestHandover(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	args := []string{"dev", "--redis", redistest.URL(t), "--key-prefix", redistest.Prefix(t), "--addr", "127.0.0.1:0", "--lease", "30s"}
	first := start(t, args...)
	id := submit(t, ctx, first.URL, "story", `{"chunks":300,"seconds":10}`)

	var mu sync.Mutex
	current := first
	v := watch(t, ctx, id, func() string { mu.Lock(); defer mu.Unlock(); return current.URL })
	if err := v.await(ctx, 40); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	second := start(t, args...)
	current = second
	mu.Unlock()
	stopped := time.Now()
	first.stop(t, 15*time.Second)
	<-v.ended

	v.checkContiguous()
	if len(v.ends) != 1 || v.ends[0].Name != "completed" {
		t.Fatalf("ends: %+v", v.ends)
	}
	if v.gaps != 0 {
		t.Errorf("%d gaps", v.gaps)
	}
	p := must(t, ctx, http.StatusOK, "GET", second.URL+"/v1/executions/"+id, "").projection(t)
	if p.Attempt != 2 {
		t.Errorf("attempt %d, want 2", p.Attempt)
	}
	// A lease of 30 s would have had to run out first, had it been lost instead of released.
	if took := time.Since(stopped); took > 25*time.Second {
		t.Errorf("the handover took %s", took)
	}
}

// The crash deployment exits its process once; the restarted server finishes the work.
func TestCrash(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	args := []string{"dev", "--redis", redistest.URL(t), "--key-prefix", redistest.Prefix(t), "--addr", "127.0.0.1:0", "--lease", "1s"}
	first := start(t, args...)
	id := submit(t, ctx, first.URL, "crash", `{}`)
	<-first.done
	if status, ok := first.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Exited() || status.ExitStatus() == 0 {
		t.Errorf("the server ended with %v, want an exit of its own", first.cmd.ProcessState)
	}
	second := start(t, args...)
	last, p := outcome(t, ctx, second.URL, id)
	if last.Name != "completed" || p.Attempt != 2 {
		t.Errorf("%s at attempt %d, want completed at 2", last.Name, p.Attempt)
	}
}
