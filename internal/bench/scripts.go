package bench

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/store"
)

const (
	scriptRatio      = 50 // % of what pipelines reach
	scriptPairs      = 3
	scriptDepth      = 16 // commands of a pipeline that are under way
	scriptPipelines  = 8
	scriptSubmitters = 64
	scriptLease      = time.Hour // nobody renews it
)

// scriptRate compares what a run of noop gets done with what pipelines reach that submit, claim and complete, in turns. The server
// carries several changes of concurrent callers out in one script; the pipelines send one each, so that executions are compared and
// not scripts.
func (r *run) scriptRate(ctx context.Context, name string) error {
	batch := cmp.Or(r.Slots, scriptDepth) // as many at once as in a pipeline
	for range scriptPairs {
		ours, err := r.noopRate(ctx, batch)
		if err != nil {
			return err
		}
		if err := r.redis.empty(ctx); err != nil {
			return err
		}
		rates, err := r.pipelined(ctx, batch)
		if err != nil {
			return err
		}
		if err := r.redis.empty(ctx); err != nil {
			return err
		}
		possible := 1 / (1/rates.submit + 1/(rates.poll*float64(batch)) + 1/rates.apply)
		r.report.add(name, timed("executions", "/s", ours, 0), timed("pipelined", "/s", possible, 0),
			timed("pipelined: submit", "/s", rates.submit, 0), timed("pipelined: poll", "/s", rates.poll, 0), timed("pipelined: apply", "/s", rates.apply, 0),
			atLeast("of pipelined", 100*ours/possible, scriptRatio))
	}
	return nil
}

// perScript has something for each script of an execution that does nothing.
type perScript struct{ submit, poll, apply float64 }

// noopRate is how many executions a second a run of noop comes to.
func (r *run) noopRate(ctx context.Context, slots int) (float64, error) {
	f, err := r.fleet(ctx, 1, serveOrder{Redis: r.redis.url, Slots: slots, Tell: true})
	if err != nil {
		return 0, err
	}
	defer f.stop()
	c := throughputCase{kind: workNoop, submitters: scriptSubmitters}
	if _, err := f.load(ctx, c, r.Count/2); err != nil {
		return 0, err
	}
	l, err := f.load(ctx, c, r.Count)
	return l.rate(), err
}

// pipelined is how many of each script a second pipelines reach. The commands are made by the store itself, kept from the server
// until all are there, and then sent.
func (r *run) pipelined(ctx context.Context, batch int) (rates perScript, err error) {
	kept, err := openStore(ctx, r.redis.url, r.redis.prefix, 1)
	if err != nil {
		return rates, err
	}
	defer func() { _ = kept.Close() }() // nothing is under way
	if err := r.warm(ctx, kept); err != nil {
		return rates, err
	}
	trap, err := newTrap(ctx, r.redis)
	if err != nil {
		return rates, err
	}
	defer trap.close()
	captive, err := openStore(ctx, trap.url, r.redis.prefix, 1)
	if err != nil {
		return rates, err
	}
	defer func() { _ = captive.Close() }()
	n := max(r.Count, 1000)
	submit := intoStore(captive, nil)
	rates.submit, err = trap.rate(ctx, n, func(int) {
		_, _ = submit(ctx, workNoop, stampedInput()) // it is told that it failed
	})
	if err != nil {
		return rates, err
	}
	polls := make([]store.PollRequest, n/batch)
	for i := range polls {
		polls[i] = pollFor(workNoop, batch)
	}
	rates.poll, err = trap.rate(ctx, len(polls), func(i int) {
		_, _ = captive.Poll(ctx, polls[i]) // the same
	})
	if err != nil {
		return rates, err
	}
	var claimed []store.Claimed
	for _, p := range polls { // asked again, with the same token, it is the same batch
		out, err := kept.Poll(ctx, p)
		if err != nil {
			return rates, err
		}
		claimed = append(claimed, out.Claimed...)
	}
	if len(claimed) < len(polls)*batch {
		return rates, fmt.Errorf("%d executions were claimed of %d", len(claimed), len(polls)*batch)
	}
	rates.apply, err = trap.rate(ctx, len(claimed), func(i int) {
		_, _ = captive.Transition(ctx, claimed[i].Control, completion(claimed[i].Control)) // the same
	})
	if err != nil {
		return rates, err
	}
	counts, err := kept.Counts(ctx)
	if err == nil && counts.Leases > 0 {
		err = fmt.Errorf("%d executions were not completed", counts.Leases)
	}
	return rates, err
}

func pollFor(kind string, batch int) store.PollRequest {
	return store.PollRequest{Worker: rand.Text(), Token: rand.Text(), Number: 1, Revisions: []store.Want{
		{Revision: store.Revision{Deployment: kind, Revision: "1"}, Count: batch, Lease: scriptLease}}}
}

func completion(c execution.Control) execution.Complete {
	return execution.Complete{Owned: execution.Owned{Operation: rand.Text(),
		Ownership: execution.Ownership{Worker: c.Worker, Token: c.Token, Fence: c.Fence}}, Result: []byte("{}")}
}

// warm makes the server know the scripts.
func (r *run) warm(ctx context.Context, kept store.Store) error {
	if _, err := intoStore(kept, nil)(ctx, workNoop, stampedInput()); err != nil {
		return err
	}
	out, err := kept.Poll(ctx, pollFor(workNoop, 1))
	if err != nil {
		return err
	}
	for _, c := range out.Claimed {
		if _, err := kept.Transition(ctx, c.Control, completion(c.Control)); err != nil {
			return err
		}
	}
	return nil
}

// trap stands before the server, and keeps scripts from it while it is set.
type trap struct {
	url      string
	server   *redisServer
	listener net.Listener
	all      sync.WaitGroup

	mu    sync.Mutex // guards the following
	set   bool
	kept  [][]byte // commands as they were sent
	conns []net.Conn
}

func newTrap(ctx context.Context, server *redisServer) (*trap, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &trap{server: server, listener: l, url: server.urlAt("redis", l.Addr().String())}
	t.all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			t.all.Go(func() { t.join(ctx, conn) })
		}
	})
	return t, nil
}

func (t *trap) close() {
	_ = t.listener.Close()
	t.mu.Lock()
	for _, c := range t.conns {
		_ = c.Close()
	}
	t.mu.Unlock()
	t.all.Wait()
}

// join is the life of a connection whose client sends one command at a time, and waits for its reply.
func (t *trap) join(ctx context.Context, client net.Conn) {
	defer client.Close()
	server, err := t.server.dial(ctx)
	if err != nil {
		return // the client sees its connection end
	}
	defer server.Close()
	t.mu.Lock()
	t.conns = append(t.conns, client, server)
	t.mu.Unlock()
	commands, replies := bufio.NewReader(client), bufio.NewReader(server)
	for {
		command, err := readValue(commands)
		if err != nil {
			return
		}
		if t.keeps(command) {
			if _, err := io.WriteString(client, "-ERR kept from the server\r\n"); err != nil {
				return
			}
			continue
		}
		if _, err := server.Write(command); err != nil {
			return
		}
		reply, err := readValue(replies)
		if err != nil {
			return
		}
		if _, err := client.Write(reply); err != nil {
			return
		}
	}
}

func (t *trap) keeps(command []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.set || !strings.Contains(string(command[:min(len(command), 24)]), "\r\nEVALSHA\r\n") {
		return false
	}
	t.kept = append(t.kept, command)
	return true
}

// rate catches the n commands that send has the store send, sends them over some pipelines, and returns how many a second were answered.
func (t *trap) rate(ctx context.Context, n int, send func(i int)) (float64, error) {
	t.mu.Lock()
	t.set, t.kept = true, nil
	t.mu.Unlock()
	for i := range n {
		send(i)
	}
	t.mu.Lock()
	t.set = false
	kept := t.kept
	t.mu.Unlock()
	if len(kept) != n {
		return 0, fmt.Errorf("%d commands were sent where %d were expected", len(kept), n)
	}
	errs := [scriptPipelines]error{}
	var all sync.WaitGroup
	begin := time.Now()
	for i := range scriptPipelines {
		all.Go(func() { errs[i] = t.pipeline(ctx, kept[n*i/scriptPipelines:n*(i+1)/scriptPipelines]) })
	}
	all.Wait()
	return float64(n) / time.Since(begin).Seconds(), errors.Join(errs[:]...)
}

// pipeline sends commands so many at once, over a connection of its own.
func (t *trap) pipeline(ctx context.Context, commands [][]byte) error {
	conn, err := t.server.login(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	replies := bufio.NewReader(conn)
	for len(commands) > 0 {
		n := min(scriptDepth, len(commands))
		var together []byte
		for _, c := range commands[:n] {
			together = append(together, c...)
		}
		if _, err := conn.Write(together); err != nil {
			return err
		}
		for range n {
			reply, err := readValue(replies)
			if err != nil {
				return err
			}
			if reply[0] == '-' {
				return fmt.Errorf("redis: %.200s", reply)
			}
		}
		commands = commands[n:]
	}
	return nil
}

// readValue reads one command or reply of the second version of the protocol, and returns its bytes.
func readValue(r *bufio.Reader) ([]byte, error) {
	raw, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	if raw[0] != '$' && raw[0] != '*' {
		return raw, nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(raw[1:])))
	if err != nil || n < 0 {
		return raw, err
	}
	if raw[0] == '$' {
		head := len(raw)
		raw = append(raw, make([]byte, n+len("\r\n"))...)
		_, err := io.ReadFull(r, raw[head:])
		return raw, err
	}
	for range n {
		one, err := readValue(r)
		if err != nil {
			return nil, err
		}
		raw = append(raw, one...)
	}
	return raw, nil
}
