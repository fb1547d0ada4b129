package runtime

import "time"

// Metrics is what the runtime reports of itself. Implementations must not block. No argument is ever an id.
type Metrics interface {
	// Submitted counts a submission; the outcome is "accepted", "replayed" or the code of the refusal.
	Submitted(deployment, outcome string)
	// Claimed counts a poll that could take work and got n executions.
	Claimed(n int)
	// PickedUp is the time from an accepted submission to its handler, first attempts only.
	PickedUp(deployment string, elapsed time.Duration)
	// ExecutionStarted and ExecutionEnded enclose each attempt that this process holds.
	ExecutionStarted()
	ExecutionEnded()
	// Transitioned counts a committed transition of an attempt.
	Transitioned(deployment, command, status string)
	// LeaseLost counts an attempt of this process that lost its lease.
	LeaseLost(deployment string)
	// Recovered counts an execution that maintenance moved on; the outcome is the status it came to.
	Recovered(outcome string)
	// ChunksFlushed counts a flush of n chunks; the outcome is "ok", a code, or "dropped" where the buffer was full.
	ChunksFlushed(outcome string, n int)
	// LoopRestarted counts a restart of one of the runtime's loops after it failed.
	LoopRestarted(loop string)
	// SetSlots, SetDraining and SetStoreErrorStreak show the present state; the streak is that of the loop with the longest.
	SetSlots(n int)
	SetDraining(draining bool)
	SetStoreErrorStreak(n int)
}

const (
	outcomeAccepted = "accepted"
	outcomeReplayed = "replayed"
	outcomeOK       = "ok"
	outcomeDropped  = "dropped"
)

// noMetrics is for runtimes that nobody measures.
type noMetrics struct{}

func (noMetrics) Submitted(string, string)            {}
func (noMetrics) Claimed(int)                         {}
func (noMetrics) PickedUp(string, time.Duration)      {}
func (noMetrics) ExecutionStarted()                   {}
func (noMetrics) ExecutionEnded()                     {}
func (noMetrics) Transitioned(string, string, string) {}
func (noMetrics) LeaseLost(string)                    {}
func (noMetrics) Recovered(string)                    {}
func (noMetrics) ChunksFlushed(string, int)           {}
func (noMetrics) LoopRestarted(string)                {}
func (noMetrics) SetSlots(int)                        {}
func (noMetrics) SetDraining(bool)                    {}
func (noMetrics) SetStoreErrorStreak(int)             {}
