package server_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/windrow-run/windrow/api/client"
	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/api/durable"
	"github.com/windrow-run/windrow/internal/config"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/server"
)

// Many executions over several partitions are canceled, resubmitted and erased, each once, in requests that are smaller than all of them.
func TestBulkOverPartitions(t *testing.T) {
	t.Parallel()
	const executions = 60
	c := config.Default()
	c.Redis, c.Prefix, c.Partitions, c.Auth = config.Secret(redistest.URL(t)), redistest.Prefix(t), 3, "none"
	c = c.Complete()
	log := slog.New(slog.DiscardHandler)
	kept, err := server.NewStore(c, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	wait := func(c durable.Context, _ struct{}) (int, error) {
		return 0, durable.Suspend[int](c, nil, durable.Wait{Message: "How many?"})
	}
	app, err := server.New(server.Params{Config: c, Store: kept, Logger: log, Embedded: true,
		Deployments: []durable.Deployment{durable.MustDefine("ask", "1", wait, nil)}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	host := httptest.NewServer(app.Handler())
	defer func() {
		host.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	api, err := client.New(host.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range executions {
		for {
			if _, err := api.Submit(ctx, "ask", struct{}{}, &client.SubmitOptions{Labels: map[string]string{"part": "bulk"}}); err == nil {
				break
			} else if ctx.Err() != nil {
				t.Fatal(err)
			}
		}
	}
	b := bulk{t, api, client.BulkOptions{Filter: client.ListOptions{Deployment: "ask"}, Limit: 25}}
	b.does(client.ActionCancel, executions)
	b.does(client.ActionCancel, 0)
	confirmation := b.does(client.ActionResubmit, executions)
	again := b.run(client.ActionResubmit, confirmation)
	if again.Done != 0 || again.Skipped["resubmitted"] != executions {
		t.Errorf("again: %+v", again)
	}
	b.does(client.ActionErase, 2*executions)
}

type bulk struct {
	*testing.T
	api  *client.Client
	opts client.BulkOptions
}

// does counts until so many are seen, and then does it to each of them.
func (b bulk) does(what client.Action, want int64) (confirmation string) {
	b.Helper()
	for total := int64(-1); total < want; {
		for got, err := range b.api.BulkDryRun(b.Context(), what, b.opts) {
			if err != nil {
				b.Fatal(err)
			}
			if got.Confirmation != nil {
				total, confirmation = got.Total, *got.Confirmation
			}
		}
	}
	if got := b.run(what, confirmation); got.Done != want || got.Total != want || got.Failed != 0 || len(got.Skipped) != 0 {
		b.Errorf("%s: %+v, want %d", what, got, want)
	}
	return confirmation
}

func (b bulk) run(what client.Action, confirmation string) contract.BulkAnswer {
	b.Helper()
	sum := contract.BulkAnswer{Skipped: map[string]int64{}}
	for got, err := range b.api.Bulk(b.Context(), what, b.opts, confirmation) {
		if err != nil {
			b.Fatal(err)
		}
		sum.Done, sum.Failed, sum.Total = sum.Done+got.Done, sum.Failed+got.Failed, got.Total
		for why, n := range got.Skipped {
			sum.Skipped[why] += n
		}
	}
	return sum
}
