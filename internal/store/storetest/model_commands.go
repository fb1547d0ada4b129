package storetest

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// span is a duration of the store's clock.
func span(d execution.Instant) time.Duration { return time.Duration(d) * time.Microsecond }

func pick[T any](rt *rapid.T, what string, of ...T) T {
	return of[rapid.IntRange(0, len(of)-1).Draw(rt, what)]
}

func (m *model) token() string {
	m.tokens++
	return fmt.Sprintf("t%d", m.tokens)
}

// likely is an execution that was last seen with the status, if there is one, and mostly nobody else.
func (m *model) likely(rt *rapid.T, status execution.Status) string {
	var ids []string
	for _, s := range m.submissions { // in their order, so that a failure can be repeated whatever the ids are
		if m.seen[s.ID].Status == status {
			ids = append(ids, s.ID)
		}
	}
	if len(ids) == 0 || pick(rt, "anyone", false, false, false, true) {
		return m.someone(rt)
	}
	return pick(rt, string(status), ids...)
}

// someone is any execution that was ever submitted, or one that never was.
func (m *model) someone(rt *rapid.T) string {
	ids := []string{m.subject.Store.NewID(store.Key{})}
	for _, s := range m.submissions {
		ids = append(ids, s.ID)
	}
	return ids[rapid.IntRange(0, len(ids)-1).Draw(rt, "execution")]
}

func (m *model) submit(rt *rapid.T) {
	s := store.Submission{MaxNonterminal: pick[int64](rt, "ceiling", 0, 0, 1, 3), MaxOwned: pick[int64](rt, "owner's ceiling", 0, 0, 1, 3)}
	s.Submit = execution.Submit{
		Deployment: pick(rt, "deployment", "a", "b"),
		Revision:   pick(rt, "revision", "r1", "r1", "r2"),
		Owner:      pick(rt, "owner", "", "ann"),
		Labels:     pick[execution.Labels](rt, "labels", "", "", "a=1", "a=1\nb=2"),
		Budgets: pick(rt, "budgets", execution.DefaultBudgets(), execution.Budgets{LostLeases: 1, Retries: 1, Claims: 2},
			execution.Budgets{LostLeases: 2, Retries: 1, Claims: 3}),
		Priority: pick(rt, "priority", int64(0), 0, 9),
		Delay:    pick(rt, "delay", 0, 0, 1500*time.Microsecond, time.Minute),
		QueueTTL: pick(rt, "queue", 0, 0, 5*time.Second),
		Deadline: m.deadline(rt),
		Actor:    pick(rt, "actor", "", "key:ann"),
		Input:    []byte(pick(rt, "input", `{}`, `[1.0,"\u0000"]`)),
	}
	s.Key = store.Key{Owner: s.Owner, Deployment: s.Deployment, Value: pick(rt, "key", "", "", "k1", "k2"),
		Fingerprint: [32]byte{byte(len(s.Input))}}
	s.ID = m.subject.Store.NewID(s.Key)
	m.send(s)
}

func (m *model) deadline(rt *rapid.T) int64 {
	ahead := pick(rt, "deadline", 0, 0, 20*time.Second)
	if ahead == 0 {
		return 0
	}
	c, err := m.reference.Store.Counts(m.ctx)
	if err != nil {
		rt.Fatal(err)
	}
	return c.Now.Millis() + ahead.Milliseconds()
}

func (m *model) send(s store.Submission) {
	m.submissions = append(m.submissions, s)
	both(m, "submit", func(st store.Store) (store.Submitted, error) { return st.Submit(m.ctx, s) })
}

func (m *model) resubmit(rt *rapid.T) {
	m.send(m.submissions[rapid.IntRange(0, len(m.submissions)-1).Draw(rt, "submission")])
}

func (m *model) findKey(rt *rapid.T) {
	key := store.Key{Owner: pick(rt, "owner", "", "ann"), Deployment: pick(rt, "deployment", "a", "b"),
		Value: pick(rt, "key", "k1", "k2"), Fingerprint: [32]byte{pick(rt, "fingerprint", byte(2), 14)}}
	both(m, "find key", func(st store.Store) (store.Submitted, error) { return st.FindKey(m.ctx, key) })
}

// poll takes all or nothing of each revision, so that both stores claim the same whatever they begin with.
func (m *model) poll(rt *rapid.T) {
	r := store.PollRequest{Worker: pick(rt, "worker", "w1", "w2"), Token: m.token(), Yields: pick(rt, "yields", true, false)}
	r.Solitary = pick(rt, "solitary", false, false, false, true)
	r.Brief = !r.Solitary && pick(rt, "brief", false, false, false, false, false, true)
	for _, d := range []string{"a", "b"} {
		for _, v := range []string{"r1", "r2"} {
			if pick(rt, "served", true, true, false) {
				r.Revisions = append(r.Revisions, store.Want{Revision: store.Revision{Deployment: d, Revision: v},
					Count: pick(rt, "count", 20, 20, 0), Lease: pick(rt, "lease", 10*time.Second, 30*time.Second)})
			}
		}
	}
	if p := m.ask(r); len(p.Claimed) > 0 {
		m.polled = &r
		for _, c := range p.Claimed {
			m.chunks[c.Control.ID] = 0
		}
	}
}

func (m *model) ask(r store.PollRequest) store.Polled {
	p := both(m, "poll", func(st store.Store) (store.Polled, error) { return st.Poll(m.ctx, r) })
	for _, c := range p.Claimed {
		m.held[c.Control.ID] = c.Control
	}
	return p
}

func (m *model) repoll(*rapid.T) {
	if m.polled != nil {
		m.ask(*m.polled)
	}
}

// holder is what some worker holds, or believes to hold; a zero control where nothing was ever claimed.
func (m *model) holder(rt *rapid.T) execution.Control {
	id := m.likely(rt, execution.Running)
	c, ok := m.held[id]
	if !ok {
		return execution.Control{ID: id}
	}
	if pick(rt, "stolen", false, false, false, false, false, true) {
		c.Token = "stolen"
	}
	return c
}

func (m *model) transition(rt *rapid.T) {
	m.control = m.holder(rt)
	m.command = m.owned(rt, m.control)
	m.carryOut()
}

// repeat sends the last owned command again, as after a lost reply.
func (m *model) repeat(*rapid.T) {
	if m.command != nil {
		m.carryOut()
	}
}

func (m *model) carryOut() {
	c, cmd := m.control, m.command
	after := both(m, execution.Name(cmd), func(st store.Store) (store.Transitioned, error) {
		return st.Transition(m.ctx, c, cmd)
	}).Control
	if after.Status == execution.Running && after.Fence == c.Fence {
		m.held[after.ID] = after
	}
}

func (m *model) owned(rt *rapid.T, c execution.Control) execution.Command {
	o := execution.Owned{Ownership: ownership(c), Operation: m.token()}
	for i := range pick(rt, "events", 0, 0, 1, 2) {
		o.Progress = append(o.Progress, event(fmt.Sprint(m.tokens, "-", i)))
	}
	data := fmt.Appendf(nil, `{"token":%d}`, m.tokens)
	wait, err := execution.Wait{Kind: "k", Default: pick(rt, "default", nil, []byte("1.0"))}.Encode()
	if err != nil {
		m.Fatal(err)
	}
	return pick[execution.Command](rt, "command",
		execution.Checkpoint{Owned: o, Data: data, Consumed: pick(rt, "consumed", false, true), Lease: 10 * time.Second},
		execution.Report{Owned: o},
		execution.Suspend{Owned: o, Wait: wait, Timeout: pick(rt, "timeout", 0, time.Minute)},
		execution.Suspend{Owned: o, Checkpoint: data, Wait: wait},
		execution.Retry{Owned: o, Delay: pick(rt, "backoff", 0, 5*time.Second), Error: broken},
		execution.Complete{Owned: o, Result: data},
		execution.Fail{Owned: o, Error: broken, DropProgress: pick(rt, "drop", false, true)},
		execution.Release{Owned: o})
}

func (m *model) beat(rt *rapid.T) {
	var beats []store.Beat
	for range rapid.IntRange(1, 3).Draw(rt, "beats") {
		c := m.holder(rt)
		b := store.Beat{ID: c.ID, Ownership: ownership(c), Lease: pick(rt, "lease", 0, 10*time.Second)}
		if n := pick(rt, "chunks", 0, 1, 3); n > 0 {
			b.Chunks = batch(c, m.chunks[c.ID], []string{`"a"`, `{}`, `"a longer chunk"`}[:n]...)
			m.chunks[c.ID] += int64(n)
			beats = append(beats, b)
			b.Repeat = true // the same again at once, as after a lost reply
		}
		beats = append(beats, b)
	}
	both(m, "beat", func(st store.Store) ([]store.Beaten, error) { return st.Beat(m.ctx, beats) })
}

func (m *model) resume(rt *rapid.T) {
	id := m.likely(rt, execution.Waiting)
	open := m.seen[id].WaitSequence
	sequences := []int64{0, open, open, open, open + 1}
	r := store.ResumeRequest{ID: id, Scope: pick(rt, "scope", everyone, store.Scope{Owner: "ann", By: "key:ann"}),
		Sequence: pick(rt, "sequence", sequences...), Checked: pick(rt, "checked", sequences...),
		Answer: []byte("[1.0]"), Key: pick(rt, "key", "", "k1", "k2"), Digest: [32]byte{pick(rt, "digest", byte(1), 1, 2)}}
	m.reply(r)
}

func (m *model) reply(r store.ResumeRequest) {
	m.answered = r
	both(m, "resume", func(st store.Store) (store.Resumed, error) { return st.Resume(m.ctx, r) })
}

// resumeAgain sends the last answer again, sometimes with another body under the same key.
func (m *model) resumeAgain(rt *rapid.T) {
	r := m.answered
	r.Digest[0] += pick(rt, "changed", byte(0), 0, 1)
	m.reply(r)
}

// goAround checkpoints, hands back, and claims anew: what is stored shows in what is handed out.
func (m *model) goAround(rt *rapid.T) {
	c := m.holder(rt)
	for _, cmd := range []execution.Command{
		execution.Checkpoint{Owned: execution.Owned{Ownership: ownership(c), Operation: m.token()},
			Data: fmt.Appendf(nil, "%d", m.tokens), Consumed: pick(rt, "consumed", false, true), Lease: 10 * time.Second},
		execution.Release{Owned: execution.Owned{Ownership: ownership(c), Operation: m.token()}},
	} {
		m.control, m.command = c, cmd
		m.carryOut()
	}
	m.poll(rt)
}

func (m *model) cancel(rt *rapid.T) {
	id, scope := m.someone(rt), pick(rt, "scope", everyone, store.Scope{Owner: "ann", By: "jwt:ann"})
	reason := pick(rt, "reason", "", "enough")
	both(m, "cancel", func(st store.Store) (store.Record, error) { return st.Cancel(m.ctx, id, scope, reason) })
}

func (m *model) maintain(*rapid.T) {
	both(m, "maintain", func(st store.Store) (store.Maintained, error) { return st.Maintain(m.ctx, 100) })
}

func (m *model) watch(rt *rapid.T) {
	id := m.someone(rt)
	both(m, "watch", func(st store.Store) (store.Record, error) {
		return st.Read(m.ctx, store.ReadRequest{ID: id, Scope: everyone, Watch: true})
	})
}

func (m *model) controls(rt *rapid.T) {
	ids := []string{m.someone(rt), m.someone(rt)}
	both(m, "controls", func(st store.Store) ([]execution.Control, error) { return st.Controls(m.ctx, ids) })
}

// list compares what all pages show together: where one ends is a store's own affair.
func (m *model) list(rt *rapid.T) {
	ask := store.ListRequest{Scope: pick(rt, "scope", everyone, store.Scope{Owner: "ann"}, store.Scope{}),
		Deployments: pick(rt, "deployments", nil, []string{"a"}, []string{"a", "b"}), Revision: pick(rt, "revision", "", "", "r2"),
		Statuses: pick(rt, "statuses", nil, []execution.Status{execution.Waiting}, []execution.Status{execution.Failed},
			[]execution.Status{execution.Canceled}, []execution.Status{execution.Queued, execution.Running}),
		Labels: pick(rt, "labels", nil, nil, []string{"a=1"}, []string{"a=1", "b=2"}), Limit: pick(rt, "limit", 1, 5)}
	both(m, "list", func(st store.Store) ([]execution.Control, error) {
		r, all := ask, []execution.Control(nil)
		for {
			page, err := st.List(m.ctx, r)
			all = append(all, page.Executions...)
			if err != nil || page.Next == (store.Place{}) {
				return all, err
			}
			r.After = page.Next
		}
	})
}

// erase takes one execution away, or now and then all of an owner's.
func (m *model) erase(rt *rapid.T) {
	id, scope := m.someone(rt), pick(rt, "scope", everyone, store.Scope{Owner: "ann"}, store.Scope{})
	whole := pick(rt, "whole", false, false, false, true)
	both(m, "erase", func(st store.Store) (store.Erased, error) {
		if whole {
			return st.EraseOwner(m.ctx, "ann")
		}
		return st.Erase(m.ctx, id, scope)
	}, cmpopts.SortSlices(func(a, b string) bool { return a < b }))
}

// displace has an operator move what is idle to the other revision, or end it.
func (m *model) displace(rt *rapid.T) {
	rev := store.Revision{Deployment: pick(rt, "deployment", "a", "b"), Revision: pick(rt, "revision", "r1", "r2")}
	to := map[string]string{"r1": "r2", "r2": "r1"}[rev.Revision]
	cmd := pick[execution.Command](rt, "command", execution.Move{Revision: to}, execution.Move{Revision: to}, execution.Withdraw{Reason: "gone"})
	both(m, execution.Name(cmd), func(st store.Store) (store.Displaced, error) { return st.Displace(m.ctx, rev, cmd) })
}

// advance lets time pass, and sometimes lets the clock step back.
func (m *model) advance(rt *rapid.T) {
	d := pick(rt, "time", time.Microsecond, 1500*time.Microsecond, 5*time.Second, 5*time.Second, 20*time.Second,
		20*time.Second, time.Minute, 2*time.Hour, 8*24*time.Hour, -3*time.Second)
	m.reference.Advance(d)
	m.subject.Advance(d)
	m.polled = nil
}
