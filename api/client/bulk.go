package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"

	"github.com/windrow-run/windrow/api/contract"
)

// ResubmitOptions are the options of a resubmission.
type ResubmitOptions struct {
	// Key makes it happen once for the execution. Empty: the client does not repeat by itself.
	Key string
	// SameRevision asks for the revision that the execution had, in place of the deployment's current one.
	SameRevision bool
}

// Resubmit submits the input of an ended execution again, and returns the new execution. It takes the scope submit.
func (c *Client) Resubmit(ctx context.Context, id string, opts *ResubmitOptions) (Execution, error) {
	if opts == nil {
		opts = &ResubmitOptions{}
	}
	body := map[string]string{}
	if opts.SameRevision {
		body["revision"] = revisionSame
	}
	return c.execution(ctx, call{method: http.MethodPost, path: executionPath(id, "resubmit"), body: body, key: opts.Key, safe: opts.Key != ""})
}

const revisionSame = "same"

// Action is what is done to many executions.
type Action string

// The actions.
const (
	ActionCancel   Action = "cancel"   // takes the scope resume
	ActionErase    Action = "erase"    // takes the scope admin
	ActionResubmit Action = "resubmit" // takes the scope submit
)

// BulkOptions say which executions are meant, and how it is done. A token that is not limited to an owner must have the scope admin.
type BulkOptions struct {
	Filter       ListOptions // Page is not used
	All          bool        // all executions, with an empty filter
	Reason       string      // of ActionCancel
	SameRevision bool        // of ActionResubmit
	// Key makes ActionResubmit happen once for each execution, also after another dry run. Empty: once for each confirmation.
	Key   string
	Limit int // executions a request, at most; 0: as many as the server takes
}

// bulkBody is contract.BulkCancelRequest and its like in one.
type bulkBody struct {
	All          bool                 `json:"all,omitempty"`
	Confirmation string               `json:"confirmation,omitempty"`
	Cursor       string               `json:"cursor,omitempty"`
	DryRun       bool                 `json:"dry_run,omitempty"`
	Filter       *contract.BulkFilter `json:"filter,omitempty"`
	Limit        int                  `json:"limit,omitempty"`
	Reason       string               `json:"reason,omitempty"`
	Revision     string               `json:"revision,omitempty"`
}

func (o *BulkOptions) request() bulkBody {
	body := bulkBody{All: o.All, Reason: o.Reason, Limit: o.Limit}
	if o.SameRevision {
		body.Revision = revisionSame
	}
	f := contract.BulkFilter{CreatedFrom: moment(o.Filter.CreatedFrom), CreatedBefore: moment(o.Filter.CreatedBefore)}
	for text, into := range map[*string]**string{&o.Filter.Deployment: &f.Deployment, &o.Filter.Revision: &f.Revision, &o.Filter.Owner: &f.Owner} {
		if *text != "" {
			*into = text
		}
	}
	if len(o.Filter.Statuses) > 0 {
		f.Status = &o.Filter.Statuses
	}
	if len(o.Filter.Labels) > 0 {
		labels := contract.Labels(o.Filter.Labels)
		f.Labels = &labels
	}
	if f != (contract.BulkFilter{}) {
		body.Filter = &f
	}
	return body
}

// BulkDryRun counts the executions that an action would reach, and does nothing to them. The last answer that it yields has the
// Confirmation that [Client.Bulk] takes; the others tell how far it has come. It ends with the first error.
func (c *Client) BulkDryRun(ctx context.Context, what Action, opts BulkOptions) iter.Seq2[contract.BulkAnswer, error] {
	body := opts.request()
	body.DryRun, body.Limit = true, 0
	return c.bulk(ctx, what, body, "")
}

// Bulk does something to all executions that the dry run with the same options counted, and yields how each request fared. Only Total
// counts all of them. What may pass, such as a full deployment, is waited for; the iteration ends with the first error. Beginning anew with
// the same confirmation does nothing twice.
func (c *Client) Bulk(ctx context.Context, what Action, opts BulkOptions, confirmation string) iter.Seq2[contract.BulkAnswer, error] {
	body := opts.request()
	body.Confirmation = confirmation
	return c.bulk(ctx, what, body, opts.Key)
}

func (c *Client) bulk(ctx context.Context, what Action, body bulkBody, key string) iter.Seq2[contract.BulkAnswer, error] {
	return func(yield func(contract.BulkAnswer, error) bool) {
		for stuck := 0; ; {
			got, err := c.bulkOnce(ctx, what, body, key)
			if !yield(got, err) || err != nil || got.Cursor == nil && got.Stopped == nil {
				return
			}
			if got.Cursor != nil {
				body.Cursor = *got.Cursor
			}
			if stuck++; got.Matched > 0 {
				stuck = 0
			}
			if err := c.unstick(ctx, got.Stopped, stuck); err != nil {
				yield(contract.BulkAnswer{}, err)
				return
			}
		}
	}
}

// unstick waits where a request broke off early for what may pass. The error says that it will not, or has not.
func (c *Client) unstick(ctx context.Context, stopped *contract.Problem, tries int) error {
	if stopped == nil {
		return nil
	}
	passing := stopped.Status == http.StatusTooManyRequests || stopped.Status == http.StatusServiceUnavailable
	if !passing || tries > c.repeats {
		return &Problem{Problem: *stopped}
	}
	return sleep(ctx, c.backoff.delay(max(tries, 1)))
}

func (c *Client) bulkOnce(ctx context.Context, what Action, body bulkBody, key string) (got contract.BulkAnswer, err error) {
	answer, err := c.do(ctx, call{method: http.MethodPost, path: []string{"v1", "bulk", string(what)}, body: body, key: key, safe: true})
	if err != nil {
		return got, err
	}
	if err := json.Unmarshal(answer.body, &got); err != nil {
		return got, fmt.Errorf("client: the answer is none of a bulk request: %w", err)
	}
	if got.Skipped == nil {
		return got, errors.New("client: the answer is none of a bulk request: is this a Windrow server?")
	}
	return got, nil
}
