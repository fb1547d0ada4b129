package runtime

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

const (
	// bulkTime is how long a bulk request goes on before it tells how far it has come.
	bulkTime = 2 * time.Second
	// bulkWidth is how many executions are worked on at once.
	bulkWidth = 8
	// bulkPage is how many a page of the listing behind it has at most.
	bulkPage = 100
	// MaxBulkFailures is how many failures are told one by one.
	MaxBulkFailures = 20
)

// Skip is why an execution needed nothing done.
type Skip string

// The reasons.
const (
	SkipGone        Skip = "not_found"   // erased meanwhile
	SkipEnded       Skip = "ended"       // before it could be canceled
	SkipUnfinished  Skip = "not_ended"   // only what has ended is resubmitted
	SkipResubmitted Skip = "resubmitted" // by an earlier try of the same
)

// BulkRequest asks for the same to be done to every execution that a listing shows.
type BulkRequest struct {
	List store.ListRequest // its Limit is not used
	// Most is how many executions are taken on at most, at least 1.
	Most int
	// Left is how many may match yet. A page with more stops it before any of them is touched.
	Left int
	// Do is the operation; nil: they are only counted. A repeat must be safe.
	Do func(ctx context.Context, c execution.Control) (Skip, error)
}

// Bulk is how far a request has come.
type Bulk struct {
	Matched  int // executions that were taken on
	Done     int
	Skipped  map[Skip]int
	Failed   int
	Failures []BulkFailure // the first of them
	// Ended says that there is nothing behind. Otherwise Next is where to go on, and the zero Place is the beginning.
	Ended bool
	Next  store.Place
	// Stopped is why it broke off early; nil: it did not. What stopped it was not done.
	Stopped error
}

// BulkFailure is an execution that could not be worked on, and why.
type BulkFailure struct {
	ID  string
	Err error
}

// ErrMoreMatch says that more executions match than may.
var ErrMoreMatch = errors.New("more executions match than were counted")

// Bulk takes on the executions that match, a page after the other, until there are no more, as many as asked for were taken on, or its
// time is over. One that can't be worked on does not hold up the others; a reason that holds for all of them, such as a full deployment,
// stops it. The error is for the first page of the listing: nothing was done.
func (r *Runtime) Bulk(ctx context.Context, req BulkRequest) (Bulk, error) {
	out := Bulk{Next: req.List.After, Skipped: map[Skip]int{}}
	for begun := time.Now(); !out.Ended && out.Matched < req.Most && out.Stopped == nil; {
		ask := req.List
		ask.After, ask.Limit = out.Next, min(bulkPage, req.Most-out.Matched)
		page, err := r.List(ctx, ask)
		switch {
		case err != nil && out.Matched == 0:
			return out, err
		case err != nil:
			out.Stopped = err
		case out.Matched+len(page.Executions) > req.Left:
			out.Stopped = ErrMoreMatch
		default:
			whole := out.page(ctx, req, page.Executions, begun)
			if whole {
				out.Next, out.Ended = page.Next, page.Next == (store.Place{})
			}
		}
		if time.Since(begun) >= bulkTime {
			break
		}
	}
	return out, nil
}

// page works on a page, and reports whether it came to its end.
func (b *Bulk) page(ctx context.Context, req BulkRequest, found []execution.Control, begun time.Time) bool {
	if req.Do == nil {
		b.Matched += len(found)
		return true
	}
	for part := range slices.Chunk(found, bulkWidth) {
		if time.Since(begun) >= bulkTime {
			return false
		}
		b.part(ctx, req, part)
		if b.Stopped != nil {
			return false
		}
		b.Matched += len(part)
		b.Next = store.PlaceOf(part[len(part)-1])
	}
	return true
}

// part works on some executions at once.
func (b *Bulk) part(ctx context.Context, req BulkRequest, part []execution.Control) {
	skips, errs := make([]Skip, len(part)), make([]error, len(part))
	var all sync.WaitGroup
	for i, c := range part {
		all.Go(func() {
			defer func() { // no other goroutine catches it
				if reason := recover(); reason != nil {
					errs[i] = fmt.Errorf("panic: %v\n%s", reason, debug.Stack())
				}
			}()
			skips[i], errs[i] = req.Do(ctx, c)
		})
	}
	all.Wait()
	for i, c := range part {
		switch err := errs[i]; {
		case execution.Is(err, execution.CodeNotFound):
			b.Skipped[SkipGone]++
		case execution.Is(err, execution.CodeNotEnded):
			b.Skipped[SkipUnfinished]++
		case err == nil && skips[i] != "":
			b.Skipped[skips[i]]++
		case err == nil:
			b.Done++
		case execution.Unknown(err), execution.NoRoom(err), execution.Is(err, execution.CodeDraining):
			b.Stopped = err
		default:
			b.fail(c.ID, err)
		}
	}
}

func (b *Bulk) fail(id string, err error) {
	if b.Failed++; len(b.Failures) < MaxBulkFailures {
		b.Failures = append(b.Failures, BulkFailure{id, err})
	}
}

// Canceling is Cancel for a bulk request.
func (r *Runtime) Canceling(scope store.Scope, reason string) func(context.Context, execution.Control) (Skip, error) {
	return func(ctx context.Context, c execution.Control) (Skip, error) {
		record, err := r.Cancel(ctx, c.ID, scope, reason)
		if s := record.Control.Status; err == nil && s.Terminal() && s != execution.Canceled {
			return SkipEnded, nil
		}
		return "", err
	}
}

// Erasing is Erase for a bulk request.
func (r *Runtime) Erasing(scope store.Scope) func(context.Context, execution.Control) (Skip, error) {
	return func(ctx context.Context, c execution.Control) (Skip, error) {
		_, err := r.Erase(ctx, c.ID, scope)
		return "", err
	}
}

// Resubmitting is Resubmit for a bulk request, whose key makes it happen once for each execution.
func (r *Runtime) Resubmitting(like ResubmitRequest) func(context.Context, execution.Control) (Skip, error) {
	return func(ctx context.Context, c execution.Control) (Skip, error) {
		req := like
		req.ID = c.ID
		out, err := r.Resubmit(ctx, req)
		if err == nil && out.Replayed {
			return SkipResubmitted, nil
		}
		return "", err
	}
}
