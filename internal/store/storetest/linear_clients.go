package storetest

import (
	"cmp"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/store/faultstore"
)

// worker is a client that claims the execution, works on it, and goes on with ownership that it has lost.
type worker struct {
	*client
	rev   store.Revision
	seen                    // shared by all
	held  execution.Control // as it holds it, or believes to
	stale execution.Control // as it last held it
	token string            // of its last poll

	solitary bool // that poll asked for work on its last chance
}

// seen is what anybody has last seen of the execution.
type seen struct {
	wait   *atomic.Int64
	status *atomic.Value // an execution.Status
}

// move is something that a worker may do, so many times as likely as what has weight 1.
type move struct {
	weight int
	do     func()
}

// playLife lets workers live through one execution.
func playLife(t *testing.T, f Factory, seed uint64, losses bool) *history {
	t.Helper()
	s := newScene(t, f(t, store.Limits{}), losses)
	rev := store.Revision{Deployment: "story", Revision: "r1"}
	roll := dice(seed, 0)
	sub := execution.Submit{ID: s.faults.NewID(store.Key{}), Deployment: rev.Deployment, Revision: rev.Revision, Input: []byte("1"),
		Budgets: execution.Budgets{LostLeases: 20, Retries: 20, Claims: 20}}
	if roll.IntN(3) == 0 { // budgets that such a short life may spend
		sub.Budgets = execution.Budgets{LostLeases: 2, Retries: 1, Claims: 3}
	}
	r, err := s.faults.Submit(s.ctx, store.Submission{Submit: sub})
	if err != nil {
		t.Fatal(err)
	}
	s.id.Store(&sub.ID)
	s.model = specification(life{control: r.Record.Control, now: r.Record.Now})
	shared := seen{wait: &atomic.Int64{}, status: &atomic.Value{}}
	shared.status.Store(execution.Queued)
	last := &worker{rev: rev, seen: shared}
	last.client = s.play(seed, func(c *client) func() {
		w := &worker{client: c, rev: rev, seen: shared}
		return w.act
	})
	last.finish()
	return last.close()
}

// finish looks at what clients left, and sees that what they left undone is done.
func (w *worker) finish() {
	w.read(true)
	w.maintain()
	w.pass(2 * lease)
	w.maintain()
	w.cancel()
	w.read(false)
}

// act is one move.
func (w *worker) act() {
	moves := []move{
		{4, func() { w.read(false) }},
		{1, w.giveUp},
		{6, w.maintain},
		{2, func() { w.pass(time.Second) }},
		{2, func() { w.pass(lease / 2) }},
		{1, func() { w.pass(lease) }},
		{2, func() { w.poll(w.name(), false) }},
		{2, func() { w.poll(cmp.Or(w.token, w.name()), w.solitary) }}, // a repeat, where its batch is still good
	}
	switch {
	case w.status.Load() == execution.Waiting:
		moves = append(moves, move{60, w.resume})
	case w.status.Load() == execution.Queued:
		moves = append(moves, move{30, func() { w.poll(w.name(), false) }}, move{15, func() { w.poll(w.name(), true) }})
	case w.wait.Load() != 0:
		moves = append(moves, move{3, w.resume})
	}
	if w.stale.ID != "" {
		moves = append(moves, move{9, func() { w.beat(w.stale) }}, move{9, func() { w.own(w.stale) }})
	}
	if w.held.ID != "" {
		moves = append(moves, move{25, func() { w.beat(w.held) }}, move{90, func() { w.own(w.held) }}, move{8, w.freeze})
	} else {
		moves = append(moves, move{120, runtime.Gosched}) // leaves most of the history to who does
	}
	total := 0
	for _, m := range moves {
		total += m.weight
	}
	at := w.rand.IntN(total)
	for _, m := range moves {
		if at -= m.weight; at < 0 {
			m.do()
			return
		}
	}
}

// learn takes in what an answer says of the execution.
func (w *worker) learn(out told) {
	c := out.control
	if c.Status == "" {
		return
	}
	w.status.Store(c.Status) // a hint: answers may overtake each other
	if c.Status == execution.Waiting {
		w.wait.Store(c.WaitSequence)
	}
	if c.Status.Terminal() {
		w.over.Store(true)
	}
}

// freeze does what a process does that stood still for longer than its lease: it repeats its poll, and goes on as if
// nothing had been. That poll may claim anew, under the same token, so that the fence alone tells the two claims apart.
func (w *worker) freeze() {
	before := w.held
	for _, do := range []func(){
		func() { w.pass(lease) },
		w.maintain,
		func() { w.poll(w.token, w.solitary) },
		func() { w.beat(before) },
		func() { w.own(before) },
	} {
		if !w.full() {
			do()
		}
	}
}

// poll claims; a solitary one takes only what is on its last chance.
func (w *worker) poll(token string, solitary bool) {
	w.token, w.solitary = token, solitary
	in := polling{client: w.number, worker: fmt.Sprint("w", w.number), token: token, solitary: solitary}
	out := w.send(faultstore.Poll, in, true, func() told {
		p, err := w.faults.Poll(w.ctx, store.PollRequest{Worker: in.worker, Token: in.token, Solitary: solitary,
			Revisions: []store.Want{{Revision: w.rev, Count: 1, Lease: lease}}})
		if err != nil {
			return refusal(err)
		}
		out := told{now: p.Now}
		for _, c := range p.Claimed {
			out.control, out.did, out.flag = c.Control, out.did+"claimed", c.Invalid
			out.payloads = payloads{checkpoint: string(c.Checkpoint), answer: string(c.Answer)}
		}
		return out
	})
	w.learn(out)
	if out.did != "" {
		w.hold(out.control)
	}
}

// hold takes note of ownership; a control that is not running ends it.
func (w *worker) hold(c execution.Control) {
	if w.held.ID != "" && w.held.Fence != c.Fence {
		w.stale = w.held
	}
	w.held = c
	if c.Status != execution.Running {
		w.held = execution.Control{}
	}
}

// beat renews the lease that c tells of, or only asks for it.
func (w *worker) beat(c execution.Control) {
	in := beating{owner: ownership(c), lease: one(w.client, lease, 0)}
	out := w.send(faultstore.Beat, in, true, func() told {
		all, err := w.faults.Beat(w.ctx, []store.Beat{{ID: c.ID, Ownership: in.owner, Lease: in.lease}})
		if err != nil {
			return refusal(err)
		}
		b := all[0]
		if b.Err != nil {
			return told{code: execution.CodeOf(b.Err), now: b.Now}
		}
		return beaten(b.Version, b.LeaseUntil, b.Canceled, b.Now)
	})
	w.doubt(c, out)
}

// doubt ends a hold that was refused.
func (w *worker) doubt(c execution.Control, out told) {
	if out.code == execution.CodeLeaseLost && w.held.ID != "" && w.held.Fence == c.Fence {
		w.hold(execution.Control{})
	}
}

// own gives an owned command in the name of c.
func (w *worker) own(c execution.Control) {
	in := w.command(c)
	out := w.send(faultstore.Transition, in, true, func() told {
		after, err := w.faults.Transition(w.ctx, c, in.command)
		if err != nil {
			return refusal(err)
		}
		return told{control: after.Control}
	})
	w.learn(out)
	w.doubt(c, out)
	if out.code == "" && w.held.ID != "" && out.control.Fence == w.held.Fence {
		w.hold(out.control)
	}
}

// command is an owned command; those that end the execution are rare.
func (w *worker) command(c execution.Control) owning {
	o := execution.Owned{Ownership: ownership(c), Operation: w.name()}
	if w.once(3) {
		o.Progress = []execution.Event{event(o.Operation)}
	}
	data := fmt.Appendf(nil, "%q", o.Operation)
	wait, err := execution.Wait{Kind: "k", Default: one(w.client, nil, []byte("1"))}.Encode()
	if err != nil {
		w.t.Error(err)
	}
	var cmd execution.Command
	switch w.rand.IntN(30) {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		cmd = execution.Checkpoint{Owned: o, Data: data, Consumed: w.once(2), Lease: lease}
	case 8, 9, 10, 11, 12:
		cmd = execution.Report{Owned: o}
	case 13, 14, 15, 16, 17, 18:
		cmd = execution.Suspend{Owned: o, Checkpoint: one(w.client, nil, data), Wait: wait, Timeout: one(w.client, 0, lease)}
	case 19, 20:
		cmd = execution.Retry{Owned: o, Delay: one(w.client, 0, 5*time.Second), Error: broken}
	case 21, 22, 23, 24, 25, 26:
		cmd = execution.Release{Owned: o}
	case 27:
		cmd = execution.Fail{Owned: o, Error: broken}
	default:
		cmd = execution.Complete{Owned: o, Result: data}
	}
	return owning{command: cmd, operation: o.Operation}
}

// resume answers the wait that was last seen, or one that never was.
func (w *worker) resume() {
	wait := w.wait.Load()
	in := resuming{sequence: one(w.client, 0, 0, wait, wait+1), checked: one(w.client, wait, wait, wait, 0), answer: fmt.Sprintf("%q", w.name()),
		key: w.rand.IntN(answerKeys + 1), digest: one[uint8](w.client, 1, 1, 2)}
	r := store.ResumeRequest{ID: *w.id.Load(), Scope: everyone, Answer: []byte(in.answer), Sequence: in.sequence, Checked: in.checked,
		Digest: [32]byte{in.digest}}
	if in.key > 0 {
		r.Key = fmt.Sprint("k", in.key)
	}
	w.learn(w.send(faultstore.Resume, in, in.key > 0, func() told {
		got, err := w.faults.Resume(w.ctx, r)
		out := shownAs(got.Record, err)
		switch {
		case got.Replayed:
			out.did = "replayed"
		case got.Unchecked:
			out.did = "unchecked"
		}
		return out
	}))
}

// giveUp cancels, rarely: most executions are to live on until the history is full.
func (w *worker) giveUp() {
	if w.once(3) {
		w.cancel()
	}
}

func (w *worker) cancel() {
	in := canceling{reason: "enough"}
	w.learn(w.send(faultstore.Cancel, in, true, func() told {
		return shownAs(w.faults.Cancel(w.ctx, *w.id.Load(), everyone, in.reason))
	}))
}

func (w *worker) read(first bool) {
	w.learn(w.send(faultstore.Read, viewing{first: first}, true, func() told {
		return shownAs(w.faults.Read(w.ctx, store.ReadRequest{ID: *w.id.Load(), Scope: everyone}))
	}))
}

func (w *worker) maintain() {
	out := w.send(faultstore.Maintain, maintenance{alone: w.alone}, false, func() told {
		return maintainedAs(w.faults.Maintain(w.ctx, 10))
	})
	if out.did == string(execution.Queued) {
		w.status.Store(execution.Queued)
	}
}

func (w *worker) pass(d time.Duration) { w.advanced(passing{d}, d) }
