package store

import "time"

// Condition is something about a store that its operator should know.
type Condition struct {
	Code    string    // of a closed set, which the store documents
	Message string    // what is the matter and what to do, in sentences; no payload, id or password
	Since   time.Time // when it was noticed, by this process's clock
	Severe  bool      // the store does not do all of its work, or must not go on like this
}

// Reporter is a store that can tell more about itself than whether it answers.
type Reporter interface {
	// Conditions are those that hold now, in the order of their codes. It asks nobody.
	Conditions() []Condition
}
