package execution

import (
	"fmt"
	"strconv"
)

// MaxInteger is the largest integer that a control may hold: what a double, and so Lua, keeps exactly.
const MaxInteger = 1<<53 - 1

// Pair is one stored field of a control.
type Pair struct {
	Field Field
	Value string
}

// Record renders the control as stored fields. Zero values are left out; integers are decimal.
func (c Control) Record() []Pair {
	pairs := append(make([]Pair, 0, 40), Pair{FieldStatus, statusCode(c.Status)}) // as many as there are fields
	for _, f := range textFields() {
		if s := *c.text(f); s != "" {
			pairs = append(pairs, Pair{f, s})
		}
	}
	for _, f := range numberFields() {
		if n := *c.number(f); n != 0 {
			pairs = append(pairs, Pair{f, strconv.FormatInt(n, 10)})
		}
	}
	return pairs
}

// ParseRecord reads a control from its stored fields. Every field must be known, every integer canonical and within
// [0, MaxInteger], and the record as a whole consistent; anything else is an error of [CodeCorrupt].
func ParseRecord(id string, pairs []Pair) (Control, error) {
	c := Control{ID: id}
	for _, p := range pairs {
		if err := c.read(p); err != nil {
			return Control{}, &Error{Code: CodeCorrupt, Message: "stored control can't be read", Err: err}
		}
	}
	if err := c.check(); err != nil {
		return Control{}, &Error{Code: CodeCorrupt, Message: "stored control is inconsistent", Err: err}
	}
	return c, nil
}

func (c *Control) read(p Pair) error {
	if p.Field == FieldStatus {
		s, ok := statusOf(p.Value)
		if !ok {
			return fmt.Errorf("unknown status %q", clip(p.Value, 16))
		}
		c.Status = s
		return nil
	}
	if s := c.text(p.Field); s != nil {
		*s = p.Value
		return nil
	}
	n := c.number(p.Field)
	if n == nil {
		return fmt.Errorf("unknown field %q", clip(string(p.Field), 16))
	}
	v, err := strconv.ParseInt(p.Value, 10, 64)
	if err != nil || v < 0 || v > MaxInteger || !canonical(p.Value) {
		return fmt.Errorf("field %q is not a canonical integer", string(p.Field))
	}
	*n = v
	return nil
}

// canonical reports whether an integer that is not negative is written in the one way: no sign, no zeros in front.
func canonical(s string) bool { return s == "0" || s[0] >= '1' && s[0] <= '9' }

// check holds the control against what must be true of every stored one.
func (c Control) check() error {
	running, waiting := c.Status == Running, c.Status == Waiting
	switch {
	case c.Schema != SchemaVersion:
		return fmt.Errorf("schema version %d", c.Schema)
	case !c.Status.Valid():
		return fmt.Errorf("no status")
	case c.Deployment == "" || c.Revision == "":
		return fmt.Errorf("no deployment or revision")
	case c.Version < 1:
		return fmt.Errorf("version %d", c.Version)
	case c.Priority > MaxPriority:
		return fmt.Errorf("priority %d", c.Priority)
	case c.UpdatedAt < c.CreatedAt:
		return fmt.Errorf("updated before it was created")
	case running != (c.Worker != ""), running != (c.Token != ""), running != (c.LeaseUntil != 0):
		return fmt.Errorf("lease does not fit status %s", c.Status)
	case waiting != (c.WaitSequence != 0):
		return fmt.Errorf("wait does not fit status %s", c.Status)
	case !waiting && c.WaitUntil != 0:
		return fmt.Errorf("a wait's deadline does not fit status %s", c.Status)
	case c.CanceledAt != 0 && !running && c.Status != Canceled, c.Status == Canceled && c.CanceledAt == 0:
		return fmt.Errorf("cancellation does not fit status %s", c.Status)
	case c.Status != Queued && c.AvailableAt != 0:
		return fmt.Errorf("availability does not fit status %s", c.Status)
	}
	return c.Budgets.Validate()
}

// statusCode is the status as stored: one letter.
func statusCode(s Status) string {
	switch s {
	case Queued:
		return "q"
	case Running:
		return "r"
	case Waiting:
		return "w"
	case Completed:
		return "c"
	case Failed:
		return "f"
	case Canceled:
		return "x"
	}
	return ""
}

// statusOf is the inverse of statusCode.
func statusOf(code string) (Status, bool) {
	for _, s := range []Status{Queued, Running, Waiting, Completed, Failed, Canceled} {
		if statusCode(s) == code {
			return s, true
		}
	}
	return "", false
}

// Code is the one letter that stores keep for the status.
func (s Status) Code() string { return statusCode(s) }

// StatusOf is the status that a stored letter stands for.
func StatusOf(code string) (Status, bool) { return statusOf(code) }
