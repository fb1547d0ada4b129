// Package demo holds the deployments that `windrow dev` serves, so that there is something to try. Each shows one thing
// that a durable execution can do, and is written as an author would write it, with the public API only.
package demo

import (
	"encoding/json"
	"fmt"

	"github.com/windrow-run/windrow/api/durable"
)

// Params are what the demo deployments need from outside.
type Params struct {
	// Revision of all of them. Empty: "1".
	Revision string
	// Exit ends the process with a status code; crash calls it. It is os.Exit but in tests, where it must not return.
	Exit func(code int)
}

// Deployments returns the demo deployments. It returns an error where the revision can't be one.
func Deployments(p Params) ([]durable.Deployment, error) {
	if p.Revision == "" {
		p.Revision = "1"
	}
	var all []durable.Deployment
	for _, define := range []func(Params) (durable.Deployment, error){
		defineEcho, defineStory, defineApproval, defineFlaky, defineCrash,
	} {
		d, err := define(p)
		if err != nil {
			return nil, fmt.Errorf("demo: %w", err)
		}
		all = append(all, d)
	}
	return all, nil
}

// defineEcho returns its input byte for byte, whatever JSON it is.
func defineEcho(p Params) (durable.Deployment, error) {
	echo := func(_ durable.Context, in json.RawMessage) (json.RawMessage, error) { return in, nil }
	return durable.Define("echo", p.Revision, echo, nil)
}
