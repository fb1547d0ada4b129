package contracttest_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// canned answers every request alike.
type canned struct {
	header http.Header
	body   string
}

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: c.header, Request: r, Body: io.NopCloser(strings.NewReader(c.body))}, nil
}

// exchange sends a request and reads so many bytes of the answer, or all.
func exchange(t *testing.T, through http.RoundTripper, path string, read int64) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server"+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := through.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, response.Body, read); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
}
