// Package store is the contract between the runtime and whatever keeps executions: memory, Redis, and what may come.
//
// Every store decides by [execution.Decide] and passes the conformance suite in storetest. What a method's comment
// promises holds for every store. Methods are safe for concurrent use, and each is atomic: it is applied as a whole or
// not at all, also where its reply is lost (invariant 11).
//
// # Errors
//
// Every error is, or wraps, an [execution.Error]. CodeUnavailable says that the operation may or may not have been
// applied: a caller that needs to know repeats it with the same operation token, idempotency key, id, claim token or chunk
// number, and a repeat of what was applied is answered as the first one would have been. Where the error says Unchanged, it
// was not applied. CodeUnconfirmed says that it was applied and has not arrived everywhere that the store was told to wait for,
// so that a failure may still take it away: a repeat waits again. Submit, FindKey, Transition, Resume, Cancel, Displace, Erase and EraseOwner may say so.
// Methods return the context's error, wrapped with CodeUnavailable, when ctx ends first. No method retries a
// failed exchange by itself.
package store

import (
	"context"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
)

// Store keeps executions.
type Store interface {
	// NewID makes the id of a new execution, with at least 120 random bits. Where key is not empty, the id leads to the
	// partition of that key, so that binding and execution commit together. At most 24 bytes of [0-9A-Za-z].
	NewID(key Key) string

	// Partitions is the number of partitions; PartitionOf tells the one that an id leads to, from 0, and false for a
	// text that can't be an id of this namespace.
	Partitions() int
	PartitionOf(id string) (int, bool)

	// Submit admits an execution as a whole: binding, capacity, control, input, index, doorbell. Outcomes: created;
	// replayed, where the key is bound to the same fingerprint or an execution of the same id exists (a repeat); an error
	// of CodeKeyReused, CodeCapacity, CodeOwnerCapacity, CodeInvalidOption (nothing written) or CodeUnavailable.
	Submit(ctx context.Context, s Submission) (Submitted, error)

	// FindKey looks an idempotency key up. Outcomes: replayed; CodeKeyReused; CodeNotFound where it is not bound.
	FindKey(ctx context.Context, key Key) (Submitted, error)

	// Poll claims due work for the revisions that want some, in the order of [execution.Control.Rank], tells when the next piece falls due and whether maintenance
	// has something to do, and records which revisions this process serves. A repeat with the same worker and token within the lease hands out the
	// same batch, at no cost to a budget. It stops at about MaxBytes of payload but returns at least one. Malformed
	// controls leave the index and never stall their neighbours. Nothing is handed out before its AvailableAt, also where the
	// clock was set back, nor what is queued after its expiry, but for work on its last chance. Work on its last chance is handed out to a solitary request
	// only.
	Poll(ctx context.Context, r PollRequest) (Polled, error)

	// Transition carries out an owned command on the execution that control describes, as its owner holds it. Outcomes:
	// the control afterwards, and what it left in the event log; CodeLeaseLost where the sender does not own it any more. A version that moved on (a cancel,
	// say) is settled inside by deciding once more. With a cancel pending, the control afterwards tells. A repeat is answered
	// as [execution.Control.Repeated] says. A command that is not owned is CodeInvalidTransition.
	Transition(ctx context.Context, control execution.Control, cmd execution.Command) (Transitioned, error)

	// Beat renews leases and appends chunks, many executions in one exchange a partition. The replies stand in the order of
	// the beats. The error is for the exchange; what happened to a single beat stands in its reply.
	Beat(ctx context.Context, beats []Beat) ([]Beaten, error)

	// Resume answers the open wait. Outcomes: applied; replayed, where the key is bound to the same answer; unchecked,
	// where the wait is not the one that the answer was checked against (Checked), with the open wait, so that the caller can
	// check and try again; CodeNotWaiting; CodeWaitMoved, where Sequence names another wait; CodeKeyReused; CodeNotFound.
	Resume(ctx context.Context, r ResumeRequest) (Resumed, error)

	// Cancel asks for the execution to stop and returns it as it stands afterwards. Asking again changes nothing.
	// CodeNotFound.
	Cancel(ctx context.Context, id string, scope Scope, reason string) (Record, error)

	// Maintain does at most limit pieces of each kind of overdue work: leases that ran out, what is queued or waits
	// after its expiry, ended
	// executions past their retention. A store whose clock may be set back shortens leases that lie further ahead than any
	// that was asked for.
	Maintain(ctx context.Context, limit int) (Maintained, error)

	// Displace has an operator's command carried out on executions of a revision that are queued or wait for an answer, up to
	// about 100 of each partition: [execution.Move] or [execution.Withdraw]. It tells how many are left. Each leaves the revision
	// with it, so that a repeat finds only what is left.
	Displace(ctx context.Context, rev Revision, cmd execution.Command) (Displaced, error)

	// Erase removes an execution with everything that belongs to it, whatever it is doing: who works on it is refused with
	// CodeLeaseLost from then on. CodeNotFound, also where it was erased before; CodeCorrupt for what can't be read, unless
	// the scope is everybody's.
	Erase(ctx context.Context, id string, scope Scope) (Erased, error)

	// EraseOwner erases the oldest executions of an owner, about 100 of each partition. It tells whether there are more.
	EraseOwner(ctx context.Context, owner string) (Erased, error)

	// Read returns an execution. CodeNotFound; CodeCorrupt where what is stored can't be read, an input that is asked for and is
	// not there included.
	Read(ctx context.Context, r ReadRequest) (Record, error)

	// List returns a page of executions, the newest first. Pages that follow one another show whatever is there from the first
	// to the last of them, and passes the filters, once. Over partitions the order is that of the times of creation, as good as the clocks of their servers
	// agree.
	List(ctx context.Context, r ListRequest) (Listed, error)

	// Controls reads many controls, in order, one exchange a partition, and keeps their logs marked as watched. The
	// control of an execution that is not there, or can't be read, has its id and status "".
	Controls(ctx context.Context, ids []string) ([]execution.Control, error)

	// Tail opens a reader that waits for new log entries of one partition. It holds a connection of its own until closed.
	Tail(ctx context.Context, partition int) (Tail, error)

	// Listen calls ring for each doorbell: work of that revision has become due, or falls due sooner than was known.
	// It calls ring with a zero Revision after every (re)subscription, since doorbells may have been missed. It returns
	// when ctx ends, or with an error after which the caller listens again. ring must not block.
	Listen(ctx context.Context, ring func(Revision)) error

	// Counts tells what is stored, by revision. Its cost grows with the number of revisions only.
	Counts(ctx context.Context) (Counts, error)

	// Workers tells which processes have polled of late, the newest first, MaxWorkers at most.
	Workers(ctx context.Context) (Workers, error)

	// Check proves that the store can do its work, by running a real script on every partition.
	Check(ctx context.Context) error

	// Close releases what the store holds. Blocked calls return at once, and they and later ones with CodeUnavailable, but
	// for a read of a tail, which may come back empty. It may be called again.
	Close() error
}

// Tail is a blocking reader of event logs. One goroutine reads at a time; Wake may be called by any.
type Tail interface {
	// Read returns all entries after the given positions as soon as there are some, and nothing when wait has passed,
	// when Wake was called since the last Read returned, or when ctx ends. A wait of 0 only looks. An error may be the fault of one log that can't be
	// read: the caller finds it by reading fewer at a time.
	Read(ctx context.Context, logs []Position, wait time.Duration) ([]Entries, error)
	Wake()
	Close() error
}

// Scope says whose executions may be seen: all, or those of one owner. Another owner's look absent. By is the name under which the
// history tells who asked for a change; empty: it tells nobody's.
type Scope struct {
	All   bool
	Owner string
	By    string
}

// Admits reports whether an execution of that owner may be seen.
func (s Scope) Admits(owner string) bool { return s.All || s.Owner == owner }

// Revision names a revision of a deployment.
type Revision struct{ Deployment, Revision string }

// Key is an idempotency key with its scope and the fingerprint of the body that it came with. A zero Value is no key.
type Key struct {
	Owner       string
	Deployment  string
	Value       string
	Fingerprint [32]byte
}

// Submission is work to be admitted.
type Submission struct {
	execution.Submit
	Key            Key
	MaxNonterminal int64 // ceiling of unfinished executions of the deployment; 0: none
	// MaxOwned is the ceiling of unfinished executions of the owner, those that were admitted with one; 0, or no owner: none.
	MaxOwned int64
}

// Full is the error of a deployment that has as much unfinished work as it may.
func Full(ceiling int64) error {
	e := execution.Errorf(execution.CodeCapacity, "the deployment has %d unfinished executions", ceiling)
	e.Limit = ceiling
	return e
}

// OwnerFull is the error of an owner who has as much unfinished work as they may.
func OwnerFull(ceiling int64) error {
	e := execution.Errorf(execution.CodeOwnerCapacity, "the owner has %d unfinished executions", ceiling)
	e.Limit = ceiling
	return e
}

// Submitted is the outcome of a submission.
type Submitted struct {
	Record   Record
	Replayed bool // it was there already
}

// PollRequest asks for work.
type PollRequest struct {
	Worker    string // names this process; at most 32 bytes
	Token     string // random, one a request; a repeat carries the same one; at most 32 bytes
	Revisions []Want // every revision that this process serves, also those that want nothing now
	MaxBytes  int64  // of payload in the reply; 0: no bound
	// Solitary asks for one execution on its last chance, the one that has waited longest in some partition, and for nothing
	// else: the process runs nothing, and claims nothing until that attempt has ended. The counts say which revisions.
	Solitary bool
	// Yields says that the process can become empty, so that it may be asked to (Polled.Drain).
	Yields bool
	// Brief asks for claims alone, of what has been found due before: the reply tells nothing of the time to come nor of what is held, and
	// the request does not count as presence. For a busy process, which asks in full now and then.
	Brief bool
	// Number grows with each request of a worker, repeats excepted. A copy of a request that arrives after a later one that
	// was remembered claims nothing, since nobody would hear of it.
	Number int64
	// Doubt says that the outcome of this request, or of the one before it, is not known: it is remembered for a lease also
	// where it gives nothing, so that no copy still under way claims anything.
	Doubt bool
}

// Want says how much work of a revision a process can take now.
type Want struct {
	Revision
	Count int           // 0: none, only presence and due times
	Lease time.Duration // of what is claimed
}

// Polled is the answer to a poll. That to a solitary or a brief one tells of nothing but what it claimed.
type Polled struct {
	Claimed []Claimed
	// NextDue is when the next delayed execution of the revisions falls due, by the store's clock; zero: none is known.
	NextDue int64
	// More says that due work was left for want of room in the reply: ask again at once.
	More bool
	// Overdue says that Maintain has something to do.
	Overdue bool
	// LeaseEnd is when the lease that ends soonest runs out, by the store's clock; zero: nothing runs, or Overdue says it all.
	LeaseEnd int64
	// Held says that work of the revisions on its last chance waits, which only a solitary poll gets.
	Held bool
	// Drain says that it has waited for a lease, and that it is this worker's turn to become empty for it: no other one is told
	// so for a lease. A turn is kept by polling on.
	Drain bool
	// Malformed counts controls that were dropped from the index because they can't be read.
	Malformed int
	Now       execution.Instant
}

// Claimed is one execution handed to a worker, with all that an attempt starts from.
type Claimed struct {
	Control    execution.Control
	Input      []byte
	Checkpoint []byte // nil: none
	Answer     []byte // answer of the last wait, until a checkpoint takes its place; nil: none
	Invalid    bool   // a payload is missing or has the wrong type: the attempt must end as stored_execution_invalid
}

// Transitioned is the outcome of an owned command.
type Transitioned struct {
	execution.Control // afterwards
	// Log is what the command left in the event log, in order.
	Log []execution.Entry
	// Untold says that an earlier try carried the command out, and may have left entries that Log does not tell of.
	Untold bool
}

// Beat is what the holder of a lease sends between transitions.
type Beat struct {
	ID string
	execution.Ownership
	Lease  time.Duration // renew to now plus this, at most what some poll has asked for; 0: do not renew
	Chunks *execution.ChunkBatch
	// Repeat says that the chunks may have been appended by an earlier try: they are compared with what is there.
	Repeat bool
}

// Beaten is the answer to a beat.
type Beaten struct {
	Err        error // CodeLeaseLost; CodeCorrupt where the log can't be written, which leaves the lease renewed
	Version    int64
	LeaseUntil int64
	Canceled   bool // cancellation was asked for
	// Log is the entry of the chunks, as it stands in the event log. Without one it is not known whether they stand there, unless
	// the error tells.
	Log []execution.Entry
	Now execution.Instant
}

// ResumeRequest is an answer to a wait.
type ResumeRequest struct {
	ID       string
	Scope    Scope
	Answer   []byte
	Sequence int64    // the wait that the client names; 0: the open one
	Checked  int64    // the wait that the answer was checked against; 0: none yet
	Key      string   // idempotency key; empty: none
	Digest   [32]byte // of the whole body, compared where the key is bound
}

// Resumed is the outcome of an answer.
type Resumed struct {
	Record    Record
	Replayed  bool
	Unchecked bool // nothing was written: check the answer against Record.Wait and ask again
}

// Maintained counts what one pass did.
type Maintained struct {
	Requeued  int // leases that ran out, back in the queue
	Failed    int // of those, and of what expired: budgets spent, nobody answered, or the time was over
	Canceled  int // of those: a cancel was pending
	Defaulted int // waits that took their default answer
	Removed   int // ended executions erased after their retention
	Malformed int // controls that can't be read: dropped from the indexes and listed
	Skipped   int // controls of an unknown schema version: left untouched
	More      bool
}

// ReadRequest asks for an execution.
type ReadRequest struct {
	ID    string
	Scope Scope
	// Watch marks the event log as watched for a while, so that changes of status are written to it.
	Watch bool
	// Input asks for the input, which clients are not shown otherwise.
	Input bool
	// Log asks for at most LogLimit entries of the log from LogFrom on, that entry included.
	Log      bool
	LogFrom  execution.LogID
	LogLimit int
	// History asks for at most so many of the newest entries of the history; 0: for none, and nothing is told of it.
	History int
	// LogNewest asks for the newest entry of the log alone, in place of Log.
	LogNewest bool
}

// Record is an execution as clients may see it, before it is rendered.
type Record struct {
	Control  execution.Control
	Progress [][]byte // rendered events, oldest first
	Result   []byte
	Error    []byte
	Wait     []byte
	Reason   []byte            // why cancellation was asked for, as plain text; nil: nobody said
	Input    []byte            // where it was asked for
	Log      []execution.Entry // the same
	History  execution.History // the same
	Now      execution.Instant
	// ExpiresAt is when an ended execution is removed, and its idempotency key with it, in milliseconds; 0: it has not ended, or it is
	// not known.
	ExpiresAt int64
}

// Position is a place in the log of an execution.
type Position struct {
	ID    string
	After execution.LogID
}

// Entries are log entries of one execution, in order.
type Entries struct {
	ID      string
	Entries []execution.Entry
}

// Counts is what is stored.
type Counts struct {
	Revisions []RevisionCount
	Leases    int64 // running executions, by the lease index
	Malformed int64 // controls listed for repair
	Now       execution.Instant
}

// RevisionCount is what is stored of one revision.
type RevisionCount struct {
	Revision
	Nonterminal int64
	Ready       int64 // due and queued, on its last chance included
	Delayed     int64 // queued, not yet due
	Waiting     int64 // for an answer
	OldestReady int64 // since when the ready one waits that is claimed next; 0: none
	ServedAt    int64 // when a process last said that it serves the revision; 0: not known to be served
}

// Limits are bounds that a store itself keeps. The zero value of a field takes its default.
type Limits struct {
	ProgressEvents int           // newest progress events kept; default 100
	HistoryChunks  int           // chunks kept in an event log; default 1,000
	HistoryBytes   int           // chunk bytes kept in an event log; default 1,000,000
	TerminalTTL    time.Duration // how long an ended execution is kept; default 7 days
	StreamTTL      time.Duration // how long its event log is kept, at most TerminalTTL; default 1 hour
	WatchTTL       time.Duration // how long a mark of being watched holds; default 60 s
}

// WithDefaults returns a copy with every zero field at its default.
func (l Limits) WithDefaults() Limits {
	l.ProgressEvents = orDefault(l.ProgressEvents, 100)
	l.HistoryChunks = orDefault(l.HistoryChunks, 1000)
	l.HistoryBytes = orDefault(l.HistoryBytes, 1_000_000)
	l.TerminalTTL = orDefault(l.TerminalTTL, 7*24*time.Hour)
	l.StreamTTL = min(orDefault(l.StreamTTL, time.Hour), l.TerminalTTL)
	l.WatchTTL = orDefault(l.WatchTTL, time.Minute)
	return l
}

func orDefault[T int | time.Duration](v, d T) T {
	if v == 0 {
		return d
	}
	return v
}
