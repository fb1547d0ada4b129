package storetest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// Checker asserts what must always hold (section 9 of the design) over all that clients, workers and viewers of one
// namespace observe, within one epoch of it. Those who observe report as they go, from any goroutine and in any order;
// [Checker.Verify] tells at the end what can't be true together. Reports count only what was acknowledged: an outcome that
// nobody knows is not reported.
//
// Where an order in time matters, [Checker.Begin] is called before a request is first sent, and its Op when the answer is
// there, so that a slow reporter is never taken for a fault.
type Checker struct {
	mu       sync.Mutex // guards the following
	works    map[string]*work
	keys     map[scopedKey]map[string][32]byte // by id: the fingerprint that it was acknowledged for
	refusals []store.Key
	viewers  map[viewerID]*viewer
	partial  bool        // see Interrupted
	found    []Violation // what was seen at once
}

// Violation is a breach of an invariant.
type Violation struct {
	Invariant int // its number in section 9 of the design
	ID        string
	Detail    string
}

func (v Violation) String() string {
	return fmt.Sprintf("invariant %d: %s: %s", v.Invariant, v.ID, v.Detail)
}

type scopedKey struct{ owner, deployment, value string }

// work is what was observed of one execution.
type work struct {
	submitted   bool
	erased      bool
	controls    map[int64]execution.Control // by version
	claims      []store.Claimed
	fence       int64 // the newest that was handed out
	sent        map[[32]byte]bool
	checkpoints []commit
	answers     []answer
	canceled    bool // a cancel was acknowledged that must win
	ends        map[string]execution.Status
	records     []store.Record
}

type commit struct {
	version int64
	data    [32]byte
}

type answer struct {
	wait     int64
	key      string
	replayed bool
	version  int64
	data     []byte
}

// NewChecker makes a checker that has seen nothing.
func NewChecker() *Checker {
	return &Checker{works: map[string]*work{}, keys: map[scopedKey]map[string][32]byte{}, viewers: map[viewerID]*viewer{}}
}

// Interrupted reports that state which was acknowledged may be lost from now on, by a failover say: no end is asked of what was
// submitted. What is observed afterwards belongs to another epoch, and to another checker.
func (c *Checker) Interrupted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.partial = true
}

// work returns what is known of an execution. The caller holds the lock.
func (c *Checker) work(id string) *work {
	w := c.works[id]
	if w == nil {
		w = &work{controls: map[int64]execution.Control{}, sent: map[[32]byte]bool{}, ends: map[string]execution.Status{}}
		c.works[id] = w
	}
	return w
}

func (c *Checker) violatedf(invariant int, id, format string, args ...any) {
	c.found = append(c.found, Violation{invariant, id, fmt.Sprintf(format, args...)})
}

// Submitted reports an acknowledged submission, created or replayed. The zero key is none.
func (c *Checker) Submitted(key store.Key, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.work(id).submitted = true
	if key.Value == "" {
		return
	}
	k := scopedKey{key.Owner, key.Deployment, key.Value}
	if c.keys[k] == nil {
		c.keys[k] = map[string][32]byte{}
	}
	if before, ok := c.keys[k][id]; ok && before != key.Fingerprint {
		c.violatedf(2, id, "key %q led here with two different bodies", key.Value)
	}
	c.keys[k][id] = key.Fingerprint
}

// KeyRefused reports a submission that was refused because its key is bound to another body.
func (c *Checker) KeyRefused(key store.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusals = append(c.refusals, key)
}

// Erased reports that an execution is gone for good, with its key: nothing is asked of its end, and the key may lead elsewhere.
func (c *Checker) Erased(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.work(id).erased = true
	for _, bound := range c.keys {
		delete(bound, id)
	}
}

// Claimed reports a claim that was handed to a worker; a repeat of the same claim may be reported again.
func (c *Checker) Claimed(claim store.Claimed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.work(claim.Control.ID)
	w.claims = append(w.claims, claim)
	w.fence = max(w.fence, claim.Control.Fence)
	c.control(claim.Control)
}

// Op is an owned operation on its way.
type Op struct {
	c     *Checker
	id    string
	fence int64
	newer int64 // the newest fence that was handed out before this was sent
}

// Begin is called before an owned operation under that fence is sent the first time; its repeats are the same Op. checkpoint
// is what it stores, nil where it stores none; checkpoints are told apart by their bytes, so they should differ.
func (c *Checker) Begin(id string, fence int64, checkpoint []byte) *Op {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.work(id)
	if checkpoint != nil {
		w.sent[sha256.Sum256(checkpoint)] = true
	}
	return &Op{c, id, fence, w.fence}
}

// Committed reports that the operation was acknowledged with that control. checkpoint is as it was given to Begin.
func (o *Op) Committed(after execution.Control, checkpoint []byte) {
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	if o.newer > o.fence {
		o.c.violatedf(3, o.id, "a write under fence %d was accepted after fence %d was handed out", o.fence, o.newer)
	}
	if w := o.c.work(o.id); checkpoint != nil && !after.Status.Terminal() {
		w.checkpoints = append(w.checkpoints, commit{after.Version, sha256.Sum256(checkpoint)})
	}
	if !movedOn(after, o.fence) {
		o.c.control(after)
	}
}

// movedOn reports whether the answer may be that of a repeat, whose status is that of the operation and whose other fields
// are of a later version: see [execution.Control.Repeated].
func movedOn(after execution.Control, fence int64) bool {
	mine := after.Status == execution.Running && after.Fence == fence && after.Worker != ""
	return !mine && !after.Status.Terminal()
}

// Beaten reports that a heartbeat or a batch of chunks was accepted.
func (o *Op) Beaten() {
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	if o.newer > o.fence {
		o.c.violatedf(3, o.id, "a beat under fence %d was accepted after fence %d was handed out", o.fence, o.newer)
	}
}

// Resumed reports an acknowledged answer, applied or replayed.
func (c *Checker) Resumed(r store.ResumeRequest, out store.Resumed) {
	if out.Unchecked {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.work(r.ID)
	w.answers = append(w.answers, answer{r.Checked, r.Key, out.Replayed, out.Record.Control.Version, slices.Clone(r.Answer)})
	c.record(out.Record)
}

// Canceled reports an acknowledged cancel with the record that came back.
func (c *Checker) Canceled(r store.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := r.Control.Status; s == execution.Running || s == execution.Canceled {
		c.work(r.Control.ID).canceled = true
	}
	c.record(r)
}

// Observed reports a record that anybody read.
func (c *Checker) Observed(r store.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record(r)
}

// Told reports a record that was read with its history.
func (c *Checker) Told(r store.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if fault := disagreement(r); fault != "" {
		c.violatedf(12, r.Control.ID, "history: %s", fault)
	}
	c.record(r)
}

// Ended reports what a source (a projection, a stream, a list, a history) says how an execution ended.
func (c *Checker) Ended(source, id string, status execution.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.work(id)
	if before, ok := w.ends[source]; ok && before != status {
		c.violatedf(1, id, "%s: the end changed from %s to %s", source, before, status)
	}
	w.ends[source] = status
}

// AtRest reports what is counted when all work has ended.
func (c *Checker) AtRest(counts store.Counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if counts.Leases != 0 {
		c.violatedf(9, "", "%d leases at rest", counts.Leases)
	}
	for _, r := range counts.Revisions {
		if r.Nonterminal != 0 || r.Ready != 0 || r.Delayed != 0 {
			c.violatedf(9, "", "%v at rest: %d unfinished, %d ready, %d delayed", r.Revision, r.Nonterminal, r.Ready, r.Delayed)
		}
	}
}

func (c *Checker) record(r store.Record) {
	w := c.work(r.Control.ID)
	w.records = append(w.records, r)
	c.control(r.Control)
}

// Assert fails the test with every violation.
func (c *Checker) Assert(t testing.TB) {
	t.Helper()
	for _, v := range c.Verify() {
		t.Error(v)
	}
}
