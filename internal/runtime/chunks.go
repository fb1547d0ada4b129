package runtime

import (
	"time"

	"github.com/windrow-run/windrow/internal/execution"
)

// chunks buffers what an attempt streamed until the beater carries it to the store. At most one batch is on its way; until
// its outcome is known it is repeated as it was, so that nothing is appended twice.
type chunks struct {
	maxCount, maxBytes int

	first  int64 // number of queue[0] within the attempt
	queue  [][]byte
	since  time.Time // when queue[0] was streamed, or one before it that was dropped
	bytes  int
	flying *execution.ChunkBatch
	repeat bool // flying was sent before
}

// add appends a chunk and returns how many of the oldest were dropped to make room.
func (c *chunks) add(chunk []byte, now time.Time) (dropped int) {
	if len(c.queue) == 0 {
		c.since = now
	}
	c.queue = append(c.queue, chunk)
	c.bytes += len(chunk)
	for len(c.queue) > c.maxCount || c.bytes > c.maxBytes {
		c.bytes -= len(c.queue[0])
		c.queue[0] = nil
		c.queue = c.queue[1:]
		c.first++
		dropped++
	}
	return dropped
}

func (c *chunks) empty() bool { return c.flying == nil && len(c.queue) == 0 }

// end is the number that the next chunk will get; carried is the number up to which all were appended, or never will be.
func (c *chunks) end() int64 { return c.first + int64(len(c.queue)) }

func (c *chunks) carried() int64 {
	if c.flying != nil {
		return c.flying.First
	}
	return c.first
}

// due is when the next batch may leave, given when this process last sent chunks: the first chunk after silence at once, any
// other when it has waited for the interval, so that two batches are at least that far apart.
func (c *chunks) due(flushed time.Time, interval time.Duration) time.Time {
	switch next := flushed.Add(interval); {
	case c.flying != nil || c.since.Before(flushed):
		return next
	case c.since.Before(next):
		return c.since.Add(interval)
	}
	return c.since
}

// size is how many bytes the batch has that take would return.
func (c *chunks) size() int {
	if c.flying != nil {
		return c.flying.Size()
	}
	return c.bytes
}

// take returns the batch to send and whether it may have been appended already; nil: there is none, or it has more bytes than
// there is room for.
func (c *chunks) take(attempt int64, room int) (*execution.ChunkBatch, bool) {
	if c.size() > room {
		return nil, false
	}
	if c.flying == nil && len(c.queue) > 0 {
		c.flying = &execution.ChunkBatch{Attempt: attempt, First: c.first, Chunks: c.queue}
		c.first += int64(len(c.queue))
		c.queue, c.bytes, c.repeat = nil, 0, false
	}
	return c.flying, c.repeat
}

// unknown says that the batch, if there is one, may have been appended. It reports whether there is.
func (c *chunks) unknown() bool {
	c.repeat = c.flying != nil
	return c.repeat
}

// settled says that the batch was appended, or never will be.
func (c *chunks) settled() (count int) {
	if c.flying != nil {
		count = len(c.flying.Chunks)
	}
	c.flying, c.repeat = nil, false
	return count
}

// clear forgets everything and returns how many chunks that was.
func (c *chunks) clear() int {
	n := c.settled() + len(c.queue)
	c.first += int64(len(c.queue))
	c.queue, c.bytes = nil, 0
	return n
}
