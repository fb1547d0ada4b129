package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/faultkit"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/store"
	"github.com/windrow-run/windrow/internal/stream"
)

// hub is one of the test's own process, whose way to Redis is the URL.
func (c *crew) hub(url string) *stream.Hub {
	c.Helper()
	h, err := stream.New(stream.Params{Store: c.open(url)})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(h.Close)
	return h
}

func feedOf(h *stream.Hub) func(string, int64) runtime.Feed {
	return func(id string, attempt int64) runtime.Feed { return h.Feed(id, attempt) }
}

// told is all that the log of an execution tells a viewer, each with its cursor. A viewer that is cut comes back.
func told(ctx context.Context, h *stream.Hub, id string) (lines []string, err error) {
	cursor := ""
	for ctx.Err() == nil {
		v, err := h.Subscribe(ctx, stream.Request{ID: id, Scope: store.Scope{All: true}, Cursor: cursor})
		if errors.Is(err, stream.ErrNothingMore) {
			return lines, nil
		}
		if err != nil {
			continue // until the store answers
		}
		for {
			e, err := v.Next(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				v.Close()
				return lines, err
			}
			at, placed := e.Cursor()
			if _, opened := e.(*stream.Opened); opened || !placed {
				continue
			}
			cursor = at.String()
			switch e := e.(type) {
			case *stream.Chunk:
				lines = append(lines, fmt.Sprintf("%s chunk %d %s", cursor, e.Attempt, e.Payload))
			case *stream.Progress:
				lines = append(lines, fmt.Sprintf("%s progress %s", cursor, e.Data))
			case *stream.Status:
				if !at.Entry.IsZero() {
					lines = append(lines, fmt.Sprintf("%s %s %d %d", cursor, e.Status, e.Attempt, e.Version))
				}
			case *stream.End:
				v.Close()
				return append(lines, fmt.Sprintf("%s %s %s", cursor, e.Record.Control.Status, e.Record.Result)), nil
			case *stream.Gap:
				lines = append(lines, "gap")
			}
		}
		v.Close()
	}
	return lines, ctx.Err()
}

// talkative says some chunks, reports, and saves what it did, as often as that.
func talkative(turns int, pause time.Duration) handler.Func {
	return func(ctx context.Context, a handler.Attempt) handler.Outcome {
		for turn := range turns {
			for n := range 5 {
				if err := a.Stream(strconv.AppendInt(nil, int64(turn*5+n), 10)); err != nil {
					return handler.Failed{Cause: err}
				}
			}
			if err := a.Report(ctx, "turn", strconv.Itoa(turn), nil, turn%2 == 0); err != nil {
				return handler.Failed{Cause: err}
			}
			if err := a.Save(ctx, fmt.Appendf(nil, `"%s %d %d"`, a.Info().ID, a.Info().Number, turn)); err != nil {
				return handler.Failed{Cause: err}
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return handler.Stopped{}
			}
		}
		return handler.Completed{Result: []byte(`1`)}
	}
}

// Viewers in the worker's process, joined at any time, are told what those elsewhere are told, to the byte, while one exchange in
// ten of the worker's process is cut.
func TestFeedAsElsewhere(t *testing.T) {
	t.Parallel()
	ctx := within(t, 3*time.Minute)
	url := redistest.URL(t)
	proxy := faultkit.NewProxy(t, url, nil)
	c := newCrew(t, url, redistest.Prefix(t))
	near, far := c.hub(proxy.URL()), c.hub(url)
	rt := c.joinFeeding(proxy.URL(), 30*time.Second, talkative(12, 60*time.Millisecond), feedOf(near))
	proxy.Break(faultkit.Rate(5, 0.1, faultkit.Cuts()))
	compareHubs(ctx, c, rt, near, far, nil)
	if proxy.Broken() == 0 {
		t.Error("nothing was cut")
	}
	t.Logf("figures: %d exchanges were cut", proxy.Broken())
}

// The same where the worker loses its way to Redis until others have taken its work over: those who follow in its process are
// told of that too.
func TestFeedAfterTakeover(t *testing.T) {
	t.Parallel()
	ctx := within(t, 3*time.Minute)
	url := redistest.URL(t)
	network := faultkit.NewNetwork(t, url)
	c := newCrew(t, url, redistest.Prefix(t))
	near, far := c.hub(url), c.hub(url)
	const lease = 2 * time.Second
	rt := c.joinFeeding(network.URL(), lease, talkative(60, 50*time.Millisecond), feedOf(near))
	var lost int64
	for _, r := range compareHubs(ctx, c, rt, near, far, func() {
		c.join(url, lease, talkative(5, 20*time.Millisecond))
		<-time.After(300 * time.Millisecond) // into the middle of the work
		network.Down()
	}) {
		lost += r.Control.LostLeases
	}
	if lost == 0 {
		t.Error("no lease was lost, so that nothing was proved")
	}
}

// A viewer in the worker's process costs no exchange for what is told between its coming and the end, however much that is: only
// those that the work costs by itself.
func TestBudgetFeed(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	server := redistest.Private(t, redistest.Options{})
	c := newCrew(t, server.URL(), "feed")
	near := c.hub(server.URL())
	const turns = 30
	begin := make(chan struct{})
	run := talkative(turns, 20*time.Millisecond)
	rt := c.joinFeeding(server.URL(), 30*time.Second, func(ctx context.Context, a handler.Attempt) handler.Outcome {
		<-begin
		return run.Run(ctx, a)
	}, feedOf(near))
	id := c.submit(rt, "key")
	v, err := near.Subscribe(ctx, stream.Request{ID: id, Scope: store.Scope{All: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	close(begin)
	events, reads := 0, int64(0)
	for {
		_, err := v.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if events++; events == 20 {
			reads = calls(t, ctx, server, "xread") + calls(t, ctx, server, "xrange")
		}
	}
	// The terminal event shows the whole execution, for which it is read once.
	if more := calls(t, ctx, server, "xread") + calls(t, ctx, server, "xrange") - reads; more > 1 || events < 6*turns {
		t.Errorf("the log was read %d times for %d events, at most once", more, events)
	}
}

// calls is how often the server has carried a command out.
func calls(t *testing.T, ctx context.Context, server *redistest.Server, command string) int64 {
	t.Helper()
	stats, err := server.Client().InfoMap(ctx, "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	_, _ = fmt.Sscanf(stats["Commandstats"]["cmdstat_"+command], "calls=%d,", &n) // one that was never called has no line
	return n
}

// compareHubs follows ten executions from both hubs, from before their first claim and from later on.
func compareHubs(ctx context.Context, c *crew, rt *runtime.Runtime, near, far *stream.Hub, meanwhile func()) []store.Record {
	c.Helper()
	var all sync.WaitGroup
	var ids []string
	for n := range 10 {
		id := c.submit(rt, fmt.Sprint("key", n))
		ids = append(ids, id)
		var want []string
		var there sync.WaitGroup
		there.Go(func() {
			var err error
			if want, err = told(ctx, far, id); err != nil {
				c.Errorf("a viewer elsewhere: %v", err)
			}
		})
		for range 3 {
			late := time.Duration(rand.IntN(700)) * time.Millisecond
			all.Go(func() {
				<-time.After(late)
				got, err := told(ctx, near, id)
				there.Wait()
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					c.Errorf("a viewer that came after %v: %v (-elsewhere +here):\n%s", late, err, diff)
				}
			})
		}
	}
	if meanwhile != nil {
		meanwhile()
	}
	all.Wait()
	records := c.ended(ctx, ids)
	c.verify()
	return records
}
