package client

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// maxEvent bounds one event of a stream: a terminal one holds a result and all progress.
const maxEvent = 64 << 20

// frame is what one block of an event stream says.
type frame struct {
	id    string // of this frame or the last one before it that had one
	name  string // "message" where the block names none
	event bool   // the block holds an event; without one it may still have set id or retry
	data  []byte
	retry time.Duration
}

// reader reads an event stream as the HTML standard describes it.
type reader struct {
	in     *bufio.Reader
	lastID string
	skipLF bool         // the last line ended with CR: a LF that follows belongs to it
	alive  func()       // called for each line
	line   bytes.Buffer // reused
}

func newReader(in io.Reader, alive func()) *reader {
	return &reader{in: bufio.NewReaderSize(in, 32<<10), alive: alive}
}

// next returns the next block. A block that the stream breaks off in is dropped with the error, as the standard says.
func (r *reader) next() (frame, error) {
	f := frame{name: "message"}
	var data [][]byte
	size := 0
	for {
		line, err := r.readLine()
		if err != nil {
			return frame{}, err
		}
		if len(line) == 0 {
			break
		}
		if size += len(line); size > maxEvent {
			return frame{}, fmt.Errorf("client: an event is larger than %d bytes", maxEvent)
		}
		field, value, _ := strings.Cut(string(line), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			f.name = value
		case "data":
			data = append(data, []byte(value))
		default:
			r.set(&f, field, value)
		}
	}
	f.id, f.event, f.data = r.lastID, data != nil, bytes.Join(data, []byte("\n"))
	return f, nil
}

// set takes the fields that outlive an event. All others, comments included, say nothing.
func (r *reader) set(f *frame, field, value string) {
	switch field {
	case "id":
		if !strings.ContainsRune(value, 0) {
			r.lastID = value
		}
	case "retry":
		if ms, err := strconv.ParseUint(value, 10, 31); err == nil {
			f.retry = time.Duration(ms) * time.Millisecond
		}
	}
}

// readLine returns the next line without its end: LF, CR LF or CR. It is valid until the next call.
func (r *reader) readLine() ([]byte, error) {
	r.line.Reset()
	for {
		b, err := r.in.ReadByte()
		if err != nil {
			return nil, err
		}
		skip := r.skipLF && b == '\n'
		r.skipLF = b == '\r'
		switch {
		case skip:
		case b == '\n' || b == '\r':
			r.alive()
			return r.line.Bytes(), nil
		case r.line.Len() == maxEvent:
			return nil, fmt.Errorf("client: a line is larger than %d bytes", maxEvent)
		default:
			r.line.WriteByte(b)
		}
	}
}
