package runtime

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
)

// tally counts what the runtime reports, by what it says.
type tally struct {
	mu     sync.Mutex // guards the following
	seen   map[string]int
	streak int
}

func (m *tally) addf(n int, format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[fmt.Sprintf(format, args...)] += n
}

func (m *tally) Submitted(d, outcome string)            { m.addf(1, "submitted %s %s", d, outcome) }
func (m *tally) PickedUp(d string, _ time.Duration)     { m.addf(1, "picked up %s", d) }
func (m *tally) ExecutionStarted()                      { m.addf(1, "active") }
func (m *tally) ExecutionEnded()                        { m.addf(-1, "active") }
func (m *tally) Transitioned(d, command, status string) { m.addf(1, "%s %s to %s", d, command, status) }
func (m *tally) LeaseLost(d string)                     { m.addf(1, "lease lost %s", d) }
func (m *tally) Recovered(outcome string)               { m.addf(1, "recovered %s", outcome) }
func (m *tally) ChunksFlushed(outcome string, n int)    { m.addf(n, "chunks %s", outcome) }
func (m *tally) LoopRestarted(loop string)              { m.addf(1, "restarted %s", loop) }
func (m *tally) SetSlots(n int)                         { m.addf(n, "slots") }
func (m *tally) SetDraining(bool)                       { m.addf(1, "draining") }

func (m *tally) SetStoreErrorStreak(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.streak = n
}

func (m *tally) Claimed(n int) {
	if n > 0 {
		m.addf(n, "claimed")
	}
}

// What happened is what is reported.
func TestMetrics(t *testing.T) {
	inBubble(t, func(k *kit) {
		m := &tally{seen: map[string]int{}}
		p := k.params(deploy(func(ctx context.Context, a handler.Attempt) handler.Outcome {
			k.ok(a.Stream([]byte(`1`)))
			if err := a.Save(ctx, []byte(`1`)); err != nil {
				return handler.Stopped{}
			}
			return handler.Completed{}
		}))
		p.Metrics = m
		k.start(p)
		_, err := k.rt.Submit(k.Context(), SubmitRequest{Deployment: "none"})
		k.code(err, execution.CodeUnknownDeployment)
		k.store.every(lostRequest, "checkpoint", "beat")
		id := k.submit()
		k.pass(29 * time.Second)
		k.store.heal()
		k.pass(20 * time.Second)
		k.is(id, execution.Completed)
		k.rt.Quiesce()
		want := map[string]int{"slots": 1, "submitted  unknown_deployment": 1, "submitted d accepted": 1, "claimed": 2, "picked up d": 1,
			"active": 0, "lease lost d": 1, "chunks dropped": 1, "recovered queued": 1, "d checkpoint to running": 1,
			"chunks ok": 1, "d complete to completed": 1, "draining": 1}
		m.mu.Lock()
		defer m.mu.Unlock()
		if diff := cmp.Diff(want, maps.Clone(m.seen)); diff != "" {
			k.Fatalf("metrics (-want +got):\n%s", diff)
		}
	})
}
