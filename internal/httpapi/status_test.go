package httpapi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/store"
)

// Loops that never ran wait for the start; one that ended comes back, and one that fails while the store works is named.
func TestReasonsOfLoops(t *testing.T) {
	t.Parallel()
	works := runtime.StoreHealth{Status: runtime.StoreOK}
	running := runtime.LoopHealth{Name: "maintainer", Running: true}
	for name, tc := range map[string]struct {
		health runtime.Health
		want   []string
	}{
		"well": {runtime.Health{Store: works, Loops: []runtime.LoopHealth{running}}, []string{}},
		"not begun": {runtime.Health{Store: works, Loops: []runtime.LoopHealth{{Name: "claimer"}, {Name: "maintainer"}}},
			[]string{"The process has not begun its work: it waits for the store, or was not started."}},
		"down": {runtime.Health{Store: works, Loops: []runtime.LoopHealth{{Name: "claimer"}, running}},
			[]string{"The claimer is down and about to be started again."}},
		"all down": {runtime.Health{Store: works, Loops: []runtime.LoopHealth{{Name: "claimer", Restarts: 1}}},
			[]string{"The claimer is down and about to be started again."}},
		"failing": {runtime.Health{Store: works, Loops: []runtime.LoopHealth{{Name: "claimer", Running: true, ErrorStreak: 3}}},
			[]string{"The claimer has failed 3 times in a row."}},
		"full": {runtime.Health{Store: runtime.StoreHealth{Status: runtime.StoreDegraded, Conditions: []store.Condition{
			{Code: "no_room", Message: "Redis is full", Severe: true}, {Code: "restarted", Message: "It came back"}}},
			Loops: []runtime.LoopHealth{running}}, []string{"Redis is full."}},
		"ended": {runtime.Health{Store: works, Draining: true, Loops: []runtime.LoopHealth{{Name: "claimer", Restarts: 1}}},
			[]string{"The process shuts down and takes no more work."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, reasonsOf(tc.health)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A store shows its conditions, also while it does not answer; an error it has only then.
func TestStoreStatus(t *testing.T) {
	t.Parallel()
	a := &api{Params: Params{StoreKind: "redis"}}
	unavailable := contract.ProblemCode(execution.CodeUnavailable)
	since := time.Unix(1, 0)
	said := []store.Condition{{Code: "no_room", Message: "it is full", Since: since, Severe: true}}
	shown := []contract.StoreCondition{{Code: "no_room", Message: "it is full", Since: contract.Timestamp{Time: since}}}
	for name, tc := range map[string]struct {
		health runtime.StoreHealth
		want   contract.StoreStatus
	}{
		"well": {runtime.StoreHealth{Status: runtime.StoreOK},
			contract.StoreStatus{Kind: "redis", State: contract.StateOk, Conditions: []contract.StoreCondition{}}},
		"full": {runtime.StoreHealth{Status: runtime.StoreDegraded, Conditions: said},
			contract.StoreStatus{Kind: "redis", State: contract.StateDegraded, Conditions: shown}},
		"away": {runtime.StoreHealth{Status: runtime.StoreDegraded, Code: execution.CodeUnavailable, Conditions: said},
			contract.StoreStatus{Kind: "redis", State: contract.StateDegraded, Error: &unavailable, Conditions: shown}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, a.storeStatus(tc.health)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
