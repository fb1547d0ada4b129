package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
)

// MaxWorkers is how many processes a store tells of.
const MaxWorkers = 1000

// WorkersKept is for how long a store knows of a process that polls no more, at least.
const WorkersKept = time.Hour

// Workers are the processes that have polled of late.
type Workers struct {
	Seen []Worker
	Now  execution.Instant
}

// Worker is a process, by what it said when it polled. One that serves other revisions than before may be there twice.
type Worker struct {
	Name      string
	Revisions []Revision
	SeenAt    int64 // when it last said so, in milliseconds
}

// SortWorkers puts the newest first and leaves out what is over MaxWorkers.
func SortWorkers(w *Workers) {
	slices.SortStableFunc(w.Seen, func(a, b Worker) int {
		return cmp.Or(cmp.Compare(b.SeenAt, a.SeenAt), cmp.Compare(a.Name, b.Name))
	})
	w.Seen = w.Seen[:min(len(w.Seen), MaxWorkers)]
}
