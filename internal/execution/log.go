package execution

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// LogID is the position of an entry in an event log. IDs of one log strictly grow (invariant 6). The zero value stands
// before the first entry.
type LogID struct{ Ms, Seq uint64 }

// Less reports whether a stands before b.
func (a LogID) Less(b LogID) bool { return a.Ms < b.Ms || a.Ms == b.Ms && a.Seq < b.Seq }

// IsZero reports whether the id stands before every entry.
func (a LogID) IsZero() bool { return a == LogID{} }

func (a LogID) String() string {
	var few [41]byte // two of the longest numbers
	return string(a.append(few[:0]))
}

func (a LogID) append(dst []byte) []byte {
	return strconv.AppendUint(append(strconv.AppendUint(dst, a.Ms, 10), '-'), a.Seq, 10)
}

// ParseLogID reads "<ms>-<seq>", both canonical 64-bit decimals.
func ParseLogID(s string) (LogID, error) {
	ms, seq, ok := strings.Cut(s, "-")
	a, errA := parseUint(ms)
	b, errB := parseUint(seq)
	if !ok || errA != nil || errB != nil {
		return LogID{}, fmt.Errorf("not a log id")
	}
	return LogID{a, b}, nil
}

func parseUint(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err == nil && !canonical(s) {
		err = fmt.Errorf("not canonical")
	}
	return n, err
}

// EntryKind says what an entry of an event log is. Readers skip kinds that they do not know.
type EntryKind string

// The kinds of entry.
const (
	EntryChunks   EntryKind = "c" // a ChunkBatch
	EntryProgress EntryKind = "p" // one rendered Event
	EntryStatus   EntryKind = "s" // a StatusEntry
	EntryEnd      EntryKind = "e" // a StatusEntry with a terminal status: the log ends here
)

// Entry is one entry of an event log. The log is a view: control and payloads are the authority.
type Entry struct {
	ID   LogID
	Kind EntryKind
	Data []byte
}

// StatusEntry is what a change of status leaves in the log.
type StatusEntry struct {
	Status      Status
	Attempt     int64
	Version     int64
	AvailableAt int64
	WaitUntil   int64
	Wait        []byte // rendered Wait, with status waiting only
}

// Encode renders the entry: a line of numbers, then the wait.
func (e StatusEntry) Encode() []byte {
	return fmt.Appendf(nil, "%s %d %d %d %d\n%s", e.Status.Code(), e.Attempt, e.Version, e.AvailableAt, e.WaitUntil, e.Wait)
}

// DecodeStatusEntry parses what Encode, or a store's script, wrote.
func DecodeStatusEntry(data []byte) (StatusEntry, error) {
	line, wait, ok := strings.Cut(string(data), "\n")
	fields := strings.Split(line, " ")
	if !ok || len(fields) != 5 {
		return StatusEntry{}, fmt.Errorf("status entry: malformed")
	}
	status, ok := StatusOf(fields[0])
	if !ok {
		return StatusEntry{}, fmt.Errorf("status entry: unknown status")
	}
	e := StatusEntry{Status: status}
	for i, n := range []*int64{&e.Attempt, &e.Version, &e.AvailableAt, &e.WaitUntil} {
		v, err := parseUint(fields[i+1])
		if err != nil || v > MaxInteger {
			return StatusEntry{}, fmt.Errorf("status entry: field %d is not a number", i+1)
		}
		*n = int64(v)
	}
	if wait != "" {
		e.Wait = []byte(wait)
	}
	return e, nil
}

// ChunkBatch is a run of streamed chunks of one attempt, packed into one entry.
type ChunkBatch struct {
	Attempt int64
	First   int64 // number of the first chunk within the attempt, from 0
	Chunks  [][]byte
}

// MaxBatchChunks bounds the chunks of one entry.
const MaxBatchChunks = 10_000

// Encode packs the batch: "<attempt> <first> <length> <length>...\n", then the chunks end to end.
func (b ChunkBatch) Encode() []byte {
	size := 32
	for _, c := range b.Chunks {
		size += len(c) + 6
	}
	out := make([]byte, 0, size)
	out = strconv.AppendInt(out, b.Attempt, 10)
	out = strconv.AppendInt(append(out, ' '), b.First, 10)
	for _, c := range b.Chunks {
		out = strconv.AppendInt(append(out, ' '), int64(len(c)), 10)
	}
	out = append(out, '\n')
	for _, c := range b.Chunks {
		out = append(out, c...)
	}
	return out
}

// Size is the number of chunk bytes in the batch.
func (b ChunkBatch) Size() int {
	n := 0
	for _, c := range b.Chunks {
		n += len(c)
	}
	return n
}

// DecodeChunkBatch unpacks a batch. The chunks alias data.
func DecodeChunkBatch(data []byte) (ChunkBatch, error) {
	header, rest, ok := bytes.Cut(data, []byte("\n"))
	count := bytes.Count(header, []byte(" ")) - 1
	if !ok || count < 1 || count > MaxBatchChunks {
		return ChunkBatch{}, fmt.Errorf("chunk batch: malformed header")
	}
	b := ChunkBatch{Chunks: make([][]byte, count)}
	for i := range count + 2 {
		var field []byte
		field, header, _ = bytes.Cut(header, []byte(" "))
		n, err := parseUint(string(field))
		switch {
		case err != nil || n > MaxInteger:
			return ChunkBatch{}, fmt.Errorf("chunk batch: field %d is not a number", i)
		case i == 0:
			b.Attempt = int64(n)
		case i == 1:
			b.First = int64(n)
		case n > uint64(len(rest)):
			return ChunkBatch{}, fmt.Errorf("chunk batch: cut short")
		default:
			b.Chunks[i-2], rest = rest[:n:n], rest[n:]
		}
	}
	if len(rest) != 0 {
		return ChunkBatch{}, fmt.Errorf("chunk batch: %d bytes too many", len(rest))
	}
	return b, nil
}

// Cursor is a viewer's position: the log's epoch, the entry last seen, and the last chunk seen of it. End stands after
// the terminal event.
type Cursor struct {
	Epoch string
	Entry LogID
	Chunk int64
	End   bool
}

// String renders the cursor as "<epoch>-<ms>-<seq>-<chunk>" or "<epoch>-end". It is opaque to clients.
func (c Cursor) String() string {
	epoch := cmp.Or(c.Epoch, "0")
	if c.End {
		return epoch + "-end"
	}
	var few [80]byte // most are shorter: one allocation
	out := append(append(few[:0], epoch...), '-')
	out = append(c.Entry.append(out), '-')
	return string(strconv.AppendInt(out, c.Chunk, 10))
}

// ParseCursor reads a cursor that String rendered; anything else is an [Error] of CodeCursorInvalid.
func ParseCursor(s string) (Cursor, error) {
	invalid := Errorf(CodeCursorInvalid, "the cursor is not one that this server gave out")
	parts := strings.Split(s, "-")
	if len(s) > 100 {
		return Cursor{}, invalid
	}
	if _, err := parseUint(parts[0]); err != nil {
		return Cursor{}, invalid
	}
	c := Cursor{Epoch: parts[0]}
	if c.Epoch == "0" {
		c.Epoch = ""
	}
	if len(parts) == 2 && parts[1] == "end" {
		c.End = true
		return c, nil
	}
	if len(parts) != 4 {
		return Cursor{}, invalid
	}
	id, err := ParseLogID(parts[1] + "-" + parts[2])
	chunk, errChunk := parseUint(parts[3])
	if err != nil || errChunk != nil || chunk > MaxBatchChunks {
		return Cursor{}, invalid
	}
	c.Entry, c.Chunk = id, int64(chunk)
	return c, nil
}

// LogEntries is what a plan leaves in the event log, without ids, given the control before and after: its progress,
// then the change of status or the end. Progress always begins a log. A change of status goes only into one that exists or that
// somebody watches at now.
func (p Plan) LogEntries(before, after Control, now Instant) []Entry {
	var entries []Entry
	for _, e := range p.Progress {
		entries = append(entries, Entry{Kind: EntryProgress, Data: e})
	}
	wanted := len(entries) > 0 || before.LogEpoch != "" || before.WatchedUntil > now.Millis()
	if !wanted || before.Status == after.Status || before.Version == 0 {
		return entries
	}
	return append(entries, p.StatusEntry(after))
}

// StatusEntry is what a plan that changed the status leaves of that in the event log, without an id, given the control after.
func (p Plan) StatusEntry(after Control) Entry {
	e := StatusEntry{Status: after.Status, Attempt: after.Attempt, Version: after.Version,
		AvailableAt: after.AvailableAt, WaitUntil: after.WaitUntil}
	kind := EntryStatus
	if after.Status.Terminal() {
		kind = EntryEnd
	}
	if after.Status == Waiting {
		e.Wait = p.payload(PayloadWait)
	}
	return Entry{Kind: kind, Data: e.Encode()}
}

func (p Plan) payload(k PayloadKind) []byte {
	for _, w := range p.Payloads {
		if w.Kind == k {
			return w.Data
		}
	}
	return nil
}

// NewLogEpoch names a log that is begun at now.
func NewLogEpoch(now Instant) string { return strconv.FormatInt(now.Millis(), 10) }
