package storetest

import (
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/faultstore"
)

// retained is how long an ended execution, and with it the key, is kept in histories of a key.
const retained = time.Hour

// binding is what one idempotency key is bound to, with the store's clock.
type binding struct {
	id       string // empty: nothing
	body     uint8
	canceled bool
	until    int64 // end of the retention, once it is canceled
	now      execution.Instant
}

// submitting sends a body with the key; id is used where it is not bound.
type submitting struct {
	id   string
	body uint8
}

func (r submitting) step(b binding) (binding, told) {
	if b.id != "" {
		return b, b.found(r.body)
	}
	b.id, b.body = r.id, r.body
	return b, told{control: b.control(), now: b.now}
}

func (b binding) control() execution.Control {
	c := execution.Control{ID: b.id, Status: execution.Queued}
	if b.canceled {
		c.Status = execution.Canceled
	}
	return c
}

func (b binding) found(body uint8) told {
	if body != b.body {
		return told{code: execution.CodeKeyReused}
	}
	return told{control: b.control(), did: "replayed", now: b.now}
}

// looking asks what the key is bound to.
type looking struct{ body uint8 }

func (r looking) step(b binding) (binding, told) {
	if b.id == "" {
		return b, told{code: execution.CodeNotFound}
	}
	return b, b.found(r.body)
}

// ending cancels the execution of that id, so that its retention begins.
type ending struct{ id string }

func (r ending) step(b binding) (binding, told) {
	if b.id != r.id {
		return b, told{code: execution.CodeNotFound}
	}
	if !b.canceled {
		b.canceled, b.until = true, b.now.Millis()+retained.Milliseconds()
	}
	return b, told{control: b.control(), now: b.now}
}

// erasing is a pass of maintenance, which frees the key once the retention is over.
type erasing struct{ maintenance }

func (r erasing) step(b binding) (binding, told) {
	if !b.canceled || b.now.Millis() < b.until {
		return b, told{}
	}
	return binding{now: b.now}, told{did: "removed"}
}

// aging lets time go by.
type aging struct{ d time.Duration }

func (r aging) step(b binding) (binding, told) { //nolint:unparam // a request has an answer
	b.now += execution.Instant(r.d.Microseconds())
	return b, told{}
}

// submitter is a client that submits with one key.
type submitter struct {
	*client
	id string // of its last submission
}

// playKey lets clients submit with one key.
func playKey(t *testing.T, f Factory, seed uint64, losses bool) *history {
	t.Helper()
	s := newScene(t, f(t, store.Limits{TerminalTTL: retained}), losses)
	s.model = specification(binding{now: s.now()})
	last := &submitter{}
	last.client = s.play(seed, func(c *client) func() {
		p := &submitter{client: c}
		return p.act
	})
	last.look()
	last.cancel()
	last.pass(retained)
	last.erase()
	last.submit()
	return last.close()
}

func (p *submitter) act() {
	switch p.rand.IntN(12) {
	case 0, 1, 2, 3, 4:
		p.submit()
	case 5, 6:
		p.look()
	case 7, 8:
		p.cancel()
	case 9, 10:
		p.erase()
	default:
		p.pass(one(p.client, retained/3, retained))
	}
}

func (p *submitter) key(body uint8) store.Key {
	return store.Key{Deployment: "story", Value: "k", Fingerprint: [32]byte{body}}
}

// submit sends a body, under a new id or again under that of its last submission.
func (p *submitter) submit() {
	in := submitting{id: p.id, body: one[uint8](p.client, 1, 1, 1, 2)}
	if p.id == "" || !p.once(4) {
		in.id = p.faults.NewID(p.key(in.body))
	}
	p.id = in.id
	p.learn(p.send(faultstore.Submit, in, true, func() told {
		return boundAs(p.faults.Submit(p.ctx, store.Submission{Key: p.key(in.body), Submit: execution.Submit{ID: in.id,
			Deployment: "story", Revision: "r1", Budgets: execution.DefaultBudgets(), Input: []byte{'0' + in.body}}}))
	}))
}

// boundAs is what a submission was told, as the specification knows it.
func boundAs(r store.Submitted, err error) told {
	if err != nil {
		return refusal(err)
	}
	out := told{control: execution.Control{ID: r.Record.Control.ID, Status: r.Record.Control.Status}, now: r.Record.Now}
	if r.Replayed {
		out.did = "replayed"
	}
	return out
}

func (p *submitter) learn(out told) {
	if id := out.control.ID; id != "" {
		p.scene.id.Store(&id)
	}
}

func (p *submitter) look() {
	in := looking{body: one[uint8](p.client, 1, 1, 2)}
	p.learn(p.send(faultstore.FindKey, in, true, func() told { return boundAs(p.faults.FindKey(p.ctx, p.key(in.body))) }))
}

// cancel ends the execution that clients have last seen.
func (p *submitter) cancel() {
	seen := p.scene.id.Load()
	if seen == nil {
		return
	}
	in := ending{id: *seen}
	p.send(faultstore.Cancel, in, true, func() told {
		r, err := p.faults.Cancel(p.ctx, in.id, everyone, "")
		return boundAs(store.Submitted{Record: r}, err)
	})
}

func (p *submitter) erase() {
	in := erasing{maintenance{alone: p.alone}}
	p.send(faultstore.Maintain, in, false, func() told { return maintainedAs(p.faults.Maintain(p.ctx, 10)) })
}

func (p *submitter) pass(d time.Duration) { p.advanced(aging{d}, d) }
