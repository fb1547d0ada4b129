package runtime

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// claimer asks the store for work of all deployments of the process at once. It asks when something says that there may be
// some (a doorbell, a submission made here, a due time, a slot that became free where more was waiting), again until it
// gets less than it asked for, and now and then in any case, since a poll also says which revisions are served here and
// tells whether maintenance is due.
type claimer struct {
	store    store.Store
	registry *registry
	clock    *clock
	loop     *loop
	metrics  Metrics
	settings Settings
	worker   string
	base     context.Context       // bounds exchanges; outlives the loop
	start    func(claim)           // begins a session
	overdue  func(bool, time.Time) // tells the maintainer what a poll saw, and when

	doubt  *poll         // a poll whose outcome is not known
	number int64         // of the last poll
	polled time.Time     // when the last one was answered
	due    time.Duration // from then until the next delayed execution falls due; 0: none is known

	turned atomic.Pointer[time.Time] // when the loop last came round
}

// poll is one request, however often it is sent.
type poll struct {
	request store.PollRequest
	sent    time.Time // first: from here on what it claims may be ours
	until   time.Time // afterwards nothing that it claimed can be worked on any more
	timeout time.Duration
}

// claim is one execution that a poll brought.
type claim struct {
	store.Claimed
	sent time.Time // before the poll was first sent
}

// Run claims until ctx ends, and settles a poll that is in doubt then.
func (c *claimer) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		now := time.Now()
		c.turned.Store(&now)
		if err := c.step(); err != nil {
			sleep(ctx, c.loop.failed(err))
			continue
		}
		c.loop.succeeded()
		if !c.registry.hungry() {
			c.wait(ctx)
		}
	}
	c.settle()
	return nil
}

// stuck reports whether the loop has not come round for far longer than a poll and a wait may take, whatever the store does.
func (c *claimer) stuck() bool {
	turned := c.turned.Load()
	most := stuckPolls * (c.settings.PollInterval + c.settings.ExchangeTimeout + c.settings.BackoffMax)
	return turned != nil && time.Since(*turned) > max(most, stuckAtLeast)
}

const (
	stuckPolls   = 3
	stuckAtLeast = time.Minute
)

// step is one exchange: a new poll, or the one that is in doubt again.
func (c *claimer) step() error {
	p := c.doubt
	if p == nil || time.Now().After(p.until) {
		p = c.newPoll()
	}
	p.request.Doubt = c.doubt != nil
	ctx, cancel := context.WithTimeout(c.base, p.timeout)
	defer cancel()
	polled, err := c.store.Poll(ctx, p.request)
	if err != nil {
		c.registry.answered(p.request.Revisions, nil, true)
		c.doubt = nil
		if execution.Is(err, execution.CodeUnavailable) {
			c.doubt = p
		}
		c.metrics.SetStoreErrorStreak(int(c.loop.streak.Load()) + 1)
		return err
	}
	c.doubt = nil
	c.take(p, polled)
	return nil
}

func (c *claimer) newPoll() *poll {
	now := time.Now()
	p := &poll{sent: now, timeout: c.settings.ExchangeTimeout, until: now}
	c.number++
	p.request = store.PollRequest{Worker: c.worker, Token: rand.Text(), Number: c.number, MaxBytes: c.settings.PollBytes,
		Revisions: c.registry.wants()}
	for _, place := range c.registry.loads() {
		p.timeout = min(p.timeout, place.exchange)
		if end := now.Add(place.window()); end.After(p.until) {
			p.until = end
		}
	}
	return p
}

func (c *claimer) take(p *poll, polled store.Polled) {
	c.clock.learn(polled.Now)
	c.polled = time.Now()
	c.due = 0
	if polled.NextDue > polled.Now.Millis() {
		// A millisecond more, since the store's time stands somewhere within the one that it names.
		c.due = c.clock.until(polled.NextDue) + time.Millisecond
	}
	c.registry.answered(p.request.Revisions, polled.Claimed, polled.More)
	c.count(p, polled)
	for _, claimed := range polled.Claimed {
		c.start(claim{claimed, p.sent})
	}
	c.overdue(polled.Overdue, c.polled)
}

func (c *claimer) count(p *poll, polled store.Polled) {
	c.metrics.SetStoreErrorStreak(0)
	if polled.Malformed > 0 {
		c.loop.log.Error("controls that can't be read left the index", "count", polled.Malformed)
	}
	for _, w := range p.request.Revisions {
		if w.Count > 0 {
			c.metrics.Claimed(len(polled.Claimed))
			return
		}
	}
}

// wait returns when it is time for the next poll.
func (c *claimer) wait(ctx context.Context) {
	every := min(c.settings.PollInterval, c.settings.MaintenanceInterval)
	interval := time.NewTimer(time.Until(c.polled.Add(every)))
	defer interval.Stop()
	var due <-chan time.Time
	if c.due > 0 {
		timer := time.NewTimer(time.Until(c.polled.Add(c.due)))
		defer timer.Stop()
		due = timer.C
	}
	for !c.registry.hungry() {
		select {
		case <-ctx.Done():
			return
		case <-interval.C:
			return
		case <-due:
			due, c.due = nil, 0
			c.registry.ring(store.Revision{})
		case <-c.registry.wake:
		}
	}
}

// settle finds out what a poll in doubt has claimed, so that it is handed back instead of lost. It gives up after the grace.
func (c *claimer) settle() {
	end := time.Now().Add(c.settings.ShutdownGrace)
	for failures := 1; c.doubt != nil && c.doubt.wanted(); failures++ {
		if now := time.Now(); now.After(end) || now.After(c.doubt.until) || c.step() == nil {
			return
		}
		if !sleep(c.base, c.loop.backoff.delay(failures)) {
			return
		}
	}
}

func (p *poll) wanted() bool {
	for _, w := range p.request.Revisions {
		if w.Count > 0 {
			return true
		}
	}
	return false
}
