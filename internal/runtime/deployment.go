package runtime

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/store"
)

const namePattern = `^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`

// ReservedNames are the first path segments of routes, those that hayhooks itself has, and those that may come. A deployment
// can't bear one, since its own routes begin with its name.
func ReservedNames() []string {
	return []string{"v1", "v2", "status", "livez", "readyz", "healthz", "metrics", "openapi.yaml", "openapi.json", "docs", "redoc",
		"debug", "console", "dashboard", "favicon.ico", "robots.txt"}
}

// deployment is a handler.Deployment with every default completed.
type deployment struct {
	handler.Deployment
	slots          int
	lease          time.Duration
	margin         time.Duration
	heartbeat      time.Duration
	exchange       time.Duration // bound of one exchange about a claim
	budgets        execution.Budgets
	maxNonterminal int64
	retryDelay     time.Duration
	retryMaxDelay  time.Duration
}

func (d *deployment) revision() store.Revision {
	return store.Revision{Deployment: d.Name, Revision: d.Revision}
}

// window is how long a claim may be worked on after the request that was confirmed was sent.
func (d *deployment) window() time.Duration { return d.lease - d.margin }

func newDeployments(all []handler.Deployment, s Settings) ([]*deployment, error) {
	var out []*deployment
	seen := map[string]bool{}
	for _, h := range all {
		d := newDeployment(h, s)
		if err := d.validate(); err != nil {
			return nil, fmt.Errorf("deployment %q: %w", h.Name, err)
		}
		if seen[d.Name] {
			return nil, fmt.Errorf("deployment %q is defined twice", d.Name)
		}
		seen[d.Name] = true
		out = append(out, d)
	}
	return out, nil
}

func newDeployment(h handler.Deployment, s Settings) *deployment {
	o := h.Options
	d := &deployment{
		Deployment:     h,
		slots:          orDefault(o.Slots, s.Slots),
		lease:          orDefault(o.Lease, s.Lease),
		budgets:        o.Budgets,
		maxNonterminal: *s.MaxNonterminal,
		retryDelay:     orDefault(o.RetryDelay, s.RetryDelay),
	}
	d.margin = orDefault(s.CommitMargin, min(maxCommitMargin, d.lease/10))
	d.heartbeat = orDefault(s.Heartbeat, d.lease/3)
	// A third, so that a hung exchange leaves time for two more before the window closes.
	d.exchange = min(s.ExchangeTimeout, d.window()/3)
	d.retryMaxDelay = orDefault(o.RetryMaxDelay, max(s.RetryMaxDelay, d.retryDelay))
	if d.budgets == (execution.Budgets{}) {
		d.budgets = execution.DefaultBudgets()
	}
	if o.MaxNonterminal != nil {
		d.maxNonterminal = *o.MaxNonterminal
	}
	return d
}

func (d *deployment) validate() error {
	pattern := regexp.MustCompile(namePattern)
	switch {
	case !pattern.MatchString(d.Name):
		return fmt.Errorf("the name does not match %s", namePattern)
	case slices.Contains(ReservedNames(), d.Name):
		return fmt.Errorf("the name is that of a route")
	case !pattern.MatchString(d.Revision):
		return fmt.Errorf("revision %q does not match %s", d.Revision, namePattern)
	case d.Handler == nil:
		return fmt.Errorf("no handler")
	case d.slots < 1:
		return fmt.Errorf("slots: %d is below 1", d.slots)
	case d.maxNonterminal < 0:
		return fmt.Errorf("unfinished executions: %d is below 0", d.maxNonterminal)
	case d.retryDelay < 0 || d.retryMaxDelay < d.retryDelay:
		return fmt.Errorf("retry delays: %s to %s is no range", d.retryDelay, d.retryMaxDelay)
	}
	if err := d.budgets.Validate(); err != nil {
		return err
	}
	return d.validateLease()
}

func (d *deployment) validateLease() error {
	switch {
	case d.margin < time.Millisecond:
		return fmt.Errorf("commit margin: %s is below 1ms", d.margin)
	case d.lease < leaseMargins*d.margin:
		return fmt.Errorf("lease: %s is below %d commit margins of %s", d.lease, leaseMargins, d.margin)
	case d.heartbeat <= 0 || d.heartbeat >= d.window():
		return fmt.Errorf("heartbeat: %s leaves no time in a lease of %s with a commit margin of %s",
			d.heartbeat, d.lease, d.margin)
	}
	return nil
}
