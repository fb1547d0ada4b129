package faultkit

import (
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/redistest"
)

// Redis does to a server of the test's own what operators and accidents do.
type Redis struct {
	t      testing.TB
	server *redistest.Server
}

// NewRedis makes faults for the server.
func NewRedis(tb testing.TB, server *redistest.Server) *Redis {
	tb.Helper()
	return &Redis{tb, server}
}

// Restart kills the server and starts it again. It keeps what its options say.
func (r *Redis) Restart() {
	r.t.Helper()
	r.server.Restart()
}

// Pause has the server answer no client, or none that writes, for that long: CLIENT PAUSE.
func (r *Redis) Pause(d time.Duration, writesOnly bool) {
	r.t.Helper()
	mode := "ALL"
	if writesOnly {
		mode = "WRITE"
	}
	r.do("CLIENT", "PAUSE", d.Milliseconds(), mode)
}

// KillClients closes the connections of all other clients that are no replicas.
func (r *Redis) KillClients() {
	r.t.Helper()
	r.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	r.do("CLIENT", "KILL", "TYPE", "pubsub")
}

// Full leaves the server no memory; false: as much as it likes.
func (r *Redis) Full(full bool) {
	r.t.Helper()
	limit := "0"
	if full {
		limit = "1"
	}
	r.do("CONFIG", "SET", "maxmemory", limit)
}

// WrongType puts a stream in place of a key, which the store has for logs alone; a string in place of a stream.
func (r *Redis) WrongType(key string) {
	r.t.Helper()
	kind := r.server.Client().Type(r.t.Context(), key).Val()
	r.Delete(key)
	if kind == "stream" {
		r.do("SET", key, "wrong")
	} else {
		r.do("XADD", key, "*", "wrong", "type")
	}
}

// Delete takes keys away.
func (r *Redis) Delete(keys ...string) {
	r.t.Helper()
	args := []any{"DEL"}
	for _, key := range keys {
		args = append(args, key)
	}
	r.do(args...)
}

// ForgetScripts makes the server forget all scripts.
func (r *Redis) ForgetScripts() {
	r.t.Helper()
	r.do("SCRIPT", "FLUSH")
}

func (r *Redis) do(args ...any) {
	r.t.Helper()
	if err := r.server.Client().Do(r.t.Context(), args...).Err(); err != nil {
		r.t.Fatalf("%v: %v", args[0], err)
	}
}
