package storetest

import (
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// keys of answers that clients use.
const answerKeys = 4

// life is an execution as far as anybody can learn of it, with the store's clock.
type life struct {
	control  execution.Control
	now      execution.Instant
	payloads payloads
	progress int64
	isolated bool              // it waits for a solitary poll
	batches  [clients]claims   // what each worker was handed by its last poll that claimed
	answers  [answerKeys]uint8 // digests of answers by their key; 0: not bound
}

// claims is what a repeat of a poll is told from.
type claims struct {
	token string
	until int64
}

// payloads that requests can see, but for the input, which never changes.
type payloads struct{ checkpoint, answer, result, failure, wait string }

func (p *payloads) of(kind execution.PayloadKind) *string {
	switch kind {
	case execution.PayloadCheckpoint:
		return &p.checkpoint
	case execution.PayloadAnswer:
		return &p.answer
	case execution.PayloadResult:
		return &p.result
	case execution.PayloadError:
		return &p.failure
	case execution.PayloadWait:
		return &p.wait
	}
	return new(string)
}

// decide is the sequential specification: what package execution makes of a command.
func (l life) decide(cmd execution.Command) (life, execution.Plan, error) {
	p, err := execution.Decide(l.control, cmd, l.now)
	if err != nil || p.Noop() {
		return l, p, err
	}
	before, after := l.control, p.Apply(l.control, l.now)
	if after.LogEpoch == "" && len(p.LogEntries(before, after, l.now)) > 0 {
		after.LogEpoch = execution.NewLogEpoch(l.now)
	}
	l.isolated = after.Status == execution.Queued && (l.isolated || after.LastChance() && after.AvailableAt <= l.now.Millis())
	l.control = after
	for _, w := range p.Payloads {
		*l.payloads.of(w.Kind) = string(w.Data)
	}
	if p.DropProgress {
		l.progress = 0
	}
	l.progress += int64(len(p.Progress))
	return l, p, nil
}

// record is what clients may see.
func (l life) record() told {
	seen := l.payloads
	seen.checkpoint, seen.answer = "", ""
	return told{control: l.control, payloads: seen, progress: l.progress, now: l.now}
}

func refusal(err error) told { return told{code: execution.CodeOf(err)} }

// polling asks for work.
type polling struct {
	client   int
	worker   string
	token    string
	solitary bool
}

func (r polling) step(l life) (life, told) {
	b := l.batches[r.client]
	if b.token == r.token && l.now.Millis() < b.until {
		c := l.control
		if c.Status == execution.Running && c.Worker == r.worker && c.Token == r.token && l.now.Millis() < c.LeaseUntil {
			return l, l.claimed()
		}
		return l, told{now: l.now}
	}
	if l.control.Status != execution.Queued || l.now.Millis() < l.control.AvailableAt {
		return l, told{now: l.now}
	}
	if l.isolated = l.isolated || !r.solitary && l.control.LastChance(); l.isolated != r.solitary {
		return l, told{now: l.now}
	}
	l, _, err := l.decide(execution.Claim{Worker: r.worker, Token: r.token, Lease: lease})
	if err != nil {
		return l, refusal(err)
	}
	l.batches[r.client] = claims{r.token, l.control.LeaseUntil}
	return l, l.claimed()
}

// claimed is what a worker is handed.
func (l life) claimed() told {
	return told{control: l.control, now: l.now, did: "claimed",
		payloads: payloads{checkpoint: l.payloads.checkpoint, answer: l.payloads.answer}}
}

// owning is an owned command. operation is its token.
type owning struct {
	command   execution.Command
	operation string
}

func (r owning) step(l life) (life, told) {
	if c, ok := l.control.Repeated(r.operation); ok {
		return l, told{control: c}
	}
	l, _, err := l.decide(r.command)
	if err != nil {
		return l, refusal(err)
	}
	return l, told{control: l.control}
}

// beating renews a lease, or only asks whether it still holds.
type beating struct {
	owner execution.Ownership
	lease time.Duration
}

func (r beating) step(l life) (life, told) {
	if err := execution.CheckOwner(l.control, r.owner, l.now); err != nil {
		return l, told{code: execution.CodeOf(err), now: l.now}
	}
	if r.lease > 0 {
		l.control.LeaseUntil = l.now.Millis() + r.lease.Milliseconds()
	}
	c := l.control
	return l, beaten(c.Version, c.LeaseUntil, c.CanceledAt != 0, l.now)
}

func beaten(version, until int64, canceled bool, now execution.Instant) told {
	return told{control: execution.Control{Version: version, LeaseUntil: until}, flag: canceled, now: now}
}

// resuming answers a wait. key is one of those that clients use, from 1; 0: none.
type resuming struct {
	sequence, checked int64
	answer            string
	key               int
	digest            uint8
}

func (r resuming) step(l life) (life, told) {
	if bound := l.bound(r.key); bound != 0 {
		if bound != r.digest {
			return l, told{code: execution.CodeKeyReused}
		}
		out := l.record()
		out.did = "replayed"
		return l, out
	}
	sequence := r.sequence
	if sequence == 0 {
		sequence = l.control.WaitSequence
	}
	next, _, err := l.decide(execution.Resume{Sequence: sequence, Answer: []byte(r.answer)})
	switch {
	case err != nil:
		return l, refusal(err)
	case r.checked != l.control.WaitSequence:
		out := l.record()
		out.did = "unchecked"
		return l, out
	}
	if r.key > 0 {
		next.answers[r.key-1] = r.digest
	}
	return next, next.record()
}

func (l life) bound(key int) uint8 {
	if key == 0 {
		return 0
	}
	return l.answers[key-1]
}

// canceling asks for the execution to stop.
type canceling struct{ reason string }

func (r canceling) step(l life) (life, told) {
	l, _, err := l.decide(execution.Cancel{Reason: r.reason})
	if err != nil {
		return l, refusal(err)
	}
	return l, l.record()
}

// maintenance recovers a lease that ran out or ends a wait that expired. Where others act at the same time it may leave
// that to a later pass.
type maintenance struct{ alone bool }

func (r maintenance) declined(got told) bool { return !r.alone && got == told{} }

func (r maintenance) step(l life) (life, told) {
	var cmd execution.Command
	switch l.control.Status {
	case execution.Running:
		cmd = execution.Recover{Fence: l.control.Fence}
	case execution.Waiting:
		w, err := execution.DecodeWait([]byte(l.payloads.wait))
		if err != nil {
			return l, refusal(err)
		}
		cmd = execution.ExpireWait{Sequence: l.control.WaitSequence, Default: w.Default}
	default:
		return l, told{}
	}
	waited := l.control.Status == execution.Waiting
	l, p, err := l.decide(cmd)
	if err != nil || p.Noop() {
		return l, told{}
	}
	return l, told{did: maintained(p.Status, waited)}
}

func maintained(to execution.Status, waited bool) string {
	if waited && to == execution.Queued {
		return "defaulted"
	}
	return string(to)
}

// maintainedAs names the one thing that a pass did.
func maintainedAs(m store.Maintained, err error) told {
	done := map[string]int{string(execution.Queued): m.Requeued, string(execution.Failed): m.Failed,
		string(execution.Canceled): m.Canceled, "defaulted": m.Defaulted, "removed": m.Removed, "malformed": m.Malformed + m.Skipped}
	out := told{code: execution.CodeOf(err)}
	for what, n := range done {
		for range n {
			out.did += what
		}
	}
	return out
}

// viewing looks at the execution. first is the one after all clients are done.
type viewing struct{ first bool }

func (r viewing) step(l life) (life, told) { return l, l.record() }

// passing lets time go by.
type passing struct{ d time.Duration }

func (r passing) step(l life) (life, told) { //nolint:unparam // a request has an answer
	l.now += execution.Instant(r.d.Microseconds())
	return l, told{}
}
