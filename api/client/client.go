package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/windrow-run/windrow/api/contract"
)

// Client talks to one server. It is safe for concurrent use.
type Client struct {
	base    *url.URL
	http    *http.Client
	token   string
	repeats int
	backoff Backoff
	idle    time.Duration
}

// Options are the settings of a [Client].
type Options struct {
	// HTTP makes the requests. Its Timeout must be 0, since it would cut streams. nil: a client of its own.
	HTTP *http.Client
	// Token says who makes the requests: an API key or a JWT. Empty: they carry none.
	Token string
	// Repeats is how often a failed request is repeated where that is safe. Default: 4. Negative: never.
	Repeats int
	// Backoff is the time between repeats, and before a stream reconnects where the server names none.
	Backoff Backoff
	// Idle is how long a stream may be silent before the connection counts as lost. Default: 45 s, three of the server's
	// keepalives.
	Idle time.Duration
}

// New returns a client of the server at an http or https URL. It does not connect. A nil opts takes every default.
func New(server string, opts *Options) (*Client, error) {
	base, err := url.Parse(strings.TrimSuffix(server, "/"))
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, fmt.Errorf("client: the server must be a URL such as http://127.0.0.1:8080")
	}
	if opts == nil {
		opts = &Options{}
	}
	c := &Client{base: base, http: opts.HTTP, token: opts.Token, repeats: opts.Repeats, backoff: opts.Backoff.withDefaults(), idle: opts.Idle}
	if c.http == nil {
		c.http = &http.Client{}
	}
	if c.repeats == 0 {
		c.repeats = 4
	}
	if c.idle == 0 {
		c.idle = 45 * time.Second
	}
	return c, nil
}

// SubmitOptions are the options of a submission.
type SubmitOptions struct {
	// Key makes the submission idempotent: repeated with the same key and input, it returns the same execution. Empty: a
	// repeat would submit again, so the client does not repeat by itself.
	Key string
	// Wait asks the server to hold its answer back until the execution has ended, in whole seconds, of which it takes up to 60. What
	// has not ended by then is returned as it stands. 0: as soon as it is accepted.
	Wait time.Duration
	// Owner is whose execution it is. Empty: the token's. A token that is limited to an owner may name that one only.
	Owner string
	// TraceParent and TraceState are the headers of W3C Trace Context that go along to who does the work. Empty: none.
	TraceParent, TraceState string
	// Labels are what the execution is to be found by: up to 8, with keys of a-z 0-9 . _ / - and values of up to 63
	// characters.
	Labels map[string]string
	// Priority is from 0 to 9; work of a higher one is started earlier.
	Priority int64
	// RunAt is the time before which the work is not started, at most 3,650 days ahead. Zero: at once.
	RunAt time.Time
	// Delay is after how long the work is started at the earliest, at most 3,650 days. Not together with RunAt.
	Delay time.Duration
	// QueueTTL is after how long the execution fails if no worker has taken it up. 0: never.
	QueueTTL time.Duration
	// Deadline is by when the execution must have ended, else it fails. Zero: never.
	Deadline time.Time
}

// request is the body of a submission.
func (o *SubmitOptions) request(input json.RawMessage) contract.SubmitRequest {
	body := contract.SubmitRequest{Input: input, Owner: o.Owner, Labels: o.Labels, Priority: o.Priority, Delay: o.Delay.Seconds(), QueueTTL: o.QueueTTL.Seconds()}
	body.RunAt, body.Deadline = moment(o.RunAt), moment(o.Deadline)
	return body
}

func (o *SubmitOptions) header() http.Header {
	h := http.Header{}
	if o.Wait > 0 {
		h.Set("Prefer", fmt.Sprintf("wait=%d", seconds(o.Wait)))
	}
	if o.TraceParent != "" {
		h.Set("Traceparent", o.TraceParent)
	}
	if o.TraceState != "" {
		h.Set("Tracestate", o.TraceState)
	}
	return h
}

// moment is a time as an option that may be left out.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Submit hands in work and returns as soon as it is accepted. Input is anything that can be written as JSON;
// [json.RawMessage] is sent as it is.
func (c *Client) Submit(ctx context.Context, deployment string, input any, opts *SubmitOptions) (Execution, error) {
	if opts == nil {
		opts = &SubmitOptions{}
	}
	data, err := contract.Encode(input)
	if err != nil {
		return Execution{}, fmt.Errorf("client: write input: %w", err)
	}
	submit := call{method: http.MethodPost, path: submitPath(deployment), body: opts.request(data), key: opts.Key, safe: opts.Key != ""}
	submit.header = opts.header()
	return c.execution(ctx, submit)
}

// seconds are whole ones, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// Item is one submission of a batch.
type Item struct {
	Input any    // as for [Client.Submit]
	Key   string // the same as that of a single submission; empty: none
	// Options are those of a single submission. Its Key, Wait and trace must be left out: the key is the item's, and the others are
	// of a request. nil: every default.
	Options *SubmitOptions
}

// submission is the body of the item.
func (i Item) submission() (contract.SubmitRequest, error) {
	data, err := contract.Encode(i.Input)
	if err != nil {
		return contract.SubmitRequest{}, fmt.Errorf("write input: %w", err)
	}
	o := i.Options
	if o == nil {
		o = &SubmitOptions{}
	}
	if o.Key != "" || len(o.header()) > 0 {
		return contract.SubmitRequest{}, errors.New("the options of an item can have no key, wait or trace")
	}
	return o.request(data), nil
}

// Outcome is what became of an item: one of an execution and a problem.
type Outcome struct {
	Execution Execution // as it stands
	Replayed  bool      // the key was used before
	Problem   *Problem  // why the item was refused; nil: it was not
}

// SubmitBatch hands in up to 100 pieces of work at once, and returns what became of each, in their order. The error is for the batch as a
// whole. It is repeated only if every item has a key.
func (c *Client) SubmitBatch(ctx context.Context, deployment string, items []Item) ([]Outcome, error) {
	body := contract.BatchRequest{Items: make([]contract.BatchItem, len(items))}
	safe := true
	for i, item := range items {
		submission, err := item.submission()
		if err != nil {
			return nil, fmt.Errorf("client: item %d: %w", i, err)
		}
		body.Items[i] = contract.BatchItem{Submission: submission, IdempotencyKey: item.Key}
		safe = safe && item.Key != ""
	}
	answer, err := c.do(ctx, call{method: http.MethodPost, path: append(submitPath(deployment), "batch"), body: body, safe: safe})
	if err != nil {
		return nil, err
	}
	return parseOutcomes(answer.body, len(items))
}

func submitPath(deployment string) []string {
	return []string{"v1", "deployments", deployment, "executions"}
}

// Get returns an execution as it stands.
func (c *Client) Get(ctx context.Context, id string) (Execution, error) {
	return c.execution(ctx, call{method: http.MethodGet, path: executionPath(id), safe: true})
}

// Refresh returns an execution as it is once it is not as e any more, or e itself if that is not so within the wait, in whole seconds up to
// 60; 0: as it stands now. It takes an execution of [Client.Get] or Refresh, whose tag it needs: any other is read anew at once.
func (c *Client) Refresh(ctx context.Context, e Execution, wait time.Duration) (Execution, error) {
	get := call{method: http.MethodGet, path: executionPath(e.ExecutionID), safe: true}
	if e.ETag != "" {
		get.header = http.Header{"If-None-Match": {e.ETag}}
		get.query = url.Values{"wait": {fmt.Sprint(seconds(wait))}}
	}
	answer, err := c.do(ctx, get)
	if err != nil || answer.status == http.StatusNotModified {
		return e, err
	}
	return answer.execution()
}

// Input returns what an execution was submitted with, byte for byte. It takes the scope submit.
func (c *Client) Input(ctx context.Context, id string) (json.RawMessage, error) {
	return c.payload(ctx, executionPath(id, "input"))
}

// Result returns what an execution came to, byte for byte; until it is completed that is a [*Problem].
func (c *Client) Result(ctx context.Context, id string) (json.RawMessage, error) {
	return c.payload(ctx, executionPath(id, "result"))
}

func (c *Client) payload(ctx context.Context, path []string) (json.RawMessage, error) {
	answer, err := c.do(ctx, call{method: http.MethodGet, path: path, safe: true})
	return answer.body, err
}

// ResumeOptions are the options of an answer.
type ResumeOptions struct {
	// Key makes the answer idempotent: repeated with the same key and answer, it is accepted again and applied once. Empty:
	// the client does not repeat by itself.
	Key string
	// Sequence names the wait that the answer is for. 0: whichever is open.
	Sequence int64
}

// Resume answers a waiting execution.
func (c *Client) Resume(ctx context.Context, id string, answer any, opts *ResumeOptions) (Execution, error) {
	if opts == nil {
		opts = &ResumeOptions{}
	}
	data, err := contract.Encode(answer)
	if err != nil {
		return Execution{}, fmt.Errorf("client: write answer: %w", err)
	}
	body := contract.ResumeRequest{Input: data, Sequence: opts.Sequence}
	path := executionPath(id, "resume")
	return c.execution(ctx, call{method: http.MethodPost, path: path, body: body, key: opts.Key, safe: opts.Key != ""})
}

// Cancel asks for an execution to stop. Asking again changes nothing. The reason, if any, goes with the request.
func (c *Client) Cancel(ctx context.Context, id, reason string) (Execution, error) {
	body := contract.CancelRequest{Reason: reason}
	return c.execution(ctx, call{method: http.MethodPost, path: executionPath(id, "cancel"), body: body, safe: true})
}

// Erase removes an execution with all that belongs to it. The token must have the scope admin. One that is gone is a
// [*Problem] with the status 404, also where an earlier try of this call has erased it.
func (c *Client) Erase(ctx context.Context, id string) (contract.Erased, error) {
	return c.erased(ctx, executionPath(id))
}

// EraseOwner removes executions of an owner, for about two seconds. Where More is true there are more: call it again. The token
// must have the scope admin.
func (c *Client) EraseOwner(ctx context.Context, owner string) (contract.Erased, error) {
	return c.erased(ctx, []string{"v1", "owners", owner})
}

func (c *Client) erased(ctx context.Context, path []string) (contract.Erased, error) {
	answer, err := c.do(ctx, call{method: http.MethodDelete, path: path, safe: true})
	if err != nil {
		return contract.Erased{}, err
	}
	var e contract.Erased
	if err := json.Unmarshal(answer.body, &e); err != nil {
		return contract.Erased{}, fmt.Errorf("client: the answer does not say what was erased: %w", err)
	}
	return e, nil
}

// Wait follows an execution until it has ended, and returns it.
func (c *Client) Wait(ctx context.Context, id string) (Execution, error) {
	for event, err := range c.Stream(ctx, id, &StreamOptions{Only: []Kind{}}) {
		if err != nil {
			return Execution{}, err
		}
		if event.Terminal() {
			return event.Execution()
		}
	}
	return c.Get(ctx, id)
}

// Ready returns nil if the server can do its work now, and a [*Problem] or a network error if not. It asks once.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.once(ctx, call{method: http.MethodGet, path: []string{"readyz"}})
	return err
}

func executionPath(id string, more ...string) []string {
	return append([]string{"v1", "executions", id}, more...)
}

// execution makes a call that answers with an execution.
func (c *Client) execution(ctx context.Context, call call) (Execution, error) {
	answer, err := c.do(ctx, call)
	if err != nil {
		return Execution{}, err
	}
	return answer.execution()
}
