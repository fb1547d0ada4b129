package store

import "github.com/windrow-run/windrow/internal/execution"

// Displaced counts what an operator's command did to a revision.
type Displaced struct {
	Done      int   // executions that the command was carried out on
	Remaining int64 // queued and waiting ones that are left
	Kept      int   // of those, as far as was looked: over, and about to be ended, or not for this release to touch
	Now       execution.Instant
}

// Displaces returns an error unless the command is one for Displace, and changes something.
func Displaces(rev Revision, cmd execution.Command) error {
	switch cmd := cmd.(type) {
	case execution.Move:
		if cmd.Revision != "" && cmd.Revision != rev.Revision {
			return nil
		}
	case execution.Withdraw:
		return nil
	}
	return execution.Errorf(execution.CodeInvalidTransition, "%s moves nothing away from the revision", execution.Name(cmd))
}
