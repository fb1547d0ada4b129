package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// process is a child as the process that measures sees it.
type process struct {
	url    string // of its server
	cmd    *exec.Cmd
	stdin  io.Closer
	in     *json.Encoder
	out    *json.Decoder
	stderr bytes.Buffer // read after the process has ended
}

// startProcess starts a child. It is killed with ctx.
func startProcess(ctx context.Context, program []string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, program[0], program[1:]...)}
	p.cmd.Stderr = &p.stderr
	for _, v := range os.Environ() { // a run must not depend on who starts it
		if !strings.HasPrefix(v, "WINDROW_") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	stdin, errIn := p.cmd.StdinPipe()
	stdout, errOut := p.cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return nil, err
	}
	p.stdin, p.in, p.out = stdin, json.NewEncoder(stdin), json.NewDecoder(stdout)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a process of the benchmark: %w", err)
	}
	return p, nil
}

// tell gives an order and waits for the answer.
func (p *process) tell(o order) (answer, error) {
	var a answer
	if err := p.in.Encode(o); err != nil {
		return a, p.gone(err)
	}
	if err := p.out.Decode(&a); err != nil {
		return a, p.gone(err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("a process of the benchmark: %s", a.Error)
	}
	return a, nil
}

// gone says why a process does not answer.
func (p *process) gone(err error) error {
	p.stop()
	return fmt.Errorf("a process of the benchmark ended: %w: %s", err, bytes.TrimSpace(p.stderr.Bytes()))
}

// stop tells the process to end, and kills it where it does not.
func (p *process) stop() {
	_ = p.stdin.Close() // it ends with its input
	timer := time.AfterFunc(stopPatience, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	_ = p.cmd.Wait() // how it ended does not matter any more
}

const stopPatience = 10 * time.Second

// serve starts a child that serves.
func (r *run) serve(ctx context.Context, o serveOrder) (*process, error) {
	p, err := startProcess(ctx, r.Program)
	if err != nil {
		return nil, err
	}
	a, err := p.tell(order{Serve: &o})
	if err != nil {
		p.stop()
		return nil, err
	}
	p.url = a.URL
	return p, nil
}

// usage asks what the process has used.
func (p *process) usage() (usage, error) {
	a, err := p.tell(order{Usage: true})
	return a.Usage, err
}

// residentSize is the memory of this process, in bytes; 0 where the system does not say.
func residentSize() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kb, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return 0
	}
	return kb << 10
}
