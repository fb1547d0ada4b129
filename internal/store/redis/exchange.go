package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/windrow-run/windrow/internal/execution"
)

// call is one run of a script on a partition.
type call struct {
	script script
	anchor string // KEYS[1]
	args   []any
	acked  bool // it waits for its acknowledgement; such a call goes alone
}

// reply is what a call returned. The error is an [execution.Error].
type reply struct {
	value  any
	err    error
	missed error // the call ran, and was not acknowledged
}

// outcome is the reply as it is counted.
func (r reply) outcome() string {
	switch {
	case isUnknownScript(r.err):
		return "noscript"
	case r.err != nil:
		return string(execution.CodeOf(r.err))
	case r.missed != nil:
		return string(execution.CodeUnconfirmed)
	}
	return "ok"
}

// once is a command that the client must not send again by itself, also on a cluster, where it would after an error of the
// network: the first one may have been carried out.
type once struct{ *goredis.Cmd }

// NoRetry tells the client so.
func (once) NoRetry() bool { return true }

// Clone keeps the mark on a copy.
func (c once) Clone() goredis.Cmder { return once{c.Cmd.Clone().(*goredis.Cmd)} }

// command is the call by the script's digest, or by its text.
func (c call) command(ctx context.Context, whole bool) once {
	args := make([]any, 0, 4+len(c.args))
	if whole {
		args = append(args, "EVAL", c.script.source)
	} else {
		args = append(args, "EVALSHA", c.script.sha)
	}
	args = append(append(args, 1, c.anchor), c.args...)
	return once{goredis.NewCmd(ctx, args...)}
}

// run makes one call.
func (s *Store) run(ctx context.Context, sc script, partition int, args ...any) (any, error) {
	replies := s.exchange(ctx, call{script: sc, anchor: s.keys.anchor(partition), args: args})
	return replies[0].value, replies[0].err
}

// exchange makes calls, all in one exchange where they go to the same server. Those whose script the server did not know
// have not run, and are made once more with its text.
func (s *Store) exchange(ctx context.Context, calls ...call) []reply {
	if err := s.usable(ctx); err != nil {
		return failAll(len(calls), err)
	}
	known := func(int) bool { return false }
	replies := s.send(ctx, calls, known)
	if s.relocated(ctx, calls[0], replies[0]) {
		replies = s.send(ctx, calls, known)
	}
	var unknown []int
	for i, r := range replies {
		if isUnknownScript(r.err) {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) == 0 {
		return replies
	}
	again := make([]call, len(unknown))
	for i, at := range unknown {
		again[i] = calls[at]
	}
	for i, r := range s.send(ctx, again, firstOf(again)) {
		replies[unknown[i]] = r
	}
	return replies
}

// isUnknownScript reports whether nothing ran because the server does not know the script.
func isUnknownScript(err error) bool { return isReply(err, "NOSCRIPT ") }

// isReply reports whether a server said the word instead of running anything. It begins the reply: where it stands elsewhere a
// script may have said it, and run.
func isReply(err error, word string) bool {
	var said goredis.Error
	return errors.As(err, &said) && strings.HasPrefix(said.Error(), word)
}

// firstOf tells which calls are the first of their script on their partition: those carry its text, the rest its digest.
func firstOf(calls []call) func(int) bool {
	first := make([]bool, len(calls))
	seen := map[[2]string]bool{}
	for i, c := range calls {
		k := [2]string{c.script.sha, c.anchor}
		first[i] = !seen[k]
		seen[k] = true
	}
	return func(i int) bool { return first[i] }
}

func failAll(n int, err error) []reply {
	out := make([]reply, n)
	for i := range out {
		out[i].err = err
	}
	return out
}

// send sends the calls and waits for their replies.
func (s *Store) send(ctx context.Context, calls []call, whole func(int) bool) []reply {
	start := time.Now()
	commands := make([]once, 0, len(calls)+1)
	for i, c := range calls {
		commands = append(commands, c.command(ctx, whole(i)))
	}
	process := s.process
	if calls[0].acked {
		commands = append(commands, s.config.Ack.command(ctx))
		process = func(ctx context.Context, commands []once) { s.processAcked(ctx, calls[0].anchor, commands) }
	}
	var out []reply
	if err := s.await(ctx, func() { process(ctx, commands) }); err != nil {
		out = failAll(len(calls), s.failed(err))
	} else {
		out = s.results(ctx, calls, commands)
	}
	s.standing.saw(calls, out, start)
	s.observe(calls[0].script.name, len(commands), out, time.Since(start))
	return out
}

// results reads the replies from the commands.
func (s *Store) results(ctx context.Context, calls []call, commands []once) []reply {
	out := make([]reply, len(calls))
	for i := range calls {
		v, err := commands[i].Result()
		out[i] = reply{value: v, err: s.failed(blame(ctx, err))}
	}
	if calls[0].acked && out[0].err == nil {
		out[0].missed = s.config.Ack.missed(commands[1].Result())
	}
	return out
}

// blame says that ctx has ended where its deadline is why the client gave up, which it reports as its own timeout.
func blame(ctx context.Context, err error) error {
	if deadline, ok := ctx.Deadline(); ok && isTimeout(err) && !time.Now().Before(deadline) {
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return err
}

// process leaves the replies in the commands.
func (s *Store) process(ctx context.Context, commands []once) {
	if len(commands) == 1 {
		_ = s.client.Process(ctx, commands[0]) // the command has its error
		return
	}
	pipelined(ctx, s.client.Pipeline(), commands)
}

// pipelined sends the commands together. Each has its error.
func pipelined(ctx context.Context, pipe goredis.Pipeliner, commands []once) {
	for _, c := range commands {
		_ = pipe.Process(ctx, c) // it only queues
	}
	_, _ = pipe.Exec(ctx) // that of one of the commands
}

// await runs f, but waits no longer than ctx lasts: the client itself minds a deadline, and no cancellation.
func (s *Store) await(ctx context.Context, f func()) error {
	if ctx.Done() == nil {
		f()
		return nil
	}
	if !s.enter() {
		return unavailable(goredis.ErrClosed)
	}
	done := make(chan struct{})
	go func() {
		defer s.calls.Done()
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
}

// observe reports an exchange, by the script of its first call and its first failure.
func (s *Store) observe(name string, commands int, replies []reply, d time.Duration) {
	if s.config.Observe == nil {
		return
	}
	outcome := "ok"
	for i := 0; i < len(replies) && outcome == "ok"; i++ {
		outcome = replies[i].outcome()
	}
	s.config.Observe(name, 1, commands, d, outcome)
}
