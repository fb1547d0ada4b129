package contracttest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
)

// Transport passes requests on to base and holds every response against the contract, once its body is read or closed.
// What is wrong is reported, from any goroutine.
func (c *Contract) Transport(base http.RoundTripper, report func(error)) http.RoundTripper {
	return transport{c, base, report}
}

type transport struct {
	contract *Contract
	base     http.RoundTripper
	report   func(error)
}

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = &watched{ReadCloser: response.Body, check: func(body []byte, cut bool) {
		err := t.contract.Check(Response{Method: r.Method, Path: r.URL.EscapedPath(), Status: response.StatusCode,
			Header: response.Header, Body: body, Cut: cut})
		if err != nil {
			t.report(err)
		}
	}}
	return response, nil
}

// watched keeps what is read of a body.
type watched struct {
	io.ReadCloser
	read  bytes.Buffer
	whole bool
	once  sync.Once
	check func(body []byte, cut bool)
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.read.Write(p[:n])
	w.whole = w.whole || errors.Is(err, io.EOF)
	return n, err
}

func (w *watched) Close() error {
	err := w.ReadCloser.Close()
	w.once.Do(func() { w.check(w.read.Bytes(), !w.whole) })
	return err
}
