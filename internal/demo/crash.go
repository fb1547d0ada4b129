package demo

import "github.com/windrow-run/windrow/api/durable"

// crashStatus is the exit code of a process that crash ended.
const crashStatus = 3

// defineCrash ends its process in the middle of the first attempt; the second one completes, in whichever process finds
// the lease expired.
func defineCrash(p Params) (durable.Deployment, error) {
	crash := func(c durable.Context, _ struct{}) (attempts, error) {
		if c.Attempt() == 1 {
			p.Exit(crashStatus)
		}
		return attempts{c.Attempt()}, nil
	}
	return durable.Define("crash", p.Revision, crash, nil)
}
