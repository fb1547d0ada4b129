package stream

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/memory"
)

// idleBytes is what a viewer at rest may cost the hub, its stack left aside: design section 11 grants 40 KB with the
// connection, of which a bare handler takes 25.
const idleBytes = 3072

// A viewer at rest costs little, whether all follow one execution or each its own. Not parallel: it measures the heap.
func TestBudgetIdleViewer(t *testing.T) {
	for name, executions := range map[string]int{"one execution": 1, "one each": 5000} {
		t.Run(name, func(t *testing.T) {
			const viewers = 5000
			bubble(t, store.Limits{}, Params{}, func(r *rig) {
				var works []*work
				for range executions {
					works = append(works, r.submit().claim().count(20))
				}
				all := make([]*Viewer, viewers)
				before := heap()
				for i := range all {
					all[i] = r.subscribe(works[i%executions].id, "")
					go func() {
						for {
							if _, err := all[i].Next(r.t.Context()); err != nil {
								return
							}
						}
					}()
				}
				synctest.Wait()
				per := int64(heap()-before) / viewers
				t.Logf("%d bytes a viewer", per)
				if per > idleBytes {
					t.Errorf("%d bytes a viewer at rest, at most %d", per, idleBytes)
				}
				runtime.KeepAlive(all)
			})
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Handing an event to one more viewer allocates nothing.
func TestBudgetAllocations(t *testing.T) {
	r, w, viewers := crowd(t, 100)
	per := testing.AllocsPerRun(20, func() { broadcast(r, w, viewers, 10) }) / float64(10*len(viewers))
	t.Logf("%.2f allocations per event and viewer", per)
	if per > 1 {
		t.Errorf("%.2f allocations per event and viewer", per)
	}
}

// BenchmarkBroadcast hands batches of ten chunks to a thousand viewers; an operation is a batch.
func BenchmarkBroadcast(b *testing.B) {
	const chunks = 10
	r, w, viewers := crowd(b, 1000)
	b.ReportAllocs()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		broadcast(r, w, viewers, chunks)
	}
	runtime.ReadMemStats(&after)
	events := float64(b.N) * chunks * float64(len(viewers))
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/events, "allocs/event/viewer")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/events, "ns/event/viewer")
}

// crowd is so many live viewers of one execution, in real time.
func crowd(t testing.TB, n int) (*rig, *work, []*Viewer) {
	t.Helper()
	s := memory.New(memory.Config{})
	h, err := New(Params{Store: s, Keepalive: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	r := &rig{t: t, mem: s, hub: h}
	w := r.submit().claim().count(1)
	viewers := make([]*Viewer, n)
	for i := range viewers {
		viewers[i] = r.subscribe(w.id, "")
		t.Cleanup(viewers[i].Close)
		for range 3 {
			if _, err := viewers[i].Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		stand(viewers[i])
	}
	return r, w, viewers
}

// broadcast says a batch and lets every viewer take it.
func broadcast(r *rig, w *work, viewers []*Viewer, chunks int) {
	w.count(chunks)
	for _, v := range viewers {
		for range chunks {
			if _, err := v.Next(context.Background()); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}
