package storetest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/storetest"
)

// state is a control of execution "x" as an honest store would show it.
func state(version int64, status execution.Status, attempt int64) execution.Control {
	return execution.Control{ID: "x", Deployment: "d", Revision: "r", Schema: 1, Status: status, Version: version,
		Attempt: attempt, Fence: 100 * attempt, Budgets: execution.DefaultBudgets(), CreatedAt: 1, UpdatedAt: version}
}

func running(version, attempt int64) execution.Control {
	c := state(version, execution.Running, attempt)
	c.Worker, c.Token, c.LeaseUntil = "w", fmt.Sprint("t", attempt), 99
	return c
}

func record(c execution.Control) store.Record { return store.Record{Control: c} }

func claim(version, attempt int64, checkpoint, answer string) store.Claimed {
	c := store.Claimed{Control: running(version, attempt), Input: []byte("1")}
	if checkpoint != "" {
		c.Checkpoint = []byte(checkpoint)
	}
	if answer != "" {
		c.Answer = []byte(answer)
	}
	return c
}

func key(fingerprint byte) store.Key {
	return store.Key{Owner: "o", Deployment: "d", Value: "k", Fingerprint: [32]byte{fingerprint}}
}

func cursor(epoch string, ms uint64, chunk int64) execution.Cursor {
	return execution.Cursor{Epoch: epoch, Entry: execution.LogID{Ms: ms}, Chunk: chunk}
}

// honest reports a whole life in which nothing is wrong, in an order that no clock would give.
func honest(c *storetest.Checker) {
	c.Submitted(key(1), "x")
	c.Submitted(key(1), "x")
	c.KeyRefused(key(2))
	c.Claimed(claim(2, 1, "", ""))
	first := c.Begin("x", 100, []byte("one"))
	first.Committed(running(3, 1), []byte("one"))
	c.Claimed(claim(2, 1, "", "")) // a poll that was repeated
	suspend := c.Begin("x", 100, []byte("two"))
	waiting := state(4, execution.Waiting, 1)
	waiting.WaitSequence = 4
	suspend.Committed(waiting, []byte("two"))
	c.Observed(record(waiting))
	late := c.Begin("x", 100, nil)
	queued := state(5, execution.Queued, 1)
	answer := store.ResumeRequest{ID: "x", Checked: 4, Key: "a", Answer: []byte("yes")}
	c.Resumed(answer, store.Resumed{Unchecked: true})
	c.Resumed(answer, store.Resumed{Record: record(queued)})
	c.Claimed(claim(6, 2, "two", "yes"))
	c.Resumed(answer, store.Resumed{Record: record(running(6, 2)), Replayed: true})
	// The worker of attempt 1 repeats what it sent before attempt 2 began.
	moved := running(6, 2)
	moved.Status = execution.Waiting
	late.Committed(moved, nil)
	lost := state(7, execution.Queued, 2)
	lost.LostLeases = 1
	c.Observed(record(lost))
	third := claim(8, 3, "two", "")
	third.Control.LostLeases = 1
	c.Claimed(third)
	c.Begin("x", 300, nil).Beaten()
	done := state(9, execution.Completed, 3)
	done.LostLeases, done.ProgressSequence = 1, 3
	c.Begin("x", 300, nil).Committed(done, nil)
	c.Canceled(record(done)) // too late
	c.Observed(store.Record{Control: done, Progress: [][]byte{[]byte(`{"sequence":2}`), []byte(`{"sequence":3}`)}})
	for _, viewer := range []string{"ann", "bob"} {
		c.Saw(viewer, "x", cursor("1", 5, 0), []byte("a"))
		c.Saw(viewer, "x", cursor("1", 5, 1), []byte("b"))
		c.SawChunks(viewer, "x", 1, 0, 2)
		if viewer == "bob" {
			c.Gap(viewer, "x")
		} else {
			c.Saw(viewer, "x", cursor("1", 6, 0), []byte("c"))
			c.SawChunks(viewer, "x", 1, 2, 1)
		}
		c.Saw(viewer, "x", cursor("1", 7, 0), []byte("d"))
		c.SawChunks(viewer, "x", 2, 0, 1)
		c.SawEnd(viewer, "x", execution.Completed)
	}
	c.Ended("projection", "x", execution.Completed)
	c.AtRest(store.Counts{Revisions: []store.RevisionCount{{ServedAt: 5}}})
}

func TestCheckerHonest(t *testing.T) {
	t.Parallel()
	c := storetest.NewChecker()
	honest(c)
	c.Submitted(store.Key{}, "y")
	c.Erased("y")
	if diff := cmp.Diff([]storetest.Violation(nil), c.Verify()); diff != "" {
		t.Fatalf("violations (-want +got):\n%s", diff)
	}
	c.Assert(t)
}

// Each fault is planted into an honest life and found as a breach of its invariant, once and nothing else.
func TestCheckerFinds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		invariant int
		detail    string
		plant     func(c *storetest.Checker)
	}{
		{"an execution that never ends", 1, "never seen to end", func(c *storetest.Checker) { c.Submitted(store.Key{}, "y") }},
		{"a state after the end", 1, "after the end", func(c *storetest.Checker) {
			s := state(10, execution.Queued, 3)
			s.LostLeases = 1
			c.Observed(record(s))
		}},
		{"a second end", 1, "after the end", func(c *storetest.Checker) {
			s := state(10, execution.Failed, 3)
			s.LostLeases = 1
			c.Observed(record(s))
		}},
		{"two states of one version", 1, "two states", func(c *storetest.Checker) { c.Observed(record(state(5, execution.Waiting, 1))) }},
		{"a source that changes its mind", 1, "changed from", func(c *storetest.Checker) {
			c.Submitted(store.Key{}, "y")
			c.Erased("y")
			c.Ended("list", "y", execution.Failed)
			c.Ended("list", "y", execution.Completed)
		}},
		{"a stamp that goes back", 1, "was made before", func(c *storetest.Checker) {
			s := state(1, execution.Queued, 0)
			s.UpdatedAt = 3
			c.Observed(record(s))
		}},
		{"a key that leads to two executions", 2, "leads to 2", func(c *storetest.Checker) {
			c.Submitted(key(1), "y")
			end := state(2, execution.Canceled, 0)
			end.ID = "y"
			c.Observed(record(end))
		}},
		{"a key with two bodies", 2, "two different bodies", func(c *storetest.Checker) { c.Submitted(key(3), "x") }},
		{"a refused body that is the bound one", 2, "was refused", func(c *storetest.Checker) { c.KeyRefused(key(1)) }},
		{"a write under an old fence", 3, "a write under", func(c *storetest.Checker) {
			c.Begin("x", 200, nil).Committed(state(8, execution.Queued, 2), nil)
		}},
		{"a beat under an old fence", 3, "a beat under", func(c *storetest.Checker) { c.Begin("x", 200, nil).Beaten() }},
		{"a fence that does not grow", 3, "after fence", func(c *storetest.Checker) {
			c.Claimed(otherClaim("y", 500, 1, "t1"))
			c.Claimed(otherClaim("y", 500, 2, "t2"))
		}},
		{"an attempt that is handed out twice", 4, "handed out twice", func(c *storetest.Checker) {
			c.Claimed(otherClaim("y", 500, 1, "t1"))
			c.Claimed(otherClaim("y", 500, 1, "t2"))
		}},
		{"an attempt that skips numbers", 4, "attempt 4 in version 4", func(c *storetest.Checker) {
			a := claim(2, 1, "", "")
			b := claim(4, 4, "", "")
			a.Control.ID, b.Control.ID = "y", "y"
			c.Claimed(a)
			c.Claimed(b)
		}},
		{"a budget that does not hold", 4, "lost leases", func(c *storetest.Checker) {
			s := state(1, execution.Queued, 0)
			s.ID, s.LostLeases = "y", 3
			c.Observed(record(s))
		}},
		{"a counter that goes back", 4, "counts less", func(c *storetest.Checker) {
			a, b := state(1, execution.Queued, 0), state(2, execution.Queued, 0)
			a.ID, b.ID, a.Retries = "y", "y", 1
			c.Observed(record(a))
			c.Observed(record(b))
		}},
		{"a checkpoint that is lost", 5, "saw no checkpoint", func(c *storetest.Checker) { c.Claimed(claim(6, 2, "", "yes")) }},
		{"a checkpoint that is too old", 5, "older", func(c *storetest.Checker) { c.Claimed(claim(6, 2, "one", "yes")) }},
		{"a checkpoint that nobody sent", 5, "nobody sent", func(c *storetest.Checker) { c.Claimed(claim(6, 2, "???", "yes")) }},
		{"a cursor that does not grow", 6, "after", func(c *storetest.Checker) {
			c.Saw("eve", "x", cursor("1", 6, 0), []byte("c"))
			c.Saw("eve", "x", cursor("1", 6, 0), []byte("c"))
		}},
		{"a skipped event", 6, "skipped", func(c *storetest.Checker) {
			c.Saw("eve", "x", cursor("1", 5, 1), []byte("b"))
			c.Saw("eve", "x", cursor("1", 7, 0), []byte("d"))
		}},
		{"another log without a gap", 6, "after", func(c *storetest.Checker) {
			c.Saw("eve", "x", cursor("1", 5, 1), []byte("b"))
			c.Saw("eve", "x", cursor("2", 9, 0), []byte("z"))
		}},
		{"two events at one cursor", 6, "two different events", func(c *storetest.Checker) { c.Saw("eve", "x", cursor("1", 5, 1), []byte("z")) }},
		{"a chunk that is shown twice", 6, "where 2 belongs", func(c *storetest.Checker) {
			c.SawChunks("eve", "x", 1, 0, 2)
			c.SawChunks("eve", "x", 1, 1, 1)
		}},
		{"an event after the end", 6, "after the end", func(c *storetest.Checker) { c.Saw("ann", "x", cursor("1", 8, 0), []byte("e")) }},
		{"two ends of one stream", 6, "two ends", func(c *storetest.Checker) { c.SawEnd("ann", "x", execution.Completed) }},
		{"a wait that is answered twice", 7, "answered twice", func(c *storetest.Checker) {
			c.Resumed(store.ResumeRequest{ID: "x", Checked: 4, Key: "b", Answer: []byte("yes")}, store.Resumed{Record: record(state(5, execution.Queued, 1))})
		}},
		{"a key that is applied twice", 7, "applied twice", func(c *storetest.Checker) {
			c.Resumed(store.ResumeRequest{ID: "x", Checked: 7, Key: "a", Answer: []byte("yes")}, store.Resumed{Record: record(state(5, execution.Queued, 1))})
		}},
		{"an answer that does not arrive", 7, "did not see the answer", func(c *storetest.Checker) { c.Claimed(claim(6, 2, "two", "no")) }},
		{"an end against a cancel", 8, "after an acknowledged cancel", func(c *storetest.Checker) {
			s := running(8, 3)
			s.LostLeases, s.CanceledAt = 1, 8
			c.Canceled(record(s))
		}},
		{"a counter at rest", 9, "1 unfinished", func(c *storetest.Checker) {
			c.AtRest(store.Counts{Revisions: []store.RevisionCount{{Nonterminal: 1}}})
		}},
		{"a lease at rest", 9, "1 leases", func(c *storetest.Checker) { c.AtRest(store.Counts{Leases: 1}) }},
		{"progress that was committed twice", 11, "progress event 1", func(c *storetest.Checker) {
			s := state(4, execution.Waiting, 1)
			s.WaitSequence, s.ProgressSequence, s.ID = 4, 2, "y"
			c.Observed(store.Record{Control: s, Progress: [][]byte{[]byte(`{"sequence":1}`), []byte(`{"sequence":1}`)}})
		}},
		{"a stream that ends otherwise than the record", 12, "says failed", func(c *storetest.Checker) { c.SawEnd("eve", "x", execution.Failed) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := storetest.NewChecker()
			honest(c)
			test.plant(c)
			got := c.Verify()
			if len(got) != 1 || got[0].Invariant != test.invariant || !strings.Contains(got[0].String(), test.detail) {
				t.Fatalf("found %v, want one breach of invariant %d with %q", got, test.invariant, test.detail)
			}
			if diff := cmp.Diff(got, c.Verify()); diff != "" {
				t.Fatalf("asked again (-first +second):\n%s", diff)
			}
		})
	}
}

// otherClaim is a claim of another execution.
func otherClaim(id string, fence, attempt int64, token string) store.Claimed {
	c := claim(2*attempt, attempt, "", "")
	c.Control.ID, c.Control.Fence, c.Control.Token = id, fence, token
	return c
}
