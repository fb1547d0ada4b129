package runtime

import "github.com/windrow-run/windrow/internal/execution"

// Feed is told what an attempt of this process leaves in the event log of its execution, so that those who follow it in this
// process need not read that. As long as the attempt owns the execution nobody else adds to the log. Methods must be
// quick; they may be called after Close, and then do nothing.
type Feed interface {
	// Sending says that an exchange of this lane begins. One lane has one at a time; a repeat says so again.
	Sending(lane int)
	// Unknown says that the outcome of the lane's exchange is not known: it is repeated until it is, or the feed is closed.
	Unknown(lane int)
	// Settled says what the lane's exchange left in the log, whose epoch is given where that is known. Without whole it may have
	// left more.
	Settled(lane int, epoch string, log []execution.Entry, whole bool)
	// Close says that the attempt does not own the execution any more.
	Close()
}

// The lanes.
const (
	laneBeats = iota
	laneCommits
)

// noFeed is the feed of a process in which nobody follows anything.
type noFeed struct{}

func (noFeed) Sending(int)                                  {}
func (noFeed) Unknown(int)                                  {}
func (noFeed) Settled(int, string, []execution.Entry, bool) {}
func (noFeed) Close()                                       {}
