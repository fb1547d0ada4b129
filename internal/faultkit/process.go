package faultkit

import (
	"math/rand/v2"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Happening is what was done to a process.
type Happening string

// The happenings.
const (
	Started Happening = "started"
	Killed  Happening = "killed"  // SIGKILL, and its exit was seen
	Frozen  Happening = "frozen"  // SIGSTOP
	Resumed Happening = "resumed" // SIGCONT
)

// Event is one happening.
type Event struct {
	Happening
	PID int
}

// Schedule says what is done to a process, and how often.
type Schedule struct {
	Seed   uint64
	Count  int           // kills and freezes together
	Gap    time.Duration // longest time between two
	Freeze time.Duration // longest time that it is frozen; 0: it is only killed
}

// Harass starts a process and kills it, or freezes it for a while, by the schedule. start returns one that has been started,
// and is ready; nobody else may wait for it. Every happening is told over the channel, which must be read; it is closed when the
// schedule is through, with the process running. It ends with the test.
func Harass(tb testing.TB, s Schedule, start func() (*exec.Cmd, error)) <-chan Event {
	tb.Helper()
	h := &harasser{t: tb, schedule: s, start: start, events: make(chan Event), halt: make(chan struct{}),
		random: rand.New(rand.NewPCG(s.Seed, 0))}
	var work sync.WaitGroup
	work.Go(h.run)
	tb.Cleanup(func() {
		close(h.halt)
		work.Wait()
		if h.cmd != nil {
			h.kill()
		}
	})
	return h.events
}

type harasser struct {
	t        testing.TB
	schedule Schedule
	start    func() (*exec.Cmd, error)
	random   *rand.Rand
	events   chan Event
	halt     chan struct{} // closed: no more
	cmd      *exec.Cmd
}

func (h *harasser) run() {
	defer close(h.events)
	if !h.begin() {
		return
	}
	for range h.schedule.Count {
		if !h.wait(h.schedule.Gap) {
			return
		}
		if h.schedule.Freeze > 0 && h.random.IntN(2) == 0 {
			if !h.freeze() {
				return
			}
			continue
		}
		h.kill()
		if !h.tell(Killed) || !h.begin() {
			return
		}
	}
}

func (h *harasser) begin() bool {
	cmd, err := h.start()
	if err != nil {
		h.t.Errorf("start the process: %v", err)
		h.cmd = nil
		return false
	}
	h.cmd = cmd
	return h.tell(Started)
}

func (h *harasser) freeze() bool {
	for _, do := range []struct {
		signal    syscall.Signal
		happening Happening
	}{{syscall.SIGSTOP, Frozen}, {syscall.SIGCONT, Resumed}} {
		if err := h.cmd.Process.Signal(do.signal); err != nil {
			h.t.Errorf("send %v to process %d: %v", do.signal, h.cmd.Process.Pid, err)
			return false
		}
		if !h.tell(do.happening) || do.happening == Frozen && !h.wait(h.schedule.Freeze) {
			return false
		}
	}
	return true
}

func (h *harasser) kill() {
	_ = h.cmd.Process.Kill() // it may have ended by itself
	_ = h.cmd.Wait()         // reports that kill
}

func (h *harasser) tell(what Happening) bool {
	select {
	case h.events <- Event{what, h.cmd.Process.Pid}:
		return true
	case <-h.halt:
		return false
	}
}

// wait waits for up to most; false: the test is over.
func (h *harasser) wait(most time.Duration) bool {
	timer := time.NewTimer(time.Duration(h.random.Int64N(int64(most) + 1)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-h.halt:
		return false
	}
}
