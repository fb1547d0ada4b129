package storetest

import (
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/windrow-run/windrow/internal/execution"
)

// What histories of a request without an answer may look like, told by hand.
func TestLostRequests(t *testing.T) {
	t.Parallel()
	idle := binding{now: 1_000_000}
	submit := submitting{id: "a", body: 1}
	created := told{control: execution.Control{ID: "a", Status: execution.Queued}, now: idle.now}
	replayed := created
	replayed.did = "replayed"
	nothing := told{code: execution.CodeNotFound}
	at := func(in any, begin int64, out told, done int64) porcupine.Operation {
		return porcupine.Operation{Input: in, Call: begin, Output: out, Return: done}
	}
	over := at(end{}, 90, told{}, 91)
	find := looking{body: 1}
	tests := []struct {
		name string
		want porcupine.CheckResult
		ops  []porcupine.Operation
	}{
		{"takes effect at once", porcupine.Ok, []porcupine.Operation{at(submit, 1, told{outcome: lost}, never), at(find, 3, replayed, 4)}},
		{"takes effect late", porcupine.Ok, []porcupine.Operation{at(submit, 1, told{outcome: lost}, never), at(find, 3, nothing, 4), at(find, 5, replayed, 6)}},
		{"never takes effect", porcupine.Ok, []porcupine.Operation{at(submit, 1, told{outcome: lost}, never), at(find, 3, nothing, 4)}},
		{"not before it was sent", porcupine.Illegal, []porcupine.Operation{at(find, 1, replayed, 2), at(submit, 3, told{outcome: lost}, never)}},
		{"and is not undone", porcupine.Illegal, []porcupine.Operation{at(submit, 1, told{outcome: lost}, never), at(find, 3, replayed, 4), at(find, 5, nothing, 6)}},
		{"repeated, the first was lost", porcupine.Ok, []porcupine.Operation{at(submit, 1, told{outcome: retried}, 4), at(submit, 3, created, 4)}},
		{"repeated, the reply was lost", porcupine.Ok, []porcupine.Operation{at(submit, 1, told{outcome: retried}, 4), at(submit, 3, replayed, 4)}},
		{"not after its repeat was answered", porcupine.Illegal, []porcupine.Operation{at(submit, 1, told{outcome: retried}, 4), at(submit, 3, nothing, 4), at(find, 5, replayed, 6)}},
		{"answered in order", porcupine.Ok, []porcupine.Operation{at(find, 1, nothing, 2), at(submit, 3, created, 4), at(find, 5, replayed, 6)}},
		{"answered too late", porcupine.Illegal, []porcupine.Operation{at(submit, 1, created, 2), at(find, 3, nothing, 4)}},
		{"answered while it goes on", porcupine.Ok, []porcupine.Operation{at(submit, 1, created, 4), at(find, 2, nothing, 3)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := &history{model: specification(idle), operations: append(test.ops, over)}
			if got := h.check(searching); got != test.want {
				t.Errorf("linearizable: %s, want %s", got, test.want)
			}
		})
	}
}
