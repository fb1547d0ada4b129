-- Index upkeep: what the parts have in common that know which indexes an execution stands in. Those are enqueue.lua and listing.lua, how it
-- comes there, reindex.lua and moved.lua, what a change moves, and gone.lua.

local function queue(c)
  return c.d .. '@' .. c.r
end

-- The unfinished executions of an owner that were admitted under a ceiling, by creation. Counting them needs no counter that
-- could go wrong.
local function owned_by(owner)
  return 'owned:' .. redis.sha1hex(owner)
end

-- When a queued or waiting execution, or its wait, is ended because the time is over; 0: never. Control.Expiry.
local function expiry(c)
  local at = c.s == 'q' and c.a == 0 and c.jq or c.s == 'w' and c.h or 0
  if c.s ~= 'q' and c.s ~= 'w' or c.j == 0 then return at end
  return at == 0 and c.j or math.min(at, c.j)
end

-- How much later a member is looked at again whose control is of a schema that this release does not know.
local FOREIGN_DELAY = 60000

-- When the first delayed execution of a queue falls due; nil: there is none.
local function next_due(q)
  local head = redis.pcall('ZRANGE', anchor .. 'delayed:' .. q, '0', '0', 'WITHSCORES')
  if not failed(head) then return tonumber(head[2]) end
end

-- Whether an execution that lost a lease before would fail with the next one that it loses: Control.LastChance.
local function last_chance(c)
  return c.l > 0 and (c.l + 1 >= c.bl or c.c + 1 >= c.bc)
end

-- Queues that this script has made work due in.
local awake = {}

-- Unfinished executions of the deployment and of the revision; nil where the counters can't be read.
local function counters(c)
  local q = queue(c)
  if held and tally[c.d] and tally[q] then return {tally[c.d], tally[q]} end
  local raw = redis.pcall('HMGET', anchor .. 'capacity', c.d, q)
  if failed(raw) then return nil end
  local all, own = integer(raw[1] or '0'), integer(raw[2] or '0')
  if not all or not own then return nil end
  if held then
    all, own = tally[c.d] or all, tally[q] or own
    tally[c.d], tally[q] = all, own
  end
  return {all, own}
end

-- Sets one counter; one that is zero does not stand.
local function count(field, n)
  if held then
    tally[field], counted[field] = n, true
  elseif n > 0 then
    redis.call('HSET', anchor .. 'capacity', field, text(n))
  else
    redis.call('HDEL', anchor .. 'capacity', field)
  end
end

-- Frees the place of an execution. before are the counters as they were read; one that is not positive stays as it is.
local function free(c, before)
  if not before then return end
  if before[1] > 0 then count(c.d, before[1] - 1) end
  if before[2] > 0 then count(queue(c), before[2] - 1) end
end

-- Statuses that have an index: the others are most of what is stored, or soon another one.
local LISTED = {w = true, f = true, x = true}
