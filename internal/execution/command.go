package execution

import (
	"encoding/json"
	"time"
)

// Command is what is asked of an execution. The set is closed.
type Command interface{ command() string }

// Name of the command, for logs and metrics.
func Name(c Command) string { return c.command() }

// Ownership proves that a command comes from the current holder of the lease. Margin is the time before the end of the
// lease in which nothing may be committed any more.
type Ownership struct {
	Worker string
	Token  string
	Fence  int64
	Margin time.Duration
}

// Owned is what every owned command but heartbeat and chunk append carries.
type Owned struct {
	Ownership
	// Operation is a random token of this one operation. A repeat after a lost reply carries the same one and is answered
	// with the recorded outcome.
	Operation string
	// Progress is appended in the same commit.
	Progress []Event
}

// Event is one progress event as its author reported it.
type Event struct {
	Kind     string
	Message  string
	At       int64           // milliseconds, by the store's clock as the worker knows it
	Metadata json.RawMessage // strict, compact JSON; nil: none
}

// Submit begins an execution.
type Submit struct {
	ID         string
	Deployment string
	Revision   string
	Owner      string
	Labels     Labels
	Budgets    Budgets
	Priority   int64 // 0 to MaxPriority
	Trace      Trace
	Delay      time.Duration // not to be claimed before now plus this, at most MaxDelay
	RunAt      int64         // not to be claimed before, in milliseconds; zero: at once. Not together with Delay
	QueueTTL   time.Duration // to be claimed by now plus this, at most MaxDelay; zero: whenever
	Deadline   int64         // to have ended by then, in milliseconds; zero: whenever
	Input      []byte
	Actor      string // who submits, by name, for the history; empty: not told. So it is with the next ones
}

// Claim hands a queued, due execution to a worker. The store sees to it that it is due and of the right revision.
type Claim struct {
	Worker string
	Token  string
	Lease  time.Duration
}

// Checkpoint stores the author's state. It is allowed, and stored, with a cancel pending.
type Checkpoint struct {
	Owned
	Data     []byte
	Consumed bool          // the answer of the last wait was read: this state takes its place
	Lease    time.Duration // the lease is renewed to now plus this
}

// Report commits progress at once.
type Report struct{ Owned }

// Suspend stores a checkpoint and opens a wait for an answer.
type Suspend struct {
	Owned
	Checkpoint []byte
	Wait       []byte        // a rendered Wait
	Timeout    time.Duration // 0: the wait never expires
}

// Retry asks for another attempt after a delay, within the retry budget.
type Retry struct {
	Owned
	Delay time.Duration
	Error Failure // shown while the retry is pending
}

// Complete ends the execution with a result.
type Complete struct {
	Owned
	Result []byte
}

// Fail ends the execution with an error.
type Fail struct {
	Owned
	Error Failure
	// DropProgress discards stored progress that can't be used (terminal repair). Not together with new progress.
	DropProgress bool
}

// Release hands the execution back at shutdown. It spends neither retries nor lost leases.
type Release struct{ Owned }

// Cancel asks for the execution to stop. It ends queued and waiting work at once; running work is told.
type Cancel struct {
	Reason string
	Actor  string
}

// Resume answers the open wait.
type Resume struct {
	Sequence int64  // the wait that the answer was checked against
	Answer   []byte // strict, compact JSON
	Actor    string
}

// Recover takes a running execution whose lease has run out back from its worker.
type Recover struct{ Fence int64 }

// ExpireWait ends a wait whose deadline has passed: with the default answer where there is one, else as a failure.
type ExpireWait struct {
	Sequence int64
	Default  []byte // nil: none
}

// Expire ends an execution that is queued or waiting after its deadline, or that nobody has claimed in time.
type Expire struct{}

// Move pins an execution that does not run to another revision of its deployment. All else stays as it is: its id, attempts,
// budgets, checkpoint and place in the queue. Its input is not checked again.
type Move struct {
	Revision string
	Actor    string
}

// Withdraw ends an execution that does not run as failed, on behalf of an operator.
type Withdraw struct {
	Reason string // for people; empty: none
	Actor  string
}

func (Submit) command() string     { return "submit" }
func (Claim) command() string      { return "claim" }
func (Checkpoint) command() string { return "checkpoint" }
func (Report) command() string     { return "report" }
func (Suspend) command() string    { return "suspend" }
func (Retry) command() string      { return "retry" }
func (Complete) command() string   { return "complete" }
func (Fail) command() string       { return "fail" }
func (Release) command() string    { return "release" }
func (Cancel) command() string     { return "cancel" }
func (Resume) command() string     { return "resume" }
func (Recover) command() string    { return "recover" }
func (ExpireWait) command() string { return "expire_wait" }
func (Expire) command() string     { return "expire" }
func (Move) command() string       { return "move" }
func (Withdraw) command() string   { return "withdraw" }
