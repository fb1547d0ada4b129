package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/windrow-run/windrow/internal/sse"
)

// maxEvent bounds one event of a stream, in bytes: a terminal one holds a result and all progress.
const maxEvent = 64 << 20

// StreamOptions are the options of a stream.
type StreamOptions struct {
	// Cursor is the ID of the last event that was seen: the stream goes on after it. Empty: from the oldest event kept.
	Cursor string
	// Only are the kinds of events to be told of; gaps and the end always come. nil: all.
	Only []Kind
	// OnReconnect is called with the error of each lost connection and the delay before the next try. nil: no call.
	OnReconnect func(lost error, in time.Duration)
}

var errBrokenOff = errors.New("the server ended the stream before the execution ended")

// Stream follows an execution: what it says, and how it ends. The last event is the terminal one; there is none where the
// cursor stands after it already. A connection that is lost is made again, from the last event on and for as long as ctx
// lives, so that a viewer outlives a restart of the server. What the server can't show any more it reports as [EventGap].
//
// An error ends the stream: a [*Problem] where the server refuses it, or the cause for which ctx ended.
func (c *Client) Stream(ctx context.Context, id string, opts *StreamOptions) iter.Seq2[Event, error] {
	if opts == nil {
		opts = &StreamOptions{}
	}
	return func(yield func(Event, error) bool) {
		s := &stream{client: c, id: id, cursor: opts.Cursor, only: opts.Only, onReconnect: opts.OnReconnect, yield: yield}
		if err := s.run(ctx); err != nil {
			yield(Event{}, err)
		}
	}
}

// stream is one viewer over as many connections as it takes.
type stream struct {
	client      *Client
	id          string
	cursor      string
	only        []Kind
	retry       time.Duration // as the server named it; 0: it did not
	failures    int           // connections in a row that brought nothing
	onReconnect func(error, time.Duration)
	yield       func(Event, error) bool
	done        bool // the consumer stopped, or the terminal event was seen
}

func (s *stream) run(ctx context.Context) error {
	for {
		lost := s.connect(ctx)
		switch {
		case s.done:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case refusal(lost):
			return lost
		}
		s.failures++
		wait := s.delay(lost)
		if s.onReconnect != nil {
			s.onReconnect(lost, wait)
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// refusal reports whether trying again is of no use.
func refusal(err error) bool {
	p, ok := errors.AsType[*Problem](err)
	return ok && p.Status < 500 && p.Status != http.StatusTooManyRequests &&
		p.Status != http.StatusRequestTimeout
}

// delay before the next connection: what the server asked for, then longer and longer where nothing comes of it.
func (s *stream) delay(lost error) time.Duration {
	wait := s.client.backoff.delay(s.failures)
	if s.failures == 1 && s.retry > 0 {
		wait = s.retry
	}
	if p, ok := errors.AsType[*Problem](lost); ok {
		wait = max(wait, p.RetryAfter)
	}
	return wait
}

// connect follows the execution over one connection, and returns why that ended.
func (s *stream) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(s.client.idle, func() { cancel(errors.New("the connection was silent for too long")) })
	defer silence.Stop()
	resp, err := s.open(ctx)
	if err != nil {
		return cause(ctx, err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNoContent:
		s.done = true
		return nil
	case resp.StatusCode != http.StatusOK:
		return problemOf(resp)
	}
	alive := aliveReader{resp.Body, func() { silence.Reset(s.client.idle) }}
	return cause(ctx, s.follow(sse.NewReaderAfter(alive, s.cursor, maxEvent)))
}

// aliveReader calls told whenever bytes arrive.
type aliveReader struct {
	io.Reader
	told func()
}

func (r aliveReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.told()
	}
	return n, err
}

func (s *stream) open(ctx context.Context) (*http.Response, error) {
	follow := call{method: http.MethodGet, path: executionPath(s.id, "stream")}
	if s.only != nil {
		names := make([]string, len(s.only))
		for i, kind := range s.only {
			names[i] = string(kind)
		}
		follow.query = url.Values{"events": {strings.Join(names, ",")}}
	}
	req, err := s.client.request(ctx, follow)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if s.cursor != "" {
		req.Header.Set("Last-Event-ID", s.cursor)
	}
	return s.client.http.Do(req)
}

// follow hands events on until the stream ends.
func (s *stream) follow(in *sse.Reader) error {
	for {
		next, err := in.Next()
		s.cursor, s.retry = in.LastID(), cmp.Or(in.Retry(), s.retry)
		switch {
		case errors.Is(err, io.EOF):
			return errBrokenOff
		case err != nil:
			return err
		}
		event := Event{ID: next.ID, Kind: Kind(cmp.Or(next.Name, "message")), Data: json.RawMessage(next.Data)}
		if event.Kind == eventError {
			return errBrokenOff
		}
		s.failures = 0
		s.done = !s.yield(event, nil) || event.Terminal()
		if s.done {
			return nil
		}
	}
}
