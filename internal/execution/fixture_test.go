package execution

import (
	"testing"
	"time"
)

const (
	born = Instant(1_700_000_000_000_000)
	late = born + 10_000_000 // ten seconds on, within every lease below
)

// at is a consistent control in each phase and each end.
func at(s Status, canceling bool) Control {
	c := Control{ID: "x", Deployment: "d", Revision: "r", Schema: SchemaVersion, Status: s, Version: 7, Fence: 50, Attempt: 3,
		LostLeases: 1, Retries: 1, Claims: 2, Budgets: DefaultBudgets(), ProgressSequence: 4, Operation: "old:r",
		CreatedAt: born.Millis(), UpdatedAt: born.Millis()}
	switch s {
	case Running:
		c.Worker, c.Token, c.LeaseUntil = "w", "t", born.Millis()+30_000
	case Waiting:
		c.WaitSequence, c.WaitUntil = 7, born.Millis()+5_000
	case Canceled:
		canceling = true
	}
	if canceling {
		c.CanceledAt = born.Millis()
	}
	return c
}

// states are all that a control can be in.
func states() []Control {
	return []Control{at(Queued, false), at(Running, false), at(Running, true), at(Waiting, false),
		at(Completed, false), at(Failed, false), at(Canceled, false)}
}

func owner() Ownership { return Ownership{Worker: "w", Token: "t", Fence: 50, Margin: time.Second} }

func owned(events ...Event) Owned {
	return Owned{Ownership: owner(), Operation: "op", Progress: events}
}

func failure() Failure { return Failure{Type: "T", Code: "c", Message: "m"} }

// commands is one of each that fits the controls above, where any fits.
func commands() []Command {
	return []Command{
		Claim{Worker: "w2", Token: "t2", Lease: time.Minute},
		Cancel{Reason: "because"},
		Resume{Sequence: 7, Answer: []byte("1")},
		ExpireWait{Sequence: 7},
		ExpireWait{Sequence: 7, Default: []byte("2")},
		Recover{Fence: 50},
		Checkpoint{Owned: owned(), Data: []byte("3"), Lease: time.Minute},
		Report{owned()},
		Suspend{Owned: owned(), Wait: []byte("{}"), Timeout: time.Minute},
		Retry{Owned: owned(), Delay: time.Second, Error: failure()},
		Complete{Owned: owned(), Result: []byte("4")},
		Fail{Owned: owned(), Error: failure()},
		Release{owned()},
	}
}

func mustDecide(t testing.TB, c Control, cmd Command, now Instant) Plan {
	t.Helper()
	p, err := Decide(c, cmd, now)
	if err != nil {
		t.Fatalf("%s on %s: %v", Name(cmd), c.Status, err)
	}
	return p
}
