package execution

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Cause is why an execution went from one state to the next, and which kind of party made it: one letter, as stores keep it.
// Zero: nothing that is told, such as progress, which has numbers and times of its own.
type Cause byte

// The causes.
const (
	CauseSubmitted       Cause = 's'
	CauseClaimed         Cause = 'c'
	CauseCheckpointed    Cause = 'k' // in a row, they are one entry
	CauseSuspended       Cause = 'w'
	CauseResumed         Cause = 'a'
	CauseDefaulted       Cause = 'd' // nobody answered in time: the wait took its default answer
	CauseRetried         Cause = 'y'
	CauseReleased        Cause = 'v'
	CauseLeaseLost       Cause = 'l'
	CauseCancelRequested Cause = 'q' // of what runs; the rest is canceled at once
	CauseMoved           Cause = 'm' // to another revision, by an operator
	CauseWaitMoved       Cause = 'M' // the same, of what waits for an answer
	CauseCompleted       Cause = 'C'
	CauseFailed          Cause = 'F' // by its worker
	CauseEnded           Cause = 'G' // failed, and no worker said so
	CauseWithdrawn       Cause = 'W' // failed, by an operator
	CauseCanceled        Cause = 'X' // at once
	CauseStopped         Cause = 'Y' // canceled; its worker was told and left it
	CauseAbandoned       Cause = 'Z' // canceled; its worker was lost, or it could not go on
)

// Party is a kind of who makes executions move.
type Party string

// The parties.
const (
	PartyClient Party = "client" // who calls the API, operators included
	PartyWorker Party = "worker"
	PartySystem Party = "system" // maintenance: a time was over, a lease ran out
)

// meaning is what a cause stands for.
type meaning struct {
	name   string
	status Status // afterwards
	by     Party
}

func (c Cause) meaning() meaning {
	switch c {
	case CauseSubmitted:
		return meaning{"submitted", Queued, PartyClient}
	case CauseClaimed:
		return meaning{"claimed", Running, PartyWorker}
	case CauseCheckpointed:
		return meaning{"checkpointed", Running, PartyWorker}
	case CauseSuspended:
		return meaning{"suspended", Waiting, PartyWorker}
	case CauseResumed:
		return meaning{"resumed", Queued, PartyClient}
	case CauseDefaulted:
		return meaning{"default_answer", Queued, PartySystem}
	case CauseRetried:
		return meaning{"retried", Queued, PartyWorker}
	case CauseReleased:
		return meaning{"released", Queued, PartyWorker}
	case CauseLeaseLost:
		return meaning{"lease_lost", Queued, PartySystem}
	case CauseCancelRequested:
		return meaning{"cancel_requested", Running, PartyClient}
	case CauseMoved:
		return meaning{"moved", Queued, PartyClient}
	case CauseWaitMoved:
		return meaning{"moved", Waiting, PartyClient}
	}
	return c.end()
}

// end is the meaning of a cause that ends an execution; zero: it is none that this release knows.
func (c Cause) end() meaning {
	switch c {
	case CauseCompleted:
		return meaning{"completed", Completed, PartyWorker}
	case CauseFailed:
		return meaning{"failed", Failed, PartyWorker}
	case CauseEnded:
		return meaning{"failed", Failed, PartySystem}
	case CauseWithdrawn:
		return meaning{"failed", Failed, PartyClient}
	case CauseCanceled:
		return meaning{"canceled", Canceled, PartyClient}
	case CauseStopped:
		return meaning{"canceled", Canceled, PartyWorker}
	case CauseAbandoned:
		return meaning{"canceled", Canceled, PartySystem}
	}
	return meaning{}
}

// Name of the cause, as clients read it; empty: this release does not know it.
func (c Cause) Name() string { return c.meaning().name }

// Status in which the execution is afterwards.
func (c Cause) Status() Status { return c.meaning().status }

// By is who made it.
func (c Cause) By() Party { return c.meaning().by }

// HistoryEntry is one transition of an execution.
type HistoryEntry struct {
	Cause   Cause
	At      int64  // milliseconds; of those in a row, the newest
	Attempt int64  // 0: before the first claim
	Actor   string // name of a client, or of the worker that claimed; empty: not known, or as in the claim of this attempt
	Code    string // of the failure, with CauseRetried and where it failed
	Times   int64  // how many it stands for: 1, but for checkpoints in a row
}

// History is what is kept of how an execution got where it is: its submission and the newest transitions after it. It is a view; the
// control is the authority. It is written with each transition, in the same commit.
type History struct {
	Submitter string         // name of the client; empty: not known
	Entries   []HistoryEntry // oldest first, without the submission
	Omitted   int64          // how many were between the submission and the first entry
}

// Bounds of a history.
const (
	// MaxHistory is how many entries are kept after the submission.
	MaxHistory = 99
	// MaxHistoryText bounds an actor's name and a code, in bytes; what is longer is cut.
	MaxHistoryText = 64
)

// Add returns the history with one more entry. Checkpoints in a row become one.
func (h History) Add(e HistoryEntry) History {
	if n := len(h.Entries); n > 0 && e.Cause == CauseCheckpointed {
		if last := h.Entries[n-1]; last.Cause == e.Cause && last.Attempt == e.Attempt {
			e.Times += last.Times
			h.Entries = h.Entries[:n-1]
		}
	}
	h.Entries = append(slices.Clone(h.Entries), e)
	return h.Newest(MaxHistory)
}

// Newest returns the history with at most n entries after the submission.
func (h History) Newest(n int) History {
	if extra := len(h.Entries) - n; extra > 0 {
		h.Entries = slices.Clone(h.Entries[extra:])
		h.Omitted += int64(extra)
	}
	return h
}

// All are the entries with the submission of c before them; what is omitted was between the first two. An attempt's worker stands in
// all that it did, as far as its claim is still told of.
func (h History) All(c Control) []HistoryEntry {
	all := []HistoryEntry{{Cause: CauseSubmitted, At: c.CreatedAt, Actor: h.Submitter, Times: 1}}
	worker, of := "", int64(0)
	for _, e := range h.Entries {
		if e.Cause == CauseClaimed {
			worker, of = e.Actor, e.Attempt
		}
		if e.Cause.By() == PartyWorker && e.Attempt == of {
			e.Actor = worker
		}
		all = append(all, e)
	}
	return all
}

// HistoryEntry is what a plan leaves in the history, given the control afterwards; false: nothing. The submission leaves none: its
// time stands in the control.
func (p Plan) HistoryEntry(after Control) (HistoryEntry, bool) {
	e := HistoryEntry{Cause: p.Cause, At: after.UpdatedAt, Attempt: after.Attempt, Actor: p.Actor, Code: p.Code, Times: 1}
	if p.Cause == CauseClaimed {
		e.Actor = after.Worker
	}
	return e, p.Cause != 0 && p.Cause != CauseSubmitted
}

// Note is the part of a plan's entry that is known before its time: its cause, its actor's name and its code. Stores that can't apply
// plans complete it, a claim with the worker, to a line as [HistoryEntry.Line] writes it.
func (p Plan) Note() string {
	if p.Cause == 0 {
		return ""
	}
	return string(rune(p.Cause)) + details(p.Actor, p.Code)
}

// details are the last parts of a line, from the tab before them on.
func details(actor, code string) string {
	switch {
	case code != "":
		return "\t" + actor + "\t" + code
	case actor != "":
		return "\t" + actor
	}
	return ""
}

// Line renders the entry as stores may keep it, by tabs: cause and attempt, and how many it stands for where that is more than one;
// milliseconds since the creation; the actor's name; the code. Empty parts at the end are left out.
func (e HistoryEntry) Line(created int64) string {
	head := string(rune(e.Cause)) + strconv.FormatInt(e.Attempt, 10)
	if e.Times > 1 {
		head += "x" + strconv.FormatInt(e.Times, 10)
	}
	return head + "\t" + strconv.FormatInt(e.At-created, 10) + details(e.Actor, e.Code)
}

// ParseHistoryLine reads what [HistoryEntry.Line], or a store's script, wrote of an execution that was created then.
func ParseHistoryLine(line string, created int64) (HistoryEntry, error) {
	parts := strings.Split(line, "\t")
	if len(parts) < 2 || len(parts) > 4 || parts[len(parts)-1] == "" || strings.Contains(line, "\n") {
		return HistoryEntry{}, fmt.Errorf("history: a line of %d parts", len(parts))
	}
	if parts[0] == "" || Cause(parts[0][0]).Name() == "" {
		return HistoryEntry{}, fmt.Errorf("history: unknown cause")
	}
	attempt, times, many := strings.Cut(parts[0][1:], "x")
	if !many {
		times = "1"
	}
	var numbers [3]int64
	for i, text := range []string{attempt, times, parts[1]} {
		n, err := parseUint(text)
		if err != nil || n > MaxInteger {
			return HistoryEntry{}, fmt.Errorf("history: %q is not a number", clip(text, 20))
		}
		numbers[i] = int64(n)
	}
	if many && numbers[1] < 2 {
		return HistoryEntry{}, fmt.Errorf("history: %d times", numbers[1])
	}
	parts = append(parts, "", "")
	return HistoryEntry{Cause: Cause(parts[0][0]), Attempt: numbers[0], Times: numbers[1], At: created + numbers[2],
		Actor: parts[2], Code: parts[3]}, nil
}

// historyText makes a text fit for a line: bounded, valid UTF-8, without control characters.
func historyText(s string) string {
	odd := func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}
	return strings.Map(odd, clip(s, MaxHistoryText))
}

func (p *Plan) because(c Cause)  { p.Cause = c }
func (p *Plan) by(client string) { p.Actor = historyText(client) }
