package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/faultkit"
	"github.com/windrow-run/windrow/internal/redistest"
	"github.com/windrow-run/windrow/internal/store/redis"
)

// A server that pauses its clients, or only those that write, is waited for, and serves the same connections afterwards.
func TestPausedServer(t *testing.T) {
	t.Parallel()
	for _, writesOnly := range []bool{false, true} {
		server := redistest.Private(t, redistest.Options{})
		k := openKit(t, redis.Config{URL: server.URL(), Prefix: "pause"})
		faults := faultkit.NewRedis(t, server)
		c := k.start()
		faults.Pause(300*time.Millisecond, writesOnly)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		k.refused(k.store.Check(ctx), execution.CodeUnavailable)
		cancel()
		began := time.Now()
		c = k.checkpoint(c)
		if d := time.Since(began); d < 100*time.Millisecond {
			t.Errorf("a write went through after %v", d)
		}
		k.complete(c)
	}
}

// A server that is busy with a script of somebody else refuses, having changed nothing, until that script is over.
func TestBusyServer(t *testing.T) {
	t.Parallel()
	server := redistest.Private(t, redistest.Options{Args: []string{"--lua-time-limit", "20"}})
	k := openKit(t, redis.Config{URL: server.URL(), Prefix: "busy"})
	c := k.start()
	client := server.Client()
	done := make(chan error, 1)
	go func() { done <- client.Eval(context.Background(), "while true do end", nil).Err() }()
	for client.Ping(t.Context()).Err() == nil {
		continue // until the script runs, and for too long
	}
	_, err := k.store.Transition(t.Context(), c, execution.Complete{Owned: k.owned(c), Result: []byte("1")})
	k.refused(err, execution.CodeUnavailable)
	k.ok(client.Do(t.Context(), "SCRIPT", "KILL").Err())
	if err := <-done; err == nil {
		t.Error("the script ended by itself")
	}
	k.complete(c)
}
