// Package sse speaks the format of server-sent events (text/event-stream, as the HTML standard has it), both ways: frames
// for a response that is written as events happen, and a reader for clients.
package sse

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Event is one event.
type Event struct {
	// ID is the position after the event, which a client sends when it comes back. Empty leaves the last one in force.
	ID string

	// Name is the kind of event; empty is "message", which the format takes for granted.
	Name string

	// Data is what happened. The format knows only line feeds: a carriage return, alone or before a line feed, is read
	// back as one.
	Data string
}

// errField refuses a text that would end its line and go on as another field.
var errField = errors.New("sse: id and name must have no line break, and id no NUL")

// AppendEvent appends the frame of an event. An error leaves dst as it was.
func AppendEvent(dst []byte, event Event) ([]byte, error) {
	if strings.ContainsAny(event.ID, "\r\n\x00") || strings.ContainsAny(event.Name, "\r\n") {
		return dst, errField
	}
	if event.ID != "" {
		dst = appendField(dst, "id", event.ID)
	}
	if event.Name != "" {
		dst = appendField(dst, "event", event.Name)
	}
	return append(appendLines(dst, event.Data), '\n'), nil
}

// AppendID appends a frame that sets the last id and is no event: clients see nothing of it, but come back there.
func AppendID(dst []byte, id string) ([]byte, error) {
	if strings.ContainsAny(id, "\r\n\x00") {
		return dst, errField
	}
	return append(appendField(dst, "id", id), '\n'), nil
}

// AppendRetry appends how long a client should wait before it comes back, in whole milliseconds.
func AppendRetry(dst []byte, delay time.Duration) []byte {
	return append(appendField(dst, "retry", strconv.FormatInt(max(0, delay.Milliseconds()), 10)), '\n')
}

// AppendComment appends a comment, which keeps a connection open and which clients ignore. Line breaks become spaces.
func AppendComment(dst []byte, text string) []byte {
	dst = append(dst, ": "...)
	dst = append(dst, strings.NewReplacer("\r", " ", "\n", " ").Replace(text)...)
	return append(dst, "\n\n"...)
}

// Jitter returns a delay between half of base and one and a half of it, so that clients that were cut off together do
// not come back together.
func Jitter(base time.Duration) time.Duration {
	if base <= 0 {
		return 0
	}
	return base/2 + rand.N(base)
}

func appendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, '\n')
}

func appendLines(dst []byte, data string) []byte {
	for {
		end := strings.IndexAny(data, "\r\n")
		if end < 0 {
			return appendField(dst, "data", data)
		}
		dst = appendField(dst, "data", data[:end])
		if strings.HasPrefix(data[end:], "\r\n") {
			end++
		}
		data = data[end+1:]
	}
}

// trimSpace drops the one space that may stand before a value.
func trimSpace(value []byte) []byte { return bytes.TrimPrefix(value, []byte(" ")) }
