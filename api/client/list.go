package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/windrow-run/windrow/api/contract"
)

// ListOptions are the filters of a listing. A zero one lets everything pass.
type ListOptions struct {
	Deployment    string
	Revision      string
	Statuses      []contract.ExecutionStatus // any of them
	Owner         string
	Labels        map[string]string // all of them
	CreatedFrom   time.Time         // not before
	CreatedBefore time.Time
	// Page is how many executions a request asks for, 1 to 200. Default: 50.
	Page int
}

// Summary is an execution as a listing shows it.
type Summary struct {
	contract.ExecutionSummary
	// Raw is the item as the server sent it.
	Raw json.RawMessage
}

// List yields executions, the newest first, and asks for more as they are taken. It ends with the first error. A nil opts
// lists all that the token may see.
func (c *Client) List(ctx context.Context, opts *ListOptions) iter.Seq2[Summary, error] {
	if opts == nil {
		opts = &ListOptions{}
	}
	return func(yield func(Summary, error) bool) {
		query := opts.query()
		for {
			items, next, err := c.page(ctx, query)
			if err != nil {
				yield(Summary{}, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			query.Set("cursor", next)
		}
	}
}

func (o *ListOptions) query() url.Values {
	q := url.Values{}
	set := func(name, value string) {
		if value != "" {
			q.Set(name, value)
		}
	}
	set("deployment", o.Deployment)
	set("revision", o.Revision)
	set("owner", o.Owner)
	for _, status := range o.Statuses {
		q.Add("status", string(status))
	}
	for key, value := range o.Labels {
		q.Add("label", key+"="+value)
	}
	slices.Sort(q["label"])
	for name, t := range map[string]time.Time{"created_from": o.CreatedFrom, "created_before": o.CreatedBefore} {
		if !t.IsZero() {
			q.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	if o.Page != 0 {
		q.Set("limit", strconv.Itoa(o.Page))
	}
	return q
}

// page asks for one page. next is empty where it is the last.
func (c *Client) page(ctx context.Context, query url.Values) (items []Summary, next string, err error) {
	answer, err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "executions"}, query: query, safe: true})
	if err != nil {
		return nil, "", err
	}
	var page struct {
		Items []json.RawMessage `json:"items"`
		Next  string            `json:"next_cursor"`
	}
	if err := json.Unmarshal(answer.body, &page); err != nil {
		return nil, "", fmt.Errorf("client: the answer is no listing: %w", err)
	}
	if page.Items == nil {
		return nil, "", errors.New("client: the answer is no listing: is this a Windrow server?")
	}
	for _, raw := range page.Items {
		item := Summary{Raw: raw}
		if err := json.Unmarshal(raw, &item.ExecutionSummary); err != nil {
			return nil, "", fmt.Errorf("client: the answer is no listing: %w", err)
		}
		items = append(items, item)
	}
	return items, page.Next, nil
}
