package redis

import (
	"context"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/execution"
)

// Ack says where a change must have arrived before it counts as made. The zero value asks for nothing beyond the server that
// carries it out. Submissions, owned transitions, answers and cancel requests wait; polls, beats and maintenance do not, since
// nothing that they change is promised to anybody.
type Ack struct {
	Replicas int           // as many replicas; 0: none
	Fsync    bool          // the disk of the server's append-only file; not together with Replicas
	Timeout  time.Duration // of the wait, below that of a reply; default 2 s
}

const ackTimeout = 2 * time.Second

func (a Ack) waits() bool { return a.Replicas > 0 || a.Fsync }

func (a Ack) validate(reply time.Duration) error {
	switch {
	case a.Replicas < 0:
		return fmt.Errorf("acknowledgement: %d replicas are below 0", a.Replicas)
	case a.Replicas > 0 && a.Fsync:
		return fmt.Errorf("acknowledgement: it is either by replicas or by the append-only file")
	case a.waits() && (a.Timeout < time.Millisecond || a.Timeout >= reply):
		return fmt.Errorf("acknowledgement: the wait of %s is not between 1 ms and the %s that a reply may take: lower it", a.Timeout, reply)
	}
	return nil
}

// command is the wait for everything that was written over the same connection before. It ends while there is time left in
// ctx to read its reply, and never asks for a wait of 0, which would be one without end.
func (a Ack) command(ctx context.Context) once {
	wait := a.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)*5/6)
	}
	ms := max(wait.Milliseconds(), 1)
	if a.Fsync {
		return once{goredis.NewCmd(ctx, "WAITAOF", 1, 0, ms)}
	}
	return once{goredis.NewCmd(ctx, "WAIT", a.Replicas, ms)}
}

// missed is an error of CodeUnconfirmed where the reply to command is not that the change has arrived.
func (a Ack) missed(reply any, err error) error {
	const message = "the change was not acknowledged in time: it may or may not last"
	if err != nil {
		return &execution.Error{Code: execution.CodeUnconfirmed, Message: message, Err: err}
	}
	want := int64(max(a.Replicas, 1))
	got, ok := reply.(int64)
	if list, isList := reply.([]any); isList && a.Fsync && len(list) > 0 {
		got, ok = list[0].(int64)
	}
	if ok && got >= want {
		return nil
	}
	return &execution.Error{Code: execution.CodeUnconfirmed, Message: message, Err: fmt.Errorf("%v of %d acknowledged it", reply, want)}
}

// change makes one call whose effect is acknowledged as the configuration asks for, in the same exchange. What the script
// refuses is refused, whatever became of the wait: see [acknowledged].
func (s *Store) change(ctx context.Context, sc script, partition int, args ...any) reply {
	c := call{script: sc, anchor: s.keys.anchor(partition), args: args, acked: s.config.Ack.waits()}
	return s.exchange(ctx, c)[0]
}

// shared is a change that shares its exchange with those of other callers, but where it waits for an acknowledgement: that speaks
// of what its own connection has written.
func (s *Store) shared(ctx context.Context, l *lane, pack func(head *packer, at int), data []any) reply {
	if !s.config.Ack.waits() {
		return l.do(ctx, pack, data)
	}
	var head packer
	pack(head.array(l.each), 2)
	c := call{script: *l.script, anchor: l.anchor, args: append([]any{head.bytes()}, data...), acked: true}
	r := s.exchange(ctx, c)[0]
	parts, err := partsOf(r, 1)
	if err != nil {
		return reply{err: err}
	}
	out := s.part(parts[0])
	out.missed = r.missed
	return out
}

// acknowledged is a decoded reply with its error, or that of the wait where there is none.
func acknowledged[T any](r reply, out T, err error) (T, error) {
	if err == nil && r.missed != nil {
		var none T
		return none, r.missed
	}
	return out, err
}

// processAcked leaves the replies to a call and to its wait in the commands. Both go over one connection to the server that
// holds the key, since a wait speaks of its own connection only, and names no key by which a cluster would route it.
func (s *Store) processAcked(ctx context.Context, key string, commands []once) {
	node, err := s.node(ctx, key)
	if err != nil {
		for _, c := range commands {
			c.SetErr(err)
		}
		return
	}
	pipelined(ctx, node.Pipeline(), commands)
}

// relocated reports whether a call has not run because another server of a cluster holds its partition, and looks that up anew.
func (s *Store) relocated(ctx context.Context, c call, r reply) bool {
	many, ok := s.client.(*goredis.ClusterClient)
	if !ok || !c.acked || !isReply(r.err, "MOVED ") {
		return false
	}
	known := func(context.Context, *goredis.Client) error { return nil }
	return many.ForEachMaster(ctx, known) == nil // it asks the cluster for its slots first
}

// checkAck refuses a server that could never acknowledge what is asked for.
func (s *Store) checkAck(info map[string]string) error {
	a := s.config.Ack
	switch online := onlineReplicas(info); {
	case online < a.Replicas:
		return fmt.Errorf("--ack (WINDROW_ACK): replicas=%d, and Redis has %d online: connect more replicas, or ask for fewer", a.Replicas, online)
	case a.Fsync && !hasWaitAOF(info):
		return fmt.Errorf("--ack (WINDROW_ACK): fsync needs Redis 7.2 or Valkey, and the server is Redis %s: upgrade it, or ask for primary or replicas=1",
			info["redis_version"])
	case a.Fsync && info["aof_enabled"] != "1":
		return fmt.Errorf("--ack (WINDROW_ACK): fsync needs the append-only file, and appendonly of Redis is off: set appendonly to yes, or ask for primary")
	}
	return nil
}

func hasWaitAOF(info map[string]string) bool {
	if _, valkey := info["valkey_version"]; valkey {
		return true // as of 7.2, the oldest that is accepted
	}
	major, minor := majorMinor(info["redis_version"])
	return major > 7 || major == 7 && minor >= 2
}

func onlineReplicas(info map[string]string) (n int) {
	for name, value := range info {
		if strings.HasPrefix(name, "slave") && strings.Contains(value, "state=online") {
			n++
		}
	}
	return n
}
