package store

import (
	"cmp"
	"slices"

	"github.com/windrow-run/windrow/internal/execution"
)

// ListRequest asks for executions, the newest first. Filters that are zero let everything pass.
type ListRequest struct {
	Scope         Scope
	Deployments   []string // any of them
	Revision      string
	Statuses      []execution.Status // any of them
	Labels        []string           // all of them: lines of [execution.Label]
	CreatedFrom   int64              // not before this time, in milliseconds
	CreatedBefore int64              // before this time
	After         Place              // where the last page ended; zero: it is the first
	Limit         int                // executions on the page, at least 1
}

// Listed is a page of a listing. It may be short, or empty, and not be the last one.
type Listed struct {
	Executions []execution.Control
	Next       Place // where the next page begins; zero: there is none
	// Looked is how many members of an index were looked at: at most ten times the limit, or one a partition.
	Looked int
	Now    execution.Instant
}

// Look is how many members of an index a page may look at.
func (r ListRequest) Look(partitions int) int { return max(10*r.Limit, partitions) }

// Start is the place that the page begins after.
func (r ListRequest) Start() Place {
	before := Place{CreatedAt: r.CreatedBefore}
	if r.After == (Place{}) || r.CreatedBefore != 0 && r.After.Older(before) < 0 {
		return before
	}
	return r.After
}

// Passes reports whether an execution passes the filters, but for those of time.
func (r ListRequest) Passes(c execution.Control) bool {
	return r.Scope.Admits(c.Owner) && (len(r.Deployments) == 0 || slices.Contains(r.Deployments, c.Deployment)) &&
		(r.Revision == "" || r.Revision == c.Revision) && (len(r.Statuses) == 0 || slices.Contains(r.Statuses, c.Status)) &&
		!slices.ContainsFunc(r.Labels, func(l string) bool { return !c.Labels.Has(l) })
}

// Place is a position among executions in the order of their creation, and of their ids where that is the same. What comes
// after a place is older, or was created at the same time and has a lesser id.
type Place struct {
	CreatedAt int64
	ID        string
}

// PlaceOf an execution.
func PlaceOf(c execution.Control) Place { return Place{c.CreatedAt, c.ID} }

// Older compares places: negative where p comes before other in a listing, which is newer; positive where it comes after.
func (p Place) Older(other Place) int {
	return cmp.Or(cmp.Compare(other.CreatedAt, p.CreatedAt), cmp.Compare(other.ID, p.ID))
}

// hiddenID is how much of an id that a page does not show may be told in its place: enough to tell it from others of its
// millisecond, and far too little to guess the rest.
const hiddenID = 12

// Hidden is the place without the rest of the id, which may be that of an execution that whoever asks must not know.
func (p Place) Hidden() Place { return Place{p.CreatedAt, p.ID[:min(len(p.ID), hiddenID)]} }
