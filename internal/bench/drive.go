package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windrow-run/windrow/internal/runtime"
)

// driveOrder is to submit work as fast as it is taken, or at a pace.
type driveOrder struct {
	Kind        string
	Deployments int // over which it is spread
	Count       int
	Submitters  int
	Every       time.Duration // between two submissions of a submitter; 0: none
}

// driven is what submitting took.
type driven struct {
	Submits []time.Duration // each
	Began   int64           // nanoseconds since the epoch
	IDs     []string        `json:"-"`
}

// submitter hands in one piece of work with an input that is compact JSON, and returns its id.
type submitter func(ctx context.Context, deployment string, input []byte) (id string, err error)

// drive submits with several submitters at once. It ends with the first error.
func drive(ctx context.Context, submit submitter, o driveOrder) (driven, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := driven{Submits: make([]time.Duration, o.Count), IDs: make([]string, o.Count), Began: time.Now().UnixNano()}
	var next atomic.Int64
	var all sync.WaitGroup
	for range o.Submitters {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < o.Count && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				begin := time.Now()
				id, err := submit(ctx, workName(o.Kind, i%max(o.Deployments, 1)), stampedInput())
				if err != nil {
					cancel(err)
					return
				}
				out.Submits[i], out.IDs[i] = time.Since(begin), id
				pause(ctx, o.Every-time.Since(begin))
			}
		})
	}
	all.Wait()
	return out, context.Cause(ctx)
}

func stampedInput() []byte { return fmt.Appendf(nil, `{"at":%d}`, time.Now().UnixNano()) }

// pause waits, but no longer than ctx lasts.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// embedded submits as a program does that has the server in itself.
func (c *child) embedded(ctx context.Context, deployment string, input []byte) (string, error) {
	body := slices.Concat([]byte(`{"input":`), input, []byte("}"))
	out, err := c.app.Runtime.Submit(ctx, runtime.SubmitRequest{Deployment: deployment, Body: body, Input: input})
	return out.Record.Control.ID, err
}

// newHTTPClient keeps as many connections open as there are submitters.
func newHTTPClient(submitters int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: submitters, DisableCompression: true,
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}}
}

// overHTTP submits to servers in turns, as other programs do.
func overHTTP(client *http.Client, urls ...string) submitter {
	var turn atomic.Int64
	return func(ctx context.Context, deployment string, input []byte) (string, error) {
		at := urls[int(turn.Add(1))%len(urls)]
		body := slices.Concat([]byte(`{"input":`), input, []byte("}"))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/v1/deployments/"+deployment+"/executions", bytes.NewReader(body))
		if err != nil {
			return "", err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return "", err
		}
		if resp.StatusCode != http.StatusAccepted {
			return "", fmt.Errorf("a submission was answered with %d: %.200s", resp.StatusCode, text)
		}
		var accepted struct {
			ID string `json:"execution_id"`
		}
		return accepted.ID, json.Unmarshal(text, &accepted)
	}
}

// percentile of durations that are sorted, in milliseconds.
func percentile(sorted []time.Duration, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := min(int(float64(len(sorted))*p/100), len(sorted)-1)
	return float64(sorted[at]) / float64(time.Millisecond)
}
