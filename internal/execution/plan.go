package execution

import "time"

// Plan is what a command does to an execution. A store checks the guard, then applies everything or nothing.
type Plan struct {
	Guard    Guard
	Status   Status // where the execution stands afterwards
	Changes  []Change
	Payloads []Payload
	// Progress holds rendered events, to be appended to the stored list and to the event log.
	Progress [][]byte
	// DropProgress empties the stored list first.
	DropProgress bool
	// Cause, Actor and Code are what the history tells of it. See [Plan.HistoryEntry].
	Cause Cause
	Actor string
	Code  string
}

// Noop reports whether the plan changes nothing.
func (p Plan) Noop() bool { return len(p.Changes) == 0 }

// GuardKind says what must hold for a plan to be applied.
type GuardKind uint8

// The kinds of guard.
const (
	// GuardNone: the plan begins an execution, or fits every control of its phase.
	GuardNone GuardKind = iota
	// GuardOwned: status running; worker, token and fence are the current ones; the lease has more than the margin
	// left; the version is the one that the plan was made from.
	GuardOwned
	// GuardExpired: status running, the fence is the current one, the lease has run out, the version is unchanged.
	// A heartbeat moves the deadline without a version, so the deadline is compared again by the store.
	GuardExpired
	// GuardWait: status waiting for the wait that Sequence names.
	GuardWait
	// GuardWaitExpired: as GuardWait, and its deadline has passed.
	GuardWaitExpired
	// GuardOverdue: the version is unchanged, and the execution's expiry has passed.
	GuardOverdue
)

// Guard is the condition of a plan. Which fields count depends on the kind.
type Guard struct {
	Kind      GuardKind
	Owner     Ownership // GuardOwned; GuardExpired uses its fence
	Operation string    // GuardOwned: compared with the recorded one before anything else
	Version   int64     // GuardOwned, GuardExpired, GuardOverdue
	Sequence  int64     // GuardWait, GuardWaitExpired
}

// PayloadKind names one of the payloads of an execution. The values are short because stores use them in keys.
type PayloadKind string

// The payloads.
const (
	PayloadInput      PayloadKind = "i"
	PayloadCheckpoint PayloadKind = "k"
	PayloadResult     PayloadKind = "r"
	PayloadError      PayloadKind = "e"
	PayloadWait       PayloadKind = "w"
	PayloadAnswer     PayloadKind = "a"
	PayloadReason     PayloadKind = "x" // why cancellation was asked for: plain text, at most 2,000 bytes
)

// PayloadKinds lists all payloads.
func PayloadKinds() []PayloadKind {
	return []PayloadKind{PayloadInput, PayloadCheckpoint, PayloadResult, PayloadError, PayloadWait, PayloadAnswer, PayloadReason}
}

// Payload is one payload to be written, or deleted where Data is nil.
type Payload struct {
	Kind PayloadKind
	Data []byte
}

// Op says how a change sets its field. All but OpSet and OpClear are carried out under the store's clock or against
// what the store holds, so that a plan can be made without knowing either.
type Op byte

// The operations.
const (
	OpSet   Op = '=' // to Text, or to N where Text is empty
	OpClear Op = '-'
	OpAdd   Op = '+' // by N
	OpAfter Op = 'a' // to now plus N milliseconds
	OpStamp Op = 's' // to now, but not before the control's UpdatedAt: stamps never go back
	OpFence Op = 'f' // to the larger of the present value plus one and now in microseconds (invariant 3)
	OpSince Op = 'v' // to the control's version after the plan
)

// Change is one change of one field of a control.
type Change struct {
	Field Field
	Op    Op
	Text  string
	N     int64
}

func set(f Field, text string) Change         { return Change{Field: f, Op: OpSet, Text: text} }
func setN(f Field, n int64) Change            { return Change{Field: f, Op: OpSet, N: n} }
func reset(f Field) Change                    { return Change{Field: f, Op: OpClear} }
func add(f Field, n int64) Change             { return Change{Field: f, Op: OpAdd, N: n} }
func stamp(f Field) Change                    { return Change{Field: f, Op: OpStamp} }
func after(f Field, d time.Duration) Change   { return Change{Field: f, Op: OpAfter, N: millis(d)} }
func (p *Plan) change(c ...Change)            { p.Changes = append(p.Changes, c...) }
func (p *Plan) write(k PayloadKind, d []byte) { p.Payloads = append(p.Payloads, Payload{k, d}) }
func (p *Plan) erase(kinds ...PayloadKind) {
	for _, k := range kinds {
		p.Payloads = append(p.Payloads, Payload{Kind: k})
	}
}

// millis rounds up, so that nothing becomes due, or expires, early.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// Apply carries out the plan's changes on a control at a time, as every store must. Version, which OpSince reads, is
// changed before anything else.
func (p Plan) Apply(c Control, now Instant) Control {
	before := c.UpdatedAt
	for _, ch := range p.Changes {
		if n := c.number(ch.Field); n != nil {
			*n = ch.apply(*n, c, before, now)
			continue
		}
		if s := c.text(ch.Field); s != nil {
			*s = ch.Text
		}
	}
	c.Status = p.Status
	return c
}

func (ch Change) apply(old int64, c Control, before int64, now Instant) int64 {
	switch ch.Op {
	case OpSet:
		return ch.N
	case OpAdd:
		return old + ch.N
	case OpAfter:
		return now.Millis() + ch.N
	case OpStamp:
		return max(now.Millis(), before)
	case OpFence:
		return max(old+1, int64(now))
	case OpSince:
		return c.Version
	}
	return 0
}
