package demo

import (
	"context"
	"time"

	"github.com/windrow-run/windrow/api/durable"
)

const (
	crashStatus = 3                      // exit code of a process that crash ended
	crashAfter  = 250 * time.Millisecond // so that whoever submitted it gets the answer first
)

// defineCrash ends its process in the middle of the first attempt; the second one completes, in whichever process finds
// the lease expired.
func defineCrash(p Params) (durable.Deployment, error) {
	crash := func(c durable.Context, _ struct{}) (attempts, error) {
		if c.Attempt() == 1 {
			select {
			case <-time.After(crashAfter):
				p.Exit(crashStatus)
			case <-c.Done():
				return attempts{}, context.Cause(c)
			}
		}
		return attempts{c.Attempt()}, nil
	}
	return durable.Define("crash", p.Revision, crash, nil)
}
