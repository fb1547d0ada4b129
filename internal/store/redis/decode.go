package redis

import (
	"fmt"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

// reader walks a reply whose shape is known. The first value that does not fit is remembered, and makes all that follows
// zero, so that callers check once.
type reader struct {
	items []any
	at    int
	err   error
}

// read begins with an array.
func read(v any) *reader {
	items, ok := v.([]any)
	if !ok {
		return &reader{err: fmt.Errorf("reply: %T in place of an array", v)}
	}
	return &reader{items: items}
}

// readPacked begins with an array that a script packed.
func readPacked(v any) *reader {
	data, ok := v.(string)
	if !ok {
		return &reader{err: fmt.Errorf("reply: %T in place of a packed value", v)}
	}
	value, err := unpack(data)
	if err != nil {
		return &reader{err: err}
	}
	return read(value)
}

func (r *reader) more() bool { return r.err == nil && r.at < len(r.items) }

func (r *reader) next() any {
	if r.err != nil {
		return nil
	}
	if r.at >= len(r.items) {
		r.err = fmt.Errorf("reply: cut short after %d values", len(r.items))
		return nil
	}
	r.at++
	return r.items[r.at-1]
}

func (r *reader) text() string {
	v := r.next()
	s, ok := v.(string)
	if !ok && r.err == nil {
		r.err = fmt.Errorf("reply: %T in place of text", v)
	}
	return s
}

// payload is opaque bytes; nil where there are none.
func (r *reader) payload() []byte {
	v := r.next()
	if v == nil {
		return nil
	}
	s, ok := v.(string)
	if !ok && r.err == nil {
		r.err = fmt.Errorf("reply: %T in place of a payload", v)
	}
	return []byte(s)
}

// expanded is a payload that may be compressed.
func (r *reader) expanded() []byte {
	data := r.payload()
	if r.err != nil {
		return data
	}
	data, r.err = expand(data)
	return data
}

func (r *reader) number() int64 {
	v := r.next()
	n, ok := v.(int64)
	if !ok && r.err == nil {
		r.err = fmt.Errorf("reply: %T in place of a number", v)
	}
	return n
}

func (r *reader) logID() execution.LogID {
	text := r.text()
	if r.err != nil {
		return execution.LogID{}
	}
	id, err := execution.ParseLogID(text)
	r.err = err
	return id
}

func (r *reader) instant() execution.Instant { return execution.Instant(r.number()) }

func (r *reader) flag() bool { return r.number() == 1 }

// list is an array within the reply.
func (r *reader) list() *reader {
	v := r.next()
	if r.err != nil {
		return &reader{err: r.err}
	}
	inner := read(v)
	if inner.err != nil {
		r.err = inner.err
	}
	return inner
}

// failed keeps the first error of a reader that was read on the way.
func (r *reader) failed(inner *reader) {
	if r.err == nil {
		r.err = inner.err
	}
}

// fault is the error for the caller.
func (r *reader) fault() error {
	if r.err == nil {
		return nil
	}
	return corrupt(r.err)
}

// control reads a control that a script packed.
func (r *reader) control() execution.Control {
	data := r.text()
	if r.err != nil {
		return execution.Control{}
	}
	c, err := decodeControl(data)
	if err != nil {
		r.err = err
	}
	return c
}

// decodeControl reads fields and values, which are texts, or numbers where a script made the control. Those whose names are no
// letters are the scripts' own.
func decodeControl(data string) (execution.Control, error) {
	u := unpacker{rest: data}
	n, err := u.begin()
	if err != nil || n%2 != 0 {
		return execution.Control{}, fmt.Errorf("packed control: no list of pairs (%w)", err)
	}
	var few [40]execution.Pair // as many as a control has fields: no allocation
	var id string
	pairs := few[:0]
	for range n / 2 {
		name, value := u.text(), u.text()
		switch {
		case u.err != nil || name == "":
			return execution.Control{}, fmt.Errorf("packed control: a field can't be read (%w)", u.err)
		case name == "id":
			id = value
		case name[0] >= 'a' && name[0] <= 'z':
			pairs = append(pairs, execution.Pair{Field: execution.Field(name), Value: value})
		}
	}
	if u.rest != "" {
		return execution.Control{}, fmt.Errorf("packed control: %d bytes too many", len(u.rest))
	}
	return execution.ParseRecord(id, pairs)
}

// record reads a view, which says what clients may see.
func (r *reader) record(now execution.Instant) store.Record {
	v := r.list()
	rec := store.Record{Now: now, Control: v.control()}
	progress := v.list()
	for progress.more() {
		rec.Progress = append(rec.Progress, progress.payload())
	}
	rec.Result, rec.Error, rec.Wait = v.expanded(), v.payload(), v.payload()
	rec.Reason, rec.ExpiresAt = v.payload(), v.number()
	v.failed(progress)
	r.failed(v)
	return rec
}

// history reads what lua/read.lua tells of it. A line that can't be read counts as one that is not kept.
func (r *reader) history(c execution.Control, most int) execution.History {
	list := r.list()
	h := execution.History{Submitter: list.text()}
	total := list.number()
	for list.more() {
		if e, err := execution.ParseHistoryLine(list.text(), c.CreatedAt); err == nil {
			h.Entries = append(h.Entries, e)
		}
	}
	r.failed(list)
	h.Omitted = max(0, total-int64(len(h.Entries)))
	return h.Newest(most)
}

// log reads entries as a stream returns them.
func (r *reader) log() []execution.Entry {
	var out []execution.Entry
	list := r.list()
	for list.more() {
		e := list.list()
		id := e.logID()
		fields := e.list()
		entry := execution.Entry{ID: id, Kind: execution.EntryKind(fields.text()), Data: fields.payload()}
		e.failed(fields)
		list.failed(e)
		out = append(out, expandEntry(entry))
	}
	r.failed(list)
	return out
}
