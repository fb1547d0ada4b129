package execution

import (
	"fmt"
	"time"
)

// SchemaVersion is the storage schema that this release writes into controls.
const SchemaVersion = 1

// Status is where an execution stands in its lifecycle.
type Status string

// The statuses. The last three are terminal: an execution never leaves them.
const (
	Queued    Status = "queued"
	Running   Status = "running"
	Waiting   Status = "waiting"
	Completed Status = "completed"
	Failed    Status = "failed"
	Canceled  Status = "canceled"
)

// Terminal reports whether the status is final.
func (s Status) Terminal() bool { return s == Completed || s == Failed || s == Canceled }

// Valid reports whether the status is one of the six.
func (s Status) Valid() bool {
	return s == Queued || s == Running || s == Waiting || s.Terminal()
}

// Instant is a store's time in microseconds since the Unix epoch. Fences need its full precision (invariant 3);
// what a control keeps is in milliseconds.
type Instant int64

// Forever is later than every deadline.
const Forever Instant = 1<<63 - 1

// Millis is the instant in the milliseconds that controls keep.
func (i Instant) Millis() int64 { return int64(i) / 1000 }

// InstantOf converts a wall-clock time.
func InstantOf(t time.Time) Instant { return Instant(t.UnixMicro()) }

// Control is the small authoritative record of an execution. It never holds a payload. Times are milliseconds since the
// Unix epoch by the store's clock; zero means "not set" in every optional field.
type Control struct {
	ID         string
	Deployment string
	Revision   string // pinned, unless an operator moves it
	Owner      string // empty: no owner
	Labels     Labels
	Schema     int64 // storage schema version of this record

	Status  Status
	Version int64 // grows by one with each business transition; public as sequence

	Fence   int64 // grows with every claim (invariant 3)
	Attempt int64 // number of claims so far (invariant 4)

	LostLeases int64   // recoveries after a lost lease, counted against Budgets.LostLeases
	Retries    int64   // application retries, counted against Budgets.Retries
	Claims     int64   // claims in a row without a checkpoint, suspend or retry, counted against Budgets.Claims
	Budgets    Budgets // as the deployment had them at submission
	Priority   int64   // 0 to MaxPriority; higher is claimed earlier
	Trace      Trace   // that the submission belongs to

	Worker     string // holder of the lease; empty unless running
	Token      string // random proof of the claim; empty unless running
	LeaseUntil int64  // end of the lease; zero unless running

	AvailableAt int64 // not to be claimed before; zero unless queued
	QueueUntil  int64 // to be claimed for the first time by then; zero: whenever
	Deadline    int64 // to have ended by then; zero: whenever
	CanceledAt  int64 // when cancellation was asked for; zero if it never was

	WaitSequence int64 // id of the open wait: the version that opened it; zero unless waiting
	WaitUntil    int64 // when the open wait expires; zero: never

	ProgressSequence int64 // number of the newest progress event

	Operation string // token and outcome of the last owned operation, for repeats after a lost reply (invariant 11)

	LogEpoch     string // names this execution's event log; empty until the log was begun
	WatchedUntil int64  // somebody follows the event log until then

	CreatedAt int64
	UpdatedAt int64 // never goes back
}

// Trace is where a submission stands in a distributed trace, as W3C Trace Context writes it. The zero value is none.
type Trace struct {
	Parent string // the header traceparent, of version 00
	State  string // the header tracestate
}

// MaxTraceState bounds a tracestate, in bytes.
const MaxTraceState = 512

// ID is the trace itself; empty: none.
func (t Trace) ID() string {
	if len(t.Parent) != traceParentLength {
		return ""
	}
	return t.Parent[3:35]
}

const traceParentLength = 55

// MaxPriority is the highest priority. The lowest is 0, which is also that of work that names none.
const MaxPriority = 9

// MaxDelay is the longest time for which a start, or whatever else a submission names a time for, can be put off: ten years of
// 365 days.
const MaxDelay = 10 * 365 * 24 * time.Hour

// PriorityStep is how much earlier work of a priority is claimed than work of the next lower one that fell due at the same
// time. So waiting work ages by itself: no execution waits behind one that fell due more than MaxPriority steps later.
const PriorityStep = time.Minute

// Rank is the place in the order of claims, lowest first, of an execution that is due since then, in milliseconds.
func (c Control) Rank(since int64) int64 { return since - c.Priority*PriorityStep.Milliseconds() }

// Since is the inverse of Rank.
func (c Control) Since(rank int64) int64 { return rank + c.Priority*PriorityStep.Milliseconds() }

// Budgets bound how often an execution may be tried again, each cause apart (invariant 4).
type Budgets struct {
	LostLeases int64 // the lost lease with this number fails the work; at least 1
	Retries    int64 // application retries granted; 0: none
	Claims     int64 // claims in a row without a new checkpoint, suspend or retry; at least 1
}

// DefaultBudgets are the budgets of a deployment that names none: three lost leases, two retries, twenty claims.
func DefaultBudgets() Budgets { return Budgets{LostLeases: 3, Retries: 2, Claims: 20} }

// Validate reports the first budget that is out of range.
func (b Budgets) Validate() error {
	switch {
	case b.LostLeases < 1:
		return fmt.Errorf("lost leases: %d is below 1", b.LostLeases)
	case b.Retries < 0:
		return fmt.Errorf("retries: %d is below 0", b.Retries)
	case b.Claims < 1:
		return fmt.Errorf("claims without progress: %d is below 1", b.Claims)
	}
	return nil
}

// Phase is all that claim and cancel depend on: the status, and whether a running execution was asked to stop.
type Phase struct {
	Status    Status
	Canceling bool // only ever true with Running
}

// Phase of the control.
func (c Control) Phase() Phase {
	return Phase{Status: c.Status, Canceling: c.Status == Running && c.CanceledAt != 0}
}

// Phases lists the phases that an execution can be in before it ends.
func Phases() []Phase {
	return []Phase{{Status: Queued}, {Status: Running}, {Status: Running, Canceling: true}, {Status: Waiting}}
}

// LastChance reports whether a queued execution, which lost a lease before, would fail with the next one that it loses. Such
// work runs alone in its process, so that it never fails for what its neighbours do.
func (c Control) LastChance() bool {
	return c.LostLeases > 0 && (c.LostLeases+1 >= c.Budgets.LostLeases || c.Claims+1 >= c.Budgets.Claims)
}

// Expiry is when an execution that is queued or waiting is ended, or its wait, because the time is over; zero: never. What runs
// is told by its worker.
func (c Control) Expiry() int64 {
	switch c.Status { //nolint:exhaustive // the others have none
	case Queued:
		if c.Attempt > 0 {
			return c.Deadline
		}
		return earlier(c.Deadline, c.QueueUntil)
	case Waiting:
		return earlier(c.Deadline, c.WaitUntil)
	}
	return 0
}

// earlier is the earlier of two times, of which each may not be set.
func earlier(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// Overdue reports whether the deadline has passed.
func (c Control) Overdue(now Instant) bool { return c.Deadline != 0 && now.Millis() >= c.Deadline }

func (c Control) cancelPending() bool { return c.CanceledAt != 0 }
