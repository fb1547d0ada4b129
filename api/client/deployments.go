package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"

	"github.com/windrow-run/windrow/api/contract"
)

// Deployment is a kind of work as it stands over all processes. What the token may not see is nil.
type Deployment struct {
	contract.DeploymentState
	// Raw is the deployment as the server sent it.
	Raw json.RawMessage
}

// Deployment returns a deployment. One that is not there is a [*Problem] with the status 404.
func (c *Client) Deployment(ctx context.Context, name string) (Deployment, error) {
	answer, err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "deployments", name}, safe: true})
	if err != nil {
		return Deployment{}, err
	}
	return deployment(answer.body)
}

// Deployments yields all that the token may see, by their names. It ends with the first error.
func (c *Client) Deployments(ctx context.Context) iter.Seq2[Deployment, error] {
	return func(yield func(Deployment, error) bool) {
		query := url.Values{"limit": {"200"}}
		for {
			items, next, err := c.deployments(ctx, query)
			if err != nil {
				yield(Deployment{}, err)
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

// deployments asks for one page. next is empty where it is the last.
func (c *Client) deployments(ctx context.Context, query url.Values) (items []Deployment, next string, err error) {
	answer, err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "deployments"}, query: query, safe: true})
	if err != nil {
		return nil, "", err
	}
	var page struct {
		Items []json.RawMessage `json:"items"`
		Next  string            `json:"next_cursor"`
	}
	if err := json.Unmarshal(answer.body, &page); err != nil {
		return nil, "", fmt.Errorf("client: the answer lists no deployments: %w", err)
	}
	if page.Items == nil {
		return nil, "", errors.New("client: the answer lists no deployments: is this a Windrow server?")
	}
	for _, raw := range page.Items {
		item, err := deployment(raw)
		if err != nil {
			return nil, "", err
		}
		items = append(items, item)
	}
	return items, page.Next, nil
}

// MoveRevision pins what of a revision does not run to another revision of the deployment, for about two seconds: call it again until
// nothing remains. The token must have the scope admin.
func (c *Client) MoveRevision(ctx context.Context, deployment, revision string, to contract.MoveRequest) (contract.Displaced, error) {
	return c.displaced(ctx, deployment, revision, "move", to)
}

// FailRevision ends what of a revision does not run as failed, for about two seconds: call it again until nothing remains. The
// token must have the scope admin.
func (c *Client) FailRevision(ctx context.Context, deployment, revision string, how contract.FailRequest) (contract.Displaced, error) {
	return c.displaced(ctx, deployment, revision, "fail", how)
}

// displaced makes a call that does nothing twice; where it repeats itself, it counts what the last try did.
func (c *Client) displaced(ctx context.Context, deployment, revision, what string, body any) (contract.Displaced, error) {
	path := []string{"v1", "deployments", deployment, "revisions", revision, what}
	answer, err := c.do(ctx, call{method: http.MethodPost, path: path, body: body, safe: true})
	if err != nil {
		return contract.Displaced{}, err
	}
	var d contract.Displaced
	if err := json.Unmarshal(answer.body, &d); err != nil {
		return contract.Displaced{}, fmt.Errorf("client: the answer does not say what was done: %w", err)
	}
	return d, nil
}

func deployment(raw json.RawMessage) (Deployment, error) {
	d := Deployment{Raw: raw}
	if err := json.Unmarshal(raw, &d.DeploymentState); err != nil {
		return Deployment{}, fmt.Errorf("client: the answer is no deployment: %w", err)
	}
	return d, nil
}
