package sse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// DefaultEventBytes is how large an event may be when [NewReader] is given no limit: 4 MiB.
const DefaultEventBytes = 4 << 20

// ErrTooLarge says that an event is larger than the limit. The stream can't be read on.
var ErrTooLarge = errors.New("sse: the event is larger than the limit")

// Reader reads the events of a stream.
type Reader struct {
	bytes  *bufio.Reader
	limit  int
	begun  bool
	afterR bool // the last byte was a carriage return: a line feed after it belongs to it
	lastID string
	retry  time.Duration

	// The frame that is being read.
	line    []byte
	id      string
	name    string
	data    bytes.Buffer
	hasData bool
	size    int
}

// NewReader reads from a stream. limit bounds the bytes of one event with its comments; zero is [DefaultEventBytes].
func NewReader(stream io.Reader, limit int) *Reader { return NewReaderAfter(stream, "", limit) }

// NewReaderAfter is NewReader for a stream that was asked to go on after lastID.
func NewReaderAfter(stream io.Reader, lastID string, limit int) *Reader {
	if limit <= 0 {
		limit = DefaultEventBytes
	}
	return &Reader{bytes: bufio.NewReaderSize(stream, 32<<10), limit: limit, lastID: lastID, id: lastID}
}

// LastID is the position to come back to: the id that the frames read so far have set last, else the one that the stream
// was asked for.
func (r *Reader) LastID() string { return r.lastID }

// Retry is how long to wait before coming back, as the stream has last said; zero where it has not.
func (r *Reader) Retry() time.Duration { return r.retry }

// Next returns the next event. The event's ID is the last one that was set, by it or before it. At the end of the stream
// Next returns [io.EOF]; an event that was cut off is lost, as the format has it.
func (r *Reader) Next() (Event, error) {
	for {
		if err := r.readLine(); err != nil {
			return Event{}, err
		}
		if len(r.line) > 0 {
			r.field(r.line)
			continue
		}
		if event, ok := r.dispatch(); ok {
			return event, nil
		}
	}
}

// dispatch ends a frame. A frame without data is no event, but its id counts.
func (r *Reader) dispatch() (Event, bool) {
	r.lastID = r.id
	event := Event{ID: r.lastID, Name: r.name, Data: r.data.String()}
	hasData := r.hasData
	r.name, r.hasData, r.size = "", false, 0
	r.data.Reset()
	return event, hasData
}

func (r *Reader) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = trimSpace(value)
	switch string(name) {
	case "event":
		r.name = string(value)
	case "data":
		if r.hasData {
			r.data.WriteByte('\n')
		}
		r.hasData = true
		r.data.Write(value)
	case "id":
		if !bytes.ContainsRune(value, 0) {
			r.id = string(value)
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			r.retry = time.Duration(ms) * time.Millisecond
		}
	}
}

// readLine reads up to a line feed, a carriage return, or both. After a carriage return it does not wait for a line feed:
// the line is complete, and the next byte may be long in coming. The last line without an end is not a line.
func (r *Reader) readLine() error {
	if err := r.skipMark(); err != nil {
		return err
	}
	for r.line = r.line[:0]; ; {
		b, err := r.bytes.ReadByte()
		if err != nil {
			return readError(err)
		}
		skip := b == '\n' && r.afterR
		r.afterR = b == '\r'
		switch {
		case skip:
			continue
		case b == '\n', b == '\r':
			return nil
		}
		if r.size++; r.size > r.limit {
			return ErrTooLarge
		}
		r.line = append(r.line, b)
	}
}

// skipMark skips a byte order mark at the beginning.
func (r *Reader) skipMark() error {
	if r.begun {
		return nil
	}
	r.begun = true
	mark, err := r.bytes.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return readError(err)
	}
	if string(mark) == "\xef\xbb\xbf" {
		_, err = r.bytes.Discard(len(mark))
		return err
	}
	return nil
}

func readError(err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return fmt.Errorf("sse: read: %w", err)
}
