package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/windrow-run/windrow/api/contract"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

// Backoff is a delay that doubles with each try, with full jitter.
type Backoff struct {
	First time.Duration // default 200 ms
	Max   time.Duration // default 5 s
}

func (b Backoff) withDefaults() Backoff {
	if b.First == 0 {
		b.First = 200 * time.Millisecond
	}
	if b.Max == 0 {
		b.Max = 5 * time.Second
	}
	return b
}

// delay before try n, from 1. It is never zero, so that a loop can't spin.
func (b Backoff) delay(n int) time.Duration {
	longest := b.Max
	if n < 30 {
		longest = min(b.Max, b.First<<(n-1))
	}
	return longest/10 + rand.N(longest)
}

// call is one request.
type call struct {
	method string
	path   []string // segments, not escaped
	query  url.Values
	body   any    // nil: none
	key    string // Idempotency-Key; empty: none
	safe   bool   // may be repeated
}

// do makes a call, and repeats it where that is safe.
func (c *Client) do(ctx context.Context, call call) ([]byte, error) {
	for try := 1; ; try++ {
		data, err := c.once(ctx, call)
		if err == nil || try > c.repeats || !worthRepeating(call, err) {
			return data, err
		}
		wait := c.backoff.delay(try)
		if problem, ok := errors.AsType[*Problem](err); ok && problem.RetryAfter > wait {
			wait = problem.RetryAfter
		}
		if sleep(ctx, wait) != nil {
			return nil, err
		}
	}
}

// worthRepeating reports whether the call may succeed later and can't be done twice. One that did not reach the server
// was not done at all.
func worthRepeating(call call, err error) bool {
	if problem, ok := errors.AsType[*Problem](err); ok {
		switch problem.Status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return call.safe
		}
		return false
	}
	if network, ok := errors.AsType[*net.OpError](err); ok && network.Op == "dial" {
		return true
	}
	_, transport := errors.AsType[*url.Error](err)
	return call.safe && transport
}

// once makes a call and returns the body of a successful answer.
func (c *Client) once(ctx context.Context, call call) ([]byte, error) {
	req, err := c.request(ctx, call)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, cause(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return nil, problemOf(resp)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, cause(ctx, &url.Error{Op: "read", URL: req.URL.Redacted(), Err: err})
	}
	return data, nil
}

func (c *Client) request(ctx context.Context, call call) (*http.Request, error) {
	if strings.ContainsFunc(call.key, unicode.IsControl) {
		return nil, errors.New("the idempotency key must have no control characters")
	}
	var body io.Reader
	if call.body != nil {
		data, err := contract.Encode(call.body)
		if err != nil {
			return nil, fmt.Errorf("client: write request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	escaped := make([]string, len(call.path))
	for i, segment := range call.path {
		escaped[i] = url.PathEscape(segment)
	}
	target := c.base.JoinPath(escaped...)
	target.RawQuery = call.query.Encode()
	req, err := http.NewRequestWithContext(ctx, call.method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if call.key != "" {
		req.Header.Set("Idempotency-Key", quoted(call.key))
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	req.Header.Set("Accept", "application/json, application/problem+json")
	return req, nil
}

// quoted returns a key as the header takes it: in quotes where it would otherwise lose what it begins or ends with.
func quoted(key string) string {
	if !strings.HasPrefix(key, `"`) && strings.TrimSpace(key) == key {
		return key
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

// problemOf reads a refusal. What answers with something else than a problem document is most likely a proxy.
func problemOf(resp *http.Response) *Problem {
	p := &Problem{}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || kind != "application/problem+json" || json.Unmarshal(data, &p.Problem) != nil {
		p.Problem = contract.Problem{Type: "about:blank", Title: http.StatusText(resp.StatusCode)}
	}
	p.Status = resp.StatusCode
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		p.RetryAfter = time.Duration(seconds) * time.Second
	}
	return p
}

// cause prefers the reason for which the caller ended the context to the transport's view of it.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// sleep waits, and returns an error where ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
