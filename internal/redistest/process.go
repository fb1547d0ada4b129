package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// startTimeout bounds the time from exec to the first PONG, loading an AOF included.
	startTimeout = 30 * time.Second
	// pollInterval is the pause between two looks at a server that is coming up.
	pollInterval = 5 * time.Millisecond
	// portTries bounds how often a port that someone has is replaced by another.
	portTries = 20
	// lowestPort and highestPort bound the ports of servers: above the well-known
	// services, below the ephemeral ranges.
	lowestPort, highestPort = 20000, 32000
	// clusterBus is how far above its port a member of a cluster speaks with the others.
	clusterBus = 10000
	// logTail is how many bytes of a server's log an error shows.
	logTail = 2000
)

// errExited says that a server ended before it answered.
var errExited = errors.New("server exited before it answered")

// process is one running server with its watchdog.
type process struct {
	cmd      *exec.Cmd
	watchdog *exec.Cmd
	pipe     io.Closer     // held open while this test process lives
	exited   chan struct{} // closed once the server was waited for
}

// launch starts binary in dir on the given loopback port and returns once it
// answers with its data loaded. env is added to the environment of this process.
func launch(binary, dir string, port int, args []string, env ...string) (*process, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	p, err := startProcess(binary, dir, port, args, env)
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx, port); err != nil {
		p.kill()
		return nil, fmt.Errorf("start %s on port %d: %w\n%s", binary, port, err, tail(logFile(dir)))
	}
	return p, nil
}

// launchAnywhere is launch on a free port, which pick finds. Between the choice of a port and
// its use by the server another process may take it, so it tries a few.
func launchAnywhere(binary, dir string, pick func() (int, error), args []string, env ...string) (*process, int, error) {
	var failures []error
	for range portTries {
		port, err := pick()
		if err != nil {
			return nil, 0, err
		}
		p, err := launch(binary, dir, port, args, env...)
		if err == nil {
			return p, port, nil
		}
		failures = append(failures, err)
		if !errors.Is(err, errExited) {
			break
		}
	}
	return nil, 0, errors.Join(failures...)
}

// startProcess starts the server and its watchdog, each in its own process
// group: an interrupt at the terminal ends the test process, whose end the
// watchdog sees.
func startProcess(binary, dir string, port int, args, env []string) (*process, error) {
	own := []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, "--logfile", logFile(dir)}
	if _, err := os.Stat(sentinelFile(dir)); err == nil {
		own = append([]string{sentinelFile(dir), "--sentinel"}, own...)
	}
	cmd := exec.Command(binary, append(own, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	go p.wait()
	if err := p.watch(dir); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// wait collects the server's exit, so that it leaves no zombie.
func (p *process) wait() {
	_ = p.cmd.Wait() // a server that a test killed has no exit status of interest
	close(p.exited)
}

// watch starts the watchdog: its read returns only when the pipe closes.
func (p *process) watch(dir string) error {
	p.watchdog = exec.Command("/bin/sh", "-c", `read -r _; kill -9 "$1"; rm -rf "$2"`, "sh", strconv.Itoa(p.pid()), dir)
	p.watchdog.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := p.watchdog.StdinPipe()
	if err != nil {
		return fmt.Errorf("watchdog: %w", err)
	}
	p.pipe = pipe
	if err := p.watchdog.Start(); err != nil {
		return fmt.Errorf("watchdog: %w", err)
	}
	return nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the server with SIGKILL and returns when it is gone. The watchdog
// goes first: it must never kill a later process that got the same pid.
func (p *process) kill() {
	if p.watchdog != nil && p.watchdog.Process != nil {
		_ = p.watchdog.Process.Kill() // a person may have killed it before
		_ = p.watchdog.Wait()         // reports that kill
		_ = p.pipe.Close()
	}
	_ = p.cmd.Process.Kill() // it may have exited by itself
	<-p.exited
}

// signal sends sig to the server.
func (p *process) signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("send %v to server %d: %w", sig, p.pid(), err)
	}
	return nil
}

// ready waits until the server on port answers, has loaded its data, and is
// this process and not another that took the port first.
func (p *process) ready(ctx context.Context, port int) error {
	client := redis.NewClient(&redis.Options{
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), MaxRetries: -1, PoolSize: 1, Protocol: 2,
	})
	defer func() { _ = client.Close() }() // it only ever asked
	return poll(ctx, pollInterval, p.exited, func() error {
		if err := client.Ping(ctx).Err(); err != nil {
			return err
		}
		info, err := client.Info(ctx, "server").Result()
		if err != nil {
			return err
		}
		if owner := infoField(info, "process_id"); owner != strconv.Itoa(p.pid()) {
			return fmt.Errorf("port %d answers for process %s, not %d", port, owner, p.pid())
		}
		return nil
	})
}

// poll calls check, at that interval, until it returns nil. It gives up with the last failure
// when ctx ends, and with errExited when exited closes.
func poll(ctx context.Context, every time.Duration, exited <-chan struct{}, check func() error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var err error
	for {
		now := check()
		if now == nil {
			return nil
		}
		if ctx.Err() == nil || err == nil {
			err = now // what was the matter, not that time ran out
		}
		select {
		case <-exited:
			return fmt.Errorf("%w: %w", errExited, err)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-ticker.C:
		}
	}
}

// freePort picks a random loopback port that nobody uses now. It stays below
// the ranges from which kernels serve outgoing connections and port 0, so that
// a server that a test restarts finds its port free again.
func freePort() (int, error) {
	var failure error
	for range portTries {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		if failure = tryPort(port); failure == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("find a free port: %w", failure)
}

// freeClusterPort is freePort for a member of a cluster, whose bus takes the port 10,000 above its own.
func freeClusterPort() (int, error) {
	var failure error
	for range portTries {
		port := lowestPort + rand.IntN(highestPort-clusterBus-lowestPort)
		if failure = errors.Join(tryPort(port), tryPort(port+clusterBus)); failure == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("find a free port: %w", failure)
}

// tryPort returns nil when nobody uses the port now.
func tryPort(port int) error {
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return listener.Close()
}

// sentinelFile is the configuration in the directory of a Sentinel, which writes there what it learns. Other servers have none.
func sentinelFile(dir string) string { return filepath.Join(dir, "sentinel.conf") }

func logFile(dir string) string { return filepath.Join(dir, "server.log") }

// tail returns the end of a server's log, for an error message.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "no log: " + err.Error()
	}
	return string(data[max(0, len(data)-logTail):])
}

// infoField reads one "name:value" line of an INFO reply, "" when it is absent.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
