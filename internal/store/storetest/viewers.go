package storetest

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"

	"github.com/windrow-run/windrow/internal/execution"
)

type viewerID struct{ name, id string }

// viewer is what one viewer saw of one log.
type viewer struct {
	runs  []run // parts without a gap
	ended bool
	next  map[int64]int64 // by attempt: the number of the chunk that comes next
}

// run is a slice of a log that must be contiguous.
type run []sight

type sight struct {
	at   execution.Cursor
	data [32]byte
}

// Saw reports that a viewer was shown an event at that cursor. All viewers of an execution report the same kind of
// event: entries of the log, or what one entry is shown as, told apart by Cursor.Chunk.
func (c *Checker) Saw(name, id string, at execution.Cursor, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.viewer(name, id)
	if v.ended {
		c.violatedf(6, id, "%s was shown %v after the end", name, at)
	}
	last := len(v.runs) - 1
	if r := v.runs[last]; len(r) > 0 && !grows(r[len(r)-1].at, at) {
		c.violatedf(6, id, "%s was shown %v after %v", name, at, r[len(r)-1].at)
	}
	v.runs[last] = append(v.runs[last], sight{at, sha256.Sum256(data)})
}

// SawChunks reports the numbers of n chunks that a viewer was shown, from first on.
func (c *Checker) SawChunks(name, id string, attempt, first int64, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.viewer(name, id)
	if want, ok := v.next[attempt]; ok && first != want {
		c.violatedf(6, id, "%s was shown chunk %d of attempt %d where %d belongs", name, first, attempt, want)
	}
	v.next[attempt] = first + int64(n)
}

// Gap reports that a viewer was told of a gap, or began anew without a cursor.
func (c *Checker) Gap(name, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.viewer(name, id)
	v.runs = append(v.runs, nil)
	clear(v.next)
}

// SawEnd reports that a viewer was shown the terminal event.
func (c *Checker) SawEnd(name, id string, status execution.Status) {
	c.Ended("viewer "+name, id, status)
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.viewer(name, id)
	if v.ended {
		c.violatedf(6, id, "%s was shown two ends", name)
	}
	v.ended = true
}

func (c *Checker) viewer(name, id string) *viewer {
	k := viewerID{name, id}
	v := c.viewers[k]
	if v == nil {
		v = &viewer{runs: []run{nil}, next: map[int64]int64{}}
		c.viewers[k] = v
	}
	return v
}

// grows reports whether b stands after a. A new epoch is another log, which only a gap leads to.
func grows(a, b execution.Cursor) bool {
	if a.Epoch != b.Epoch {
		return false
	}
	return a.Entry.Less(b.Entry) || a.Entry == b.Entry && a.Chunk < b.Chunk
}

type logName struct{ id, epoch string }

// verifyViewers: between the first and the last event of a run a viewer saw all that any viewer of the log saw there, and
// at one cursor all saw the same.
func (c *Checker) verifyViewers() {
	logs := map[logName]map[execution.Cursor][32]byte{}
	names := slices.SortedFunc(maps.Keys(c.viewers), func(a, b viewerID) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.name, b.name))
	})
	for _, k := range names {
		for _, r := range c.viewers[k].runs {
			for _, s := range r {
				c.verifySight(k, s, logs)
			}
		}
	}
	for _, k := range names {
		for _, r := range c.viewers[k].runs {
			c.verifyRun(k, r, logs)
		}
	}
}

func (c *Checker) verifySight(k viewerID, s sight, logs map[logName]map[execution.Cursor][32]byte) {
	name := logName{k.id, s.at.Epoch}
	if logs[name] == nil {
		logs[name] = map[execution.Cursor][32]byte{}
	}
	if data, ok := logs[name][s.at]; ok && data != s.data {
		c.violatedf(6, k.id, "two different events stand at %v", s.at)
	}
	logs[name][s.at] = s.data
}

func (c *Checker) verifyRun(k viewerID, r run, logs map[logName]map[execution.Cursor][32]byte) {
	if len(r) == 0 {
		return
	}
	seen := make(map[execution.Cursor]bool, len(r))
	for _, s := range r {
		seen[s.at] = true
	}
	first, last := r[0].at, r[len(r)-1].at
	for at := range logs[logName{k.id, first.Epoch}] {
		if !seen[at] && grows(first, at) && grows(at, last) {
			c.violatedf(6, k.id, "%s skipped %v without a gap", k.name, at)
		}
	}
}
