package runtime

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/store"
)

// streams n chunks, numbered from 0, with a pause after each.
func streams(k *kit, n int, pause time.Duration) handler.Func {
	return func(ctx context.Context, a handler.Attempt) handler.Outcome {
		for i := range n {
			k.ok(a.Stream(fmt.Appendf(nil, "%d", i)))
			<-time.After(pause)
		}
		return handler.Completed{}
	}
}

// contiguous holds the chunks of an execution against 0 to n-1, each once and in order.
func (k *kit) contiguous(id string, n int) {
	k.Helper()
	var got, want []string
	for _, b := range k.chunks(id) {
		for i, c := range b.Chunks {
			if int64(i)+b.First != int64(len(got)) {
				k.Fatalf("chunk %d stands at place %d", int64(i)+b.First, len(got))
			}
			got = append(got, string(c))
		}
	}
	for i := range n {
		want = append(want, fmt.Sprint(i))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		k.Fatalf("chunks (-want +got):\n%s", diff)
	}
}

// The first chunk after silence leaves at once; then flushes keep their interval, and share it.
func TestFlushPace(t *testing.T) {
	inBubble(t, func(k *kit) {
		d := deploy(streams(k, 40, 25*time.Millisecond))
		d.Options.Slots = 2
		k.start(k.params(d))
		first, second := k.submit(), k.submit()
		synctest.Wait()
		if n := len(k.chunks(first)) + len(k.chunks(second)); n == 0 {
			k.Fatal("the first chunk waits")
		}
		k.pass(2 * time.Second)
		k.contiguous(first, 40)
		k.contiguous(second, 40)
		// A second of chunks every 100 ms for both, the first at once, and the last ones before each end.
		if n := k.store.count("beat"); n > 14 {
			k.Fatalf("%d flushes in a second, want about 10", n)
		}
	})
}

// A chunk waits for as many as follow within the interval, and for none after silence.
func TestChunksWaitForOthers(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(streams(k, 14, 30*time.Millisecond))))
		id := k.submit()
		k.pass(time.Second)
		k.is(id, execution.Completed)
		var sizes []int
		for _, b := range k.chunks(id) {
			sizes = append(sizes, len(b.Chunks))
		}
		if diff := cmp.Diff([]int{1, 4, 4, 4, 1}, sizes); diff != "" {
			k.Fatalf("chunks of each batch (-want +got):\n%s", diff)
		}
	})
}

// A flush whose outcome is unknown is repeated as it was: no chunk is lost, none is doubled.
func TestFlushRepeats(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string][]fault{
		"reply lost":   {lostReply},
		"request lost": {lostRequest},
		"hung":         {hung},
		"several":      {lostReply, lostRequest, lostReply},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(k *kit) {
				k.start(k.params(deploy(streams(k, 100, 50*time.Millisecond))))
				id := k.submit()
				k.store.next("beat", faults...)
				k.pass(20 * time.Second)
				k.is(id, execution.Completed)
				k.contiguous(id, 100)
			})
		})
	}
}

// What was streamed is in the log before the attempt leaves running, however soon that is.
func TestFlushBeforeEnd(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(streams(k, 5, 0))))
		id := k.submit()
		synctest.Wait()
		k.is(id, execution.Completed)
		k.contiguous(id, 5)
		entries := k.read(id).Log
		if last := entries[len(entries)-1]; last.Kind != execution.EntryEnd {
			k.Fatalf("the log ends with %q", last.Kind)
		}
	})
}

// Chunks are best effort: a log that can't be flushed does not keep the outcome from being committed.
func TestEndDoesNotWaitForChunks(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(streams(k, 5, 0))))
		k.store.every(lostRequest, "beat")
		id := k.submit()
		k.pass(time.Second)
		k.is(id, execution.Completed)
	})
}

// When a checkpoint is acknowledged, the log holds what was streamed before it: the next attempt begins behind it, and
// whoever follows would miss the rest for ever.
func TestCheckpointFollowsItsChunks(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(func(ctx context.Context, a handler.Attempt) handler.Outcome {
			for i := range 5 {
				k.ok(a.Stream(fmt.Appendf(nil, "%d", i)))
				<-time.After(time.Millisecond)
			}
			k.ok(a.Save(ctx, []byte(`1`)))
			n := 0
			for _, b := range k.chunks(a.Info().ID) {
				n += len(b.Chunks)
			}
			if n != 5 {
				k.Errorf("%d of 5 chunks are in the log after the checkpoint", n)
			}
			return handler.Completed{}
		})))
		id := k.submit()
		k.pass(time.Second)
		k.is(id, execution.Completed)
	})
}

// The author never waits for the store: what does not fit the buffer is dropped from its beginning, and numbers show the hole.
func TestBufferIsBounded(t *testing.T) {
	inBubble(t, func(k *kit) {
		p := k.params(deploy(func(ctx context.Context, a handler.Attempt) handler.Outcome {
			began := time.Now()
			k.ok(a.Stream([]byte("0")))
			<-time.After(time.Millisecond)
			for i := range 99 {
				k.ok(a.Stream(fmt.Appendf(nil, "%d", i+1)))
			}
			if time.Since(began) != time.Millisecond {
				k.Error("streaming waited")
			}
			<-time.After(5 * time.Second)
			return handler.Completed{}
		}))
		p.Settings.HistoryChunks = 10
		k.start(p)
		k.store.next("beat", hung)
		id := k.submit()
		k.pass(6 * time.Second)
		var got []int64
		for _, b := range k.chunks(id) {
			got = append(got, b.First, int64(len(b.Chunks)))
		}
		if diff := cmp.Diff([]int64{0, 1, 90, 10}, got); diff != "" {
			k.Fatalf("first number and count of each batch (-want +got):\n%s", diff)
		}
	})
}

// A log that can't be written costs its chunks and nothing else.
func TestBrokenLog(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(streams(k, 3, 20*time.Second))))
		k.store.brokenLog = true
		id := k.submit()
		k.pass(time.Minute)
		if c := k.is(id, execution.Completed); c.Attempt != 1 {
			k.Fatalf("attempt %d, want 1", c.Attempt)
		}
	})
}

// A deployment may keep no chunks.
func TestDropChunks(t *testing.T) {
	inBubble(t, func(k *kit) {
		d := deploy(streams(k, 5, time.Second))
		d.Options.DropChunks = true
		k.start(k.params(d))
		id := k.submit()
		k.pass(6 * time.Second)
		k.is(id, execution.Completed)
		if len(k.chunks(id)) != 0 || k.store.count("beat") != 0 {
			k.Fatal("chunks were kept")
		}
	})
}

// Renewals ride on flushes: while chunks flow no exchange is spent on a lease.
func TestRenewalsRide(t *testing.T) {
	inBubble(t, func(k *kit) {
		k.start(k.params(deploy(streams(k, 120, time.Second))))
		id := k.submit()
		k.pass(2*time.Minute + time.Second)
		k.is(id, execution.Completed)
		if n := k.store.count("beat"); n > 121 {
			k.Fatalf("%d beats for 120 flushes", n)
		}
		renewals := 0
		for _, b := range k.store.beats {
			if b.Lease > 0 {
				renewals++
			}
		}
		if renewals < 12 || renewals > 25 {
			k.Fatalf("%d renewals in two minutes, want one every 5 to 10 s", renewals)
		}
	})
}

// Leases of different attempts come to be renewed together.
func TestRenewalsTravelTogether(t *testing.T) {
	inBubble(t, func(k *kit) {
		d := deploy(untilStopped(make(chan error, 4)))
		d.Options.Slots = 4
		k.start(k.params(d))
		for range 4 {
			k.submit()
			k.pass(time.Second)
		}
		before := k.store.count("beat")
		k.pass(time.Minute)
		if n := k.store.count("beat") - before; n > 8 {
			k.Fatalf("%d beats a minute for four leases, want about 6", n)
		}
	})
}

// weighing fails what is too heavy, as an exchange does that does not arrive in time.
type weighing struct{ store.Store }

func (w weighing) Beat(ctx context.Context, beats []store.Beat) ([]store.Beaten, error) {
	bytes := 0
	for _, b := range beats {
		if b.Chunks != nil {
			bytes += b.Chunks.Size()
		}
	}
	if bytes > flushBytes {
		return nil, execution.Errorf(execution.CodeUnavailable, "%d bytes are too much", bytes)
	}
	return w.Store.Beat(ctx, beats)
}

// However much sessions stream, each exchange stays small enough to arrive: nobody loses a lease, and each session's chunks
// find room.
func TestFlushIsBounded(t *testing.T) {
	inBubble(t, func(k *kit) {
		chunk := []byte(`"` + strings.Repeat("x", 50_000) + `"`)
		d := deploy(func(_ context.Context, a handler.Attempt) handler.Outcome {
			for range 300 { // more a second than exchanges carry, over three leases
				k.ok(a.Stream(chunk))
				<-time.After(20 * time.Millisecond)
			}
			return handler.Completed{}
		})
		d.Options.Slots, d.Options.Lease = 10, 2*time.Second
		p := k.params(d)
		p.Store = weighing{k.store}
		k.start(p)
		var ids []string
		for range d.Options.Slots {
			ids = append(ids, k.submit())
		}
		k.pass(20 * time.Second)
		for _, id := range ids {
			if c := k.is(id, execution.Completed); c.Attempt != 1 {
				k.Errorf("it took %d attempts", c.Attempt)
			}
			if len(k.chunks(id)) == 0 {
				k.Error("the log has none of its chunks")
			}
		}
	})
}
