package sse

import (
	"fmt"
	"net/http"
	"time"
)

// Writer sends frames in the response to a request. It is for one goroutine.
type Writer struct {
	response   http.ResponseWriter
	controller *http.ResponseController
	timeout    time.Duration
}

// NewWriter begins a stream: it sends the headers, with the status 200. Each later send must be taken by the connection
// within the timeout, or it fails; zero is no timeout. The response must be able to flush.
func NewWriter(response http.ResponseWriter, timeout time.Duration) (*Writer, error) {
	header := response.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("X-Accel-Buffering", "no")
	w := &Writer{response: response, controller: http.NewResponseController(response), timeout: timeout}
	if err := w.Send(nil); err != nil {
		return nil, err
	}
	return w, nil
}

// Send sends frames at once. After an error the stream is broken, and the client has to come back.
func (w *Writer) Send(frames []byte) error {
	if err := w.limit(); err != nil {
		return err
	}
	if len(frames) > 0 {
		if _, err := w.response.Write(frames); err != nil {
			return fmt.Errorf("sse: write: %w", err)
		}
	}
	if err := w.controller.Flush(); err != nil {
		return fmt.Errorf("sse: flush: %w", err)
	}
	return nil
}

// limit gives the connection until the timeout to take what comes: a viewer that reads too slowly must not hold on to
// what the others have long seen.
func (w *Writer) limit() error {
	if w.timeout <= 0 {
		return nil
	}
	if err := w.controller.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
		return fmt.Errorf("sse: deadline: %w", err)
	}
	return nil
}
