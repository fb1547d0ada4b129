package store

import "github.com/windrow-run/windrow/internal/execution"

// Erased counts what is gone.
type Erased struct {
	Executions int
	Unfinished int      // of those
	Keys       int      // idempotency keys that were freed
	Ran        []string // executions that ran: their workers are refused from now on
	Kept       int      // executions of the owner, as far as can be told, that this release can't read and does not touch
	More       bool     // the owner has more: ask again
	Now        execution.Instant
}

// Add counts another round in.
func (e *Erased) Add(more Erased) {
	e.Executions += more.Executions
	e.Unfinished += more.Unfinished
	e.Keys += more.Keys
	e.Ran = append(e.Ran, more.Ran...)
	e.Kept += more.Kept
	e.More = e.More || more.More
	e.Now = max(e.Now, more.Now)
}
