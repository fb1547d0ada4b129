package httpapi

import "github.com/windrow-run/windrow/internal/store"

// Projection is the body in which clients get an execution, for those who have no use for HTTP. An error says that what is
// stored can't be read.
func Projection(r store.Record) ([]byte, error) { return projectionOf(r) }
