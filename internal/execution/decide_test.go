package execution

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Every command in every state: where it leads, or with which code it is refused.
func TestDecideTable(t *testing.T) {
	t.Parallel()
	const refused, lost, idle, moved = "!invalid_transition", "!lease_lost", "!not_waiting", "same"
	// queued, running, running with a cancel pending, waiting, completed, failed, canceled
	table := []struct {
		command string
		outcome [7]string
	}{
		{"claim", [7]string{"running", refused, refused, refused, refused, refused, refused}},
		{"cancel", [7]string{"canceled", "running", moved, "canceled", moved, moved, moved}},
		{"resume", [7]string{idle, idle, idle, "queued", idle, idle, idle}},
		{"expire_wait", [7]string{idle, idle, idle, "failed", idle, idle, idle}},
		{"expire_wait", [7]string{idle, idle, idle, "queued", idle, idle, idle}},
		{"recover", [7]string{refused, moved, moved, refused, refused, refused, refused}},
		{"checkpoint", [7]string{lost, "running", "running", lost, lost, lost, lost}},
		{"report", [7]string{lost, "running", "running", lost, lost, lost, lost}},
		{"suspend", [7]string{lost, "waiting", "canceled", lost, lost, lost, lost}},
		{"retry", [7]string{lost, "queued", "canceled", lost, lost, lost, lost}},
		{"complete", [7]string{lost, "completed", "canceled", lost, lost, lost, lost}},
		{"fail", [7]string{lost, "failed", "canceled", lost, lost, lost, lost}},
		{"release", [7]string{lost, "queued", "canceled", lost, lost, lost, lost}},
	}
	for i, cmd := range commands() {
		for j, c := range states() {
			t.Run(fmt.Sprintf("%d %s on %s %v", i, Name(cmd), c.Status, c.CanceledAt != 0), func(t *testing.T) {
				t.Parallel()
				got := outcome(c, cmd, late)
				if want := table[i].outcome[j]; Name(cmd) != table[i].command || got != want {
					t.Errorf("%s, want %s of %s", got, want, table[i].command)
				}
			})
		}
	}
}

func outcome(c Control, cmd Command, now Instant) string {
	p, err := Decide(c, cmd, now)
	switch {
	case err != nil:
		return "!" + string(CodeOf(err))
	case p.Noop():
		return "same"
	}
	return string(p.Status)
}

// A plan that moves an execution counts one version, stamps it, and leaves a control that can be stored.
func TestPlansAreConsistent(t *testing.T) {
	t.Parallel()
	for _, c := range states() {
		for _, cmd := range commands() {
			p, err := Decide(c, cmd, late)
			if err != nil {
				continue
			}
			after := p.Apply(c, late)
			if p.Noop() {
				if diff := cmp.Diff(c, after); diff != "" {
					t.Errorf("%s on %s changes something (-before +after):\n%s", Name(cmd), c.Status, diff)
				}
				continue
			}
			if after.Version != c.Version+1 || after.UpdatedAt != late.Millis() {
				t.Errorf("%s on %s: version %d, updated at %d", Name(cmd), c.Status, after.Version, after.UpdatedAt)
			}
			if _, err := ParseRecord(after.ID, after.Record()); err != nil {
				t.Errorf("%s on %s: %v", Name(cmd), c.Status, err)
			}
		}
	}
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	running, waiting := at(Running, false), at(Waiting, false)
	end, due := Instant(running.LeaseUntil*1000), Instant(waiting.WaitUntil*1000)
	forever := at(Waiting, false)
	forever.WaitUntil = 0
	tests := []struct {
		name    string
		control Control
		command Command
		now     Instant
		want    string
	}{
		{"owned before the margin", running, Report{owned()}, end - 1_000_001, "running"},
		{"owned at the margin", running, Report{owned()}, end - 1_000_000, "!lease_lost"},
		{"owned without knowing the time", running, Report{owned()}, 0, "running"},
		{"recover before the end", running, Recover{Fence: 50}, end - 1, "same"},
		{"recover at the end", running, Recover{Fence: 50}, end, "queued"},
		{"recover without knowing the time", running, Recover{Fence: 50}, Forever, "queued"},
		{"recover another lease", running, Recover{Fence: 49}, end, "!invalid_transition"},
		{"expire before the deadline", waiting, ExpireWait{Sequence: 7}, due - 1, "same"},
		{"expire at the deadline", waiting, ExpireWait{Sequence: 7}, due, "failed"},
		{"expire without knowing the time", waiting, ExpireWait{Sequence: 7}, Forever, "failed"},
		{"expire another wait", waiting, ExpireWait{Sequence: 6}, due, "!wait_moved"},
		{"expire what never expires", forever, ExpireWait{Sequence: 7}, Forever, "same"},
		{"answer another wait", waiting, Resume{Sequence: 8}, due, "!wait_moved"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := outcome(test.control, test.command, test.now); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestBudgetsAtTheirEdge(t *testing.T) {
	t.Parallel()
	end := Instant(at(Running, false).LeaseUntil * 1000)
	tests := []struct {
		name    string
		change  func(*Control)
		command Command
		want    string // code of the failure; empty: none
	}{
		{"second lost lease", func(c *Control) { c.LostLeases = 1 }, Recover{Fence: 50}, ""},
		{"third lost lease", func(c *Control) { c.LostLeases = 2 }, Recover{Fence: 50}, FailureLeaseLost},
		{"lost lease with claims spent", func(c *Control) { c.Claims = 20 }, Recover{Fence: 50}, FailureNoProgress},
		{"both spent", func(c *Control) { c.LostLeases, c.Claims = 2, 20 }, Recover{Fence: 50}, FailureLeaseLost},
		{"second retry", func(c *Control) { c.Retries = 1 }, Retry{Owned: owned(), Error: failure()}, ""},
		{"third retry", func(c *Control) { c.Retries = 2 }, Retry{Owned: owned(), Error: failure()}, FailureRetriesExhausted},
		{"retry with claims spent", func(c *Control) { c.Claims = 20 }, Retry{Owned: owned(), Error: failure()}, ""},
		{"nineteenth claim", func(c *Control) { c.Claims = 19 }, Release{owned()}, ""},
		{"twentieth claim", func(c *Control) { c.Claims = 20 }, Release{owned()}, FailureNoProgress},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := at(Running, false)
			test.change(&c)
			now := late
			if _, ok := test.command.(Recover); ok {
				now = end
			}
			if got := failureOf(t, mustDecide(t, c, test.command, now)); got != test.want {
				t.Errorf("failure %q, want %q", got, test.want)
			}
		})
	}
}

// failureOf is the code of the failure that ends the execution; empty where it goes on.
func failureOf(t *testing.T, p Plan) string {
	t.Helper()
	for _, w := range p.Payloads {
		if w.Kind == PayloadError && w.Data != nil && p.Status == Failed {
			f, err := DecodeFailure(w.Data)
			if err != nil {
				t.Fatal(err)
			}
			return f.Code
		}
	}
	return ""
}

func TestRefusedProgress(t *testing.T) {
	t.Parallel()
	c := at(Running, false)
	_, err := Decide(c, Report{owned(Event{Metadata: []byte("{")})}, late)
	if !Is(err, CodeInvalidInput) {
		t.Errorf("broken metadata: %v", err)
	}
	_, err = Decide(c, Fail{Owned: owned(Event{}), Error: failure(), DropProgress: true}, late)
	if !Is(err, CodeInvalidTransition) {
		t.Errorf("dropped and added at once: %v", err)
	}
}

func TestRepeated(t *testing.T) {
	t.Parallel()
	c := at(Running, false)
	c.Operation = OperationRecord("op", Waiting)
	want := c
	want.Status = Waiting
	got, ok := c.Repeated("op")
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("repeated: %v (-want +got):\n%s", ok, diff)
	}
	for _, other := range []string{"", "o", "op:", "op:w", "other"} {
		if _, ok := c.Repeated(other); ok {
			t.Errorf("%q is taken for the last operation", other)
		}
	}
	c.Operation = ""
	if _, ok := c.Repeated(""); ok {
		t.Error("no operation is taken for the last one")
	}
}

func TestBudgetsValidate(t *testing.T) {
	t.Parallel()
	if err := DefaultBudgets().Validate(); err != nil {
		t.Error(err)
	}
	for _, b := range []Budgets{{0, 0, 1}, {1, -1, 1}, {1, 0, 0}} {
		if b.Validate() == nil {
			t.Errorf("%+v is taken as valid", b)
		}
	}
}

// What a claim and a cancel do depends on the phase alone, so that a store can take one plan a phase along.
func TestPhaseAlone(t *testing.T) {
	t.Parallel()
	for _, phase := range Phases() {
		one, other := at(phase.Status, phase.Canceling), Control{Status: phase.Status}
		if phase.Canceling {
			other.CanceledAt = 1
		}
		if one.Phase() != phase || other.Phase() != phase {
			t.Fatalf("phases %v and %v, want %v", one.Phase(), other.Phase(), phase)
		}
		for _, cmd := range []Command{Claim{Worker: "w", Token: "t", Lease: time.Second}, Cancel{Reason: "r"}} {
			p, err := Decide(one, cmd, late)
			q, err2 := Decide(other, cmd, 0)
			if diff := cmp.Diff(p, q); diff != "" || CodeOf(err) != CodeOf(err2) {
				t.Errorf("%s in %v: %v, %v\n%s", Name(cmd), phase, err, err2, diff)
			}
			if p.Guard.Kind != GuardNone {
				t.Errorf("%s in %v has a guard", Name(cmd), phase)
			}
		}
	}
}
