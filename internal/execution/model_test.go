package execution

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestLifecycle lets random commands move an execution under a clock that also steps back, and holds each step against what
// must hold in all of them.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &life{now: born}
		l.step(t, Submit{ID: "x", Deployment: "d", Revision: "r", Input: []byte("1"), Delay: drawDelay(t),
			QueueTTL: drawDelay(t), Deadline: rapid.SampledFrom([]int64{0, 0, born.Millis() + 60_000}).Draw(t, "deadline"),
			Priority: rapid.Int64Range(0, MaxPriority).Draw(t, "priority"), Budgets: Budgets{
				LostLeases: rapid.Int64Range(1, 4).Draw(t, "lost"), Retries: rapid.Int64Range(0, 3).Draw(t, "retries"),
				Claims: rapid.Int64Range(1, 4).Draw(t, "claims")}})
		for range 40 {
			l.now += Instant(rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute, -time.Hour}).Draw(t, "time").Microseconds())
			l.step(t, l.command(t))
		}
	})
}

type life struct {
	control Control
	now     Instant
	steps   int
	spent   struct{ lost, retries, claims int64 }
}

func drawDelay(t *rapid.T) time.Duration {
	return rapid.SampledFrom([]time.Duration{0, time.Microsecond, time.Minute}).Draw(t, "delay")
}

// command is one that fits the status as a rule.
func (l *life) command(t *rapid.T) Command {
	c := l.control
	o := Owned{Ownership: Ownership{Worker: c.Worker, Token: c.Token, Fence: c.Fence}, Operation: fmt.Sprint(l.steps),
		Progress: make([]Event, rapid.IntRange(0, 2).Draw(t, "progress"))}
	free := []Command{Claim{Worker: "w", Token: fmt.Sprint(l.steps), Lease: time.Minute},
		Resume{Sequence: c.WaitSequence, Answer: []byte("1")}, ExpireWait{Sequence: c.WaitSequence},
		Move{Revision: fmt.Sprint("r", l.steps)}, Move{Revision: fmt.Sprint("r", l.steps)}, Withdraw{Reason: "gone"},
		Expire{}, ExpireWait{Sequence: c.WaitSequence, Default: []byte("1")}, Recover{Fence: c.Fence}}
	switch {
	case rapid.IntRange(0, 19).Draw(t, "cancel") == 0:
		return Cancel{}
	case c.Status != Running || rapid.IntRange(0, 4).Draw(t, "free") == 0:
		return rapid.SampledFrom(free).Draw(t, "command")
	}
	return rapid.SampledFrom([]Command{
		Checkpoint{Owned: o, Data: []byte("1"), Lease: time.Minute},
		Report{o},
		Suspend{Owned: o, Wait: []byte("{}"), Timeout: drawDelay(t)},
		Retry{Owned: o, Delay: drawDelay(t), Error: failure()},
		Release{o}, Release{o}, Release{o},
		Complete{Owned: o, Result: []byte("1")},
		Fail{Owned: o, Error: failure()},
	}).Draw(t, "command")
}

func (l *life) step(t *rapid.T, cmd Command) {
	l.steps++
	before := l.control
	p, err := Decide(before, cmd, l.now)
	if err != nil {
		return
	}
	after := p.Apply(before, l.now)
	if p.Noop() {
		if after != before {
			t.Fatalf("%s changed something without a plan", Name(cmd))
		}
		return
	}
	l.control = after
	l.control.ID = "x"
	if before.Status.Terminal() {
		t.Fatalf("%s left %s for %s", Name(cmd), before.Status, after.Status)
	}
	if before.Phase().Canceling && after.Status != Running && after.Status != Canceled {
		t.Fatalf("%s led to %s with a cancel pending", Name(cmd), after.Status)
	}
	if after.Status == Completed && after.CanceledAt != 0 {
		t.Fatal("completed after a cancel")
	}
	l.checkHistory(t, cmd, p)
	l.checkCounters(t, cmd, before, after, p)
	l.checkBudgets(t, cmd, p)
	l.checkRecord(t)
}

// checkHistory: each plan but that of a report tells where it leads to, and no other.
func (l *life) checkHistory(t *rapid.T, cmd Command, p Plan) {
	e, told := p.HistoryEntry(l.control)
	switch cmd.(type) {
	case Report:
		if told {
			t.Fatalf("a report is told of as %q", e.Cause)
		}
	case Submit:
		if told || p.Cause != CauseSubmitted {
			t.Fatalf("a submission is told of as %q", e.Cause)
		}
	default:
		if !told || e.Cause.Status() != l.control.Status || e.Attempt != l.control.Attempt || e.At != l.control.UpdatedAt {
			t.Fatalf("%s led to %+v and is told of as %+v", Name(cmd), l.control, e)
		}
	}
}

func (l *life) checkCounters(t *rapid.T, cmd Command, before, after Control, p Plan) {
	if after.Version != before.Version+1 {
		t.Fatalf("%s: version %d after %d", Name(cmd), after.Version, before.Version)
	}
	if after.UpdatedAt < before.UpdatedAt || after.UpdatedAt < l.now.Millis() {
		t.Fatalf("%s: updated at %d after %d, now is %d", Name(cmd), after.UpdatedAt, before.UpdatedAt, l.now.Millis())
	}
	_, claim := cmd.(Claim)
	if claim != (after.Fence > before.Fence) || claim != (after.Attempt == before.Attempt+1) || !claim && after.Attempt != before.Attempt {
		t.Fatalf("%s: fence %d after %d, attempt %d after %d", Name(cmd), after.Fence, before.Fence, after.Attempt, before.Attempt)
	}
	if after.Status == Waiting && after.WaitSequence != after.Version {
		t.Fatalf("wait %d opened by version %d", after.WaitSequence, after.Version)
	}
	if after.ProgressSequence != before.ProgressSequence+int64(len(p.Progress)) {
		t.Fatalf("%s: progress %d after %d and %d more", Name(cmd), after.ProgressSequence, before.ProgressSequence, len(p.Progress))
	}
}

// checkBudgets counts by itself what each command spends.
func (l *life) checkBudgets(t *rapid.T, cmd Command, p Plan) {
	s := &l.spent
	switch cmd.(type) {
	case Claim:
		s.claims++
	case Recover:
		s.lost++
	case Checkpoint:
		s.claims = 0
	case Suspend:
		if p.Status == Waiting {
			s.claims = 0
		}
	case Retry:
		if p.Status == Queued {
			s.retries++
			s.claims = 0
		}
	}
	c, b := l.control, l.control.Budgets
	if c.LostLeases != s.lost || c.Retries != s.retries || c.Claims != s.claims {
		t.Fatalf("%s: counted %d lost, %d retries, %d claims, want %+v", Name(cmd), c.LostLeases, c.Retries, c.Claims, *s)
	}
	if s.retries > b.Retries || s.lost > b.LostLeases || s.claims > b.Claims || !c.Status.Terminal() && s.lost >= b.LostLeases {
		t.Fatalf("%s: %s with %+v of %+v", Name(cmd), c.Status, *s, b)
	}
}

func (l *life) checkRecord(t *rapid.T) {
	got, err := ParseRecord("x", l.control.Record())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(l.control, got); diff != "" {
		t.Fatalf("record (-want +got):\n%s", diff)
	}
}
