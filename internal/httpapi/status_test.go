package httpapi

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/runtime"
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
