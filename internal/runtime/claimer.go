package runtime

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

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
	lease    time.Duration         // the shortest one here
	base     context.Context       // bounds exchanges; outlives the loop
	start    func(claim)           // begins a session
	overdue  func(bool, time.Time) // tells the maintainer what a poll saw, and when

	doubt  *poll         // a poll whose outcome is not known
	number int64         // of the last poll
	polled time.Time     // when the last full one was answered
	busy   bool          // the last one brought as much of a revision as was asked for
	due    time.Duration // from then until the next delayed execution falls due; 0: none is known
	lapse  time.Duration // from then until a lease runs out that should have been renewed by now; 0: none is known

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
	sent     time.Time // before the poll was first sent
	solitary bool      // nothing else is to run here meanwhile
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

	takeoverSpread = 50 * time.Millisecond // within which processes look for a lease that has just run out

	fullPolls = 100 * time.Millisecond // how often a busy process asks in full at least
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
		c.registry.unanswered(p.request)
		c.doubt = p // whatever the error is: one partition may have claimed and another failed
		return err
	}
	c.doubt = nil
	c.take(p, polled)
	return nil
}

func (c *claimer) newPoll() *poll {
	now := time.Now()
	c.number++
	p := &poll{sent: now, timeout: c.settings.ExchangeTimeout, until: now, request: c.registry.ask()}
	p.request.Worker, p.request.Token, p.request.MaxBytes = c.worker, token(), c.settings.PollBytes
	p.request.Number, p.request.Brief = c.number, c.brief(now) && !p.request.Solitary
	for _, place := range c.registry.loads() {
		p.timeout = min(p.timeout, place.exchange)
		if end := now.Add(place.window()); end.After(p.until) {
			p.until = end
		}
	}
	return p
}

// brief reports whether claims alone are asked for: while the process is busy, what a full poll says of the time to come is soon enough
// known. A poll that brings too little is followed by a full one.
func (c *claimer) brief(now time.Time) bool {
	since := now.Sub(c.polled)
	return c.busy && c.doubt == nil && since < fullPolls && (c.due == 0 || since < c.due)
}

func (c *claimer) take(p *poll, polled store.Polled) {
	c.clock.learn(polled.Now)
	if c.registry.answered(p.request, polled) {
		c.loop.log.Info("nothing is claimed until all that runs here has ended, for the sake of work that must run alone",
			"remedy", "more processes, or a higher budget of lost leases")
	}
	c.busy = slices.ContainsFunc(p.request.Revisions, fulfilled(p.request, polled))
	c.count(p, polled)
	for _, claimed := range polled.Claimed {
		c.start(claim{claimed, p.sent, p.request.Solitary})
	}
	if !p.request.Solitary && !p.request.Brief {
		c.lookAhead(polled)
	}
}

// lookAhead takes in what a poll says of the time to come.
func (c *claimer) lookAhead(polled store.Polled) {
	c.polled, c.due, c.lapse = time.Now(), 0, 0
	// A millisecond more, since the store's time stands somewhere within the one that it names.
	if polled.NextDue > polled.Now.Millis() {
		c.due = c.clock.until(polled.NextDue) + time.Millisecond
	}
	// A lease is renewed every third of it, so one in its last half most likely will not be. Every process that polls knows of
	// it: they look one after the other, and the first one has all the work.
	if left := c.clock.until(polled.LeaseEnd); polled.LeaseEnd > 0 && left < c.lease/2 {
		c.lapse = left + time.Millisecond + rand.N(takeoverSpread)
	}
	c.overdue(polled.Overdue, c.polled)
}

func (c *claimer) count(p *poll, polled store.Polled) {
	if polled.Malformed > 0 {
		c.loop.log.Error("controls that can't be read left the index", "count", polled.Malformed)
	}
	if wanted(p.request) {
		c.metrics.Claimed(len(polled.Claimed))
	}
}

// wait returns when it is time for the next poll.
func (c *claimer) wait(ctx context.Context) {
	every := min(c.settings.PollInterval, c.settings.MaintenanceInterval)
	interval, due, lapse := c.timer(every), c.timer(c.due), c.timer(c.lapse)
	defer interval.Stop()
	defer due.Stop()
	defer lapse.Stop()
	for !c.registry.hungry() {
		select {
		case <-ctx.Done():
			return
		case <-interval.C:
			return
		case <-due.C:
			c.due = 0
			c.registry.ring(store.Revision{})
		case <-lapse.C:
			c.lapse = 0
			c.overdue(true, time.Now())
		case <-c.registry.wake:
		}
	}
}

// timer fires so long after the last poll was answered; never where d is 0.
func (c *claimer) timer(d time.Duration) *time.Timer {
	t := time.NewTimer(time.Until(c.polled.Add(d)))
	if d == 0 {
		t.Stop()
	}
	return t
}

// settle finds out what a poll in doubt has claimed, so that it is handed back instead of lost. It gives up after the grace.
func (c *claimer) settle() {
	end := time.Now().Add(c.settings.ShutdownGrace)
	for failures := 1; c.doubt != nil && wanted(c.doubt.request); failures++ {
		if now := time.Now(); now.After(end) || now.After(c.doubt.until) || c.step() == nil {
			return
		}
		if !sleep(c.base, c.loop.backoff.delay(failures)) {
			return
		}
	}
}
