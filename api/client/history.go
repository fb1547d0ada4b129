package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/windrow-run/windrow/api/contract"
)

// History is how an execution got where it is: its submission and the newest transitions after it, oldest first.
type History struct {
	contract.History
	// Raw is the whole answer as the server sent it.
	Raw json.RawMessage
}

// History returns the history of an execution, with at most limit entries, 2 to 100; 0: as many as there are.
func (c *Client) History(ctx context.Context, id string, limit int) (History, error) {
	get := call{method: http.MethodGet, path: executionPath(id, "history"), safe: true}
	if limit != 0 {
		get.query = url.Values{"limit": {strconv.Itoa(limit)}}
	}
	answer, err := c.do(ctx, get)
	if err != nil {
		return History{}, err
	}
	h := History{Raw: answer.body}
	if err := json.Unmarshal(answer.body, &h.History); err != nil {
		return History{}, fmt.Errorf("client: the answer is no history: %w", err)
	}
	if len(h.Entries) == 0 {
		return History{}, fmt.Errorf("client: the answer is no history: is this a Windrow server?")
	}
	return h, nil
}
