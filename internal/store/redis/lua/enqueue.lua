-- How an execution comes into the queue of its revision.

-- Tells who listens that work of a revision has become due, or falls due sooner than was known.
local function ring(c)
  redis.pcall('PUBLISH', anchor .. 'bell', queue(c))
end

local function idle(q)
  return redis.pcall('ZCARD', anchor .. 'ready:' .. q) == 0
end

-- Puts an execution on its last chance where only a process that runs nothing else claims from, at its place if it has one.
local function isolate(c, place)
  local empty = redis.pcall('ZCARD', anchor .. 'solitary:' .. queue(c)) == 0
  enter('solitary:' .. queue(c), place or ms, c.id)
  if empty then ring(c) end
end

-- Puts a queued execution where it will be claimed from; a delayed one on its last chance goes on from there when it is
-- looked at. The doorbell rings only where a sleeping worker must hear of it: nothing was due before, and this one is due
-- now or sooner than all that was known. One that was queued already keeps the place that it held.
local function enqueue(c, place)
  local q = queue(c)
  if c.t <= ms and last_chance(c) then return isolate(c, place) end
  if c.t <= ms then
    if not awake[q] and idle(q) and (next_due(q) or MAX) > ms then ring(c) end
    awake[q] = true
    return enter('ready:' .. q, place or rank(ms, c.i), c.id)
  end
  local head = next_due(q) or MAX
  enter('delayed:' .. q, c.t, c.id)
  if c.t < head and head > ms and idle(q) then ring(c) end
end
