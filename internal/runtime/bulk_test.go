package runtime

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// stored puts so many queued executions into the store.
func (k *kit) stored(n int) {
	k.Helper()
	for range n {
		_, err := k.store.Submit(k.Context(), store.Submission{Submit: execution.Submit{ID: k.store.NewID(store.Key{}), Deployment: "d",
			Revision: "r", Budgets: execution.DefaultBudgets(), Input: []byte("1")}})
		k.ok(err)
	}
}

// A request takes on as many as it may, of however many there are, and the next ones go on where it ended.
func TestBulkIsBounded(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.rt = k.make(k.params(deploy(nil)))
		k.stored(10_000)
		req := BulkRequest{List: store.ListRequest{Scope: everyone, Statuses: []execution.Status{execution.Queued}}, Most: 1000, Left: 10_000,
			Do: k.rt.Canceling(everyone, "")}
		requests, done := 0, 0
		for {
			out, err := k.rt.Bulk(k.Context(), req)
			k.ok(err)
			requests++
			done += out.Done
			if out.Matched > 1000 || out.Failed > 0 || len(out.Skipped) > 0 {
				k.Fatalf("took on %+v", out)
			}
			req.List.After = out.Next
			req.Left -= out.Matched
			if out.Ended {
				break
			}
		}
		if done != 10_000 || requests > 11 {
			k.Errorf("canceled %d in %d requests", done, requests)
		}
	})
}

// A request tells how far it has come once its time is over.
func TestBulkEndsWithItsTime(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.rt = k.make(k.params(deploy(nil)))
		k.stored(100)
		out, err := k.rt.Bulk(k.Context(), BulkRequest{List: store.ListRequest{Scope: everyone}, Most: 1000, Left: 1000,
			Do: func(context.Context, execution.Control) (Skip, error) {
				time.Sleep(500 * time.Millisecond)
				return "", nil
			}})
		k.ok(err)
		if out.Done != 4*bulkWidth || out.Matched != out.Done || out.Ended || out.Stopped != nil {
			k.Errorf("%+v", out)
		}
	})
}

// What fails, or panics, does not hold up the others; what holds for all stops before the part in which it came up, which is taken on again.
func TestBulkFailures(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.rt = k.make(k.params(deploy(nil)))
		k.stored(40)
		fail := make(chan error, 100)
		do := func(context.Context, execution.Control) (Skip, error) {
			switch err := <-fail; {
			case err != nil && err.Error() == "panic":
				panic("secret")
			default:
				return "", err
			}
		}
		req := BulkRequest{List: store.ListRequest{Scope: everyone}, Most: 1000, Left: 1000, Do: do}
		for range bulkWidth - 3 {
			fail <- nil
		}
		fail <- errors.New("panic")
		fail <- execution.Errorf(execution.CodeCorrupt, "x")
		fail <- execution.Errorf(execution.CodeNotFound, "x")
		for range bulkWidth - 1 {
			fail <- nil
		}
		fail <- execution.Errorf(execution.CodeCapacity, "full")
		out, err := k.rt.Bulk(k.Context(), req)
		k.ok(err)
		if out.Matched != bulkWidth || out.Done != 2*bulkWidth-4 || out.Failed != 2 || len(out.Failures) != 2 || out.Skipped[SkipGone] != 1 ||
			!execution.Is(out.Stopped, execution.CodeCapacity) || out.Ended {
			k.Errorf("%+v", out)
		}
		for range 40 {
			fail <- nil
		}
		req.List.After = out.Next
		if out, err = k.rt.Bulk(k.Context(), req); err != nil || out.Done != 40-bulkWidth || !out.Ended {
			k.Errorf("went on with %+v, %v", out, err)
		}
	})
}

// A reply that was lost is made good by asking again: nothing is resubmitted twice.
func TestResubmitAfterLostReply(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(nil)))
		k.stored(1)
		page, err := k.rt.List(k.Context(), store.ListRequest{Scope: everyone, Limit: 1})
		k.ok(err)
		id := page.Executions[0].ID
		_, err = k.rt.Resubmit(k.Context(), ResubmitRequest{ID: id, Scope: everyone})
		k.code(err, execution.CodeNotEnded)
		_, err = k.rt.Cancel(k.Context(), id, everyone, "")
		k.ok(err)
		first, err := k.rt.Resubmit(k.Context(), ResubmitRequest{ID: id, Scope: everyone, Key: "k", SameRevision: true})
		k.ok(err)
		again, err := k.rt.Resubmit(k.Context(), ResubmitRequest{ID: id, Scope: everyone, Key: "k", SameRevision: true})
		k.ok(err)
		if !again.Replayed || again.Record.Control.ID != first.Record.Control.ID || !first.Record.Control.Labels.Has(ResubmittedFrom+"="+id) {
			k.Errorf("%+v\n%+v", first, again)
		}
		_, err = k.rt.Resubmit(k.Context(), ResubmitRequest{ID: id, Scope: everyone, Key: "k"})
		k.code(err, execution.CodeKeyReused)
		_, err = k.rt.Resubmit(k.Context(), ResubmitRequest{ID: id, Scope: store.Scope{Owner: "other"}, Key: "k"})
		k.code(err, execution.CodeNotFound)
	})
}
