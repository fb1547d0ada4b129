-- Index upkeep: the one place that knows which indexes an execution stands in.
--
-- Indexes are derived from controls. One of the wrong type holds nothing of use, so it gives way to a new one instead of
-- failing a script that has already written.

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

-- Adds members to an index at once: score, id, score, id.
local function put(index, ...)
  local reply = try('ZADD', anchor .. index, ...)
  if failed(reply, 'WRONGTYPE') then
    redis.call('DEL', anchor .. index)
    reply = redis.call('ZADD', anchor .. index, ...)
  end
  return reply
end

-- What a script of several executions has still to write, so that all of them cost one command an index: by index, in the order
-- in which they were named, id to score, or to false where it leaves; and the counters that were read, with those that changed.
-- nil: everything is written as it comes.
local held, names, tally, counted

-- Has index entries and counters wait for flush. Who looks at an index meanwhile does not see them.
local function hold() held, names, tally, counted = {}, {}, {}, {} end

local function later(index, id, score)
  local entries = held[index]
  if not entries then
    entries = {}
    held[index] = entries
    names[#names + 1] = index
  end
  entries[id] = score
end

-- One of the two lists of arguments that an index needs.
local function members(entries)
  local enters, leaves = {}, {}
  for id, score in pairs(entries) do
    if score then
      enters[#enters + 1] = text(score)
      enters[#enters + 1] = id
    else
      leaves[#leaves + 1] = id
    end
  end
  return enters, leaves
end

-- Writes what waits.
local function flush()
  local sets, gone = {}, {}
  for field in pairs(counted) do
    if tally[field] > 0 then
      sets[#sets + 1] = field
      sets[#sets + 1] = text(tally[field])
    else
      gone[#gone + 1] = field
    end
  end
  for i = 1, #names do
    local enters, leaves = members(held[names[i]])
    if #leaves > 0 then redis.pcall('ZREM', anchor .. names[i], unpack(leaves)) end
    if #enters > 0 then put(names[i], unpack(enters)) end
  end
  if #sets > 0 then redis.call('HSET', anchor .. 'capacity', unpack(sets)) end
  if #gone > 0 then redis.call('HDEL', anchor .. 'capacity', unpack(gone)) end
  hold()
end

-- Runs f with what it enters, leaves and counts held back, and writes that whatever becomes of f: what was done for one
-- execution stays whole where another one's fails. Returns the error as a reply; nil: there was none.
local function together(f, ...)
  hold()
  local ok, err = pcall(f, ...)
  flush()
  held = nil
  if not ok then return raised(err) end
end

-- Does one for each of n executions, and returns the replies; an error that is no more than that of one execution stands in
-- its place. Where all fail it is more than that: it is returned alone, so that the client sees to it.
local function each(n, one)
  local out, failures = {}, 0
  local failure = together(function()
    for i = 1, n do
      local ok, reply = pcall(one, i)
      out[i] = ok and reply or raised(reply)
      if not ok then failures = failures + 1 end
    end
  end)
  return failure or failures == n and out[1] or out
end

local function enter(index, score, id)
  if held then return later(index, id, score) end
  return put(index, text(score), id)
end

local function leave(index, id)
  if held then return later(index, id, false) end
  redis.pcall('ZREM', anchor .. index, id)
end

-- How much later a member is looked at again whose control is of a schema that this release does not know.
local FOREIGN_DELAY = 60000

-- Puts off such work among what is claimed: it hides nothing behind it, and keeps no doorbell quiet. The control is not touched.
local function postpone(index, q, id)
  leave(index .. q, id)
  enter('delayed:' .. q, ms + FOREIGN_DELAY, id)
end

-- Tells who listens that work of a revision has become due, or falls due sooner than was known.
local function ring(c)
  redis.pcall('PUBLISH', anchor .. 'bell', queue(c))
end

-- When the first delayed execution of a queue falls due; nil: there is none.
local function next_due(q)
  local head = redis.pcall('ZRANGE', anchor .. 'delayed:' .. q, '0', '0', 'WITHSCORES')
  if not failed(head) then return tonumber(head[2]) end
end

-- Whether an execution that lost a lease before would fail with the next one that it loses: Control.LastChance.
local function last_chance(c)
  return c.l > 0 and (c.l + 1 >= c.bl or c.c + 1 >= c.bc)
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

-- Queues that this script has made work due in.
local awake = {}

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

-- The place among what may be claimed of a queued execution, which it keeps where it is moved to another revision.
local function place_of(c)
  for _, index in ipairs({'ready:', 'solitary:'}) do
    local score = redis.pcall('ZSCORE', anchor .. index .. queue(c), c.id)
    if score and not failed(score) then return tonumber(score) end
  end
end

-- Counts an execution for the revision that it is moved to; one that is not positive stays as it is.
local function recount(c, n)
  local from, to = counters(c), counters(n)
  if not from or not to then return end
  if from[2] > 0 then count(queue(c), from[2] - 1) end
  count(queue(n), to[2] + 1)
end

-- Puts the backstop on everything that outlives the end: keys go by themselves a day after maintenance should have
-- removed them.
local function expire(n)
  local function ttl(kind) redis.call('PEXPIRE', key(kind, n.id), BACKSTOP) end
  ttl('c')
  ttl('i')
  if n.a > 0 then
    ttl('k')
    ttl('n')
  end
  if n.x > 0 then ttl('x') end
  if n.p > 0 then ttl('p') end
  if string.sub(n['%'], 1, 1) == '+' then ttl('h') end
  if n['~'] ~= '' then ttl('m') end
  if n['#'] ~= '' then redis.call('PEXPIRE', key('b', n['#']), BACKSTOP) end
  if n.g ~= '' then redis.call('PEXPIRE', key('l', n.id), text(STREAM_TTL)) end
end

-- Statuses that have an index: the others are most of what is stored, or soon another one.
local LISTED = {w = true, f = true, x = true}

-- The name of an index by something that may be long, or that must not show. Members are held against their control, so two
-- that share a name only make each other's pages slower.
local function by(kind, value)
  return kind .. ':' .. string.sub(redis.sha1hex(value), 1, 16)
end

-- Indexes by the time of creation, for those who look for executions: all of them, and those of a deployment, an owner, a
-- label, and a status that is listed.
local function listings(c)
  local out = {'all', 'of:' .. c.d}
  if c.o ~= '' then out[3] = by('owner', c.o) end
  for label in string.gmatch(c.lb, '[^\n]+') do out[#out + 1] = by('label', label) end
  if LISTED[c.s] then out[#out + 1] = 'status:' .. c.s end
  return out
end

local function enlist(c)
  for _, index in ipairs(listings(c)) do enter(index, c.b, c.id) end
end

-- Moves an execution from the indexes of its old status to those of its new one.
local function reindex(c, n, before)
  if not c.s then
    enlist(n)
  elseif c.s ~= n.s then
    if LISTED[c.s] then leave('status:' .. c.s, c.id) end
    if LISTED[n.s] then enter('status:' .. n.s, n.b, n.id) end
  end
  if c.s ~= n.s and expiry(c) > 0 then leave('waits', c.id) end
  local moved, place = c.s and queue(c) ~= queue(n), nil
  if moved then recount(c, n) end
  if c.s == 'w' and (moved or n.s ~= 'w') then leave('waiting:' .. queue(c), c.id) end
  if n.s == 'w' and (moved or c.s ~= 'w') then enter('waiting:' .. queue(n), n.b, n.id) end
  if c.s == 'q' then
    if moved and n.s == 'q' then place = place_of(c) end
    leave('ready:' .. queue(c), c.id)
    if c.l > 0 then leave('solitary:' .. queue(c), c.id) end
    if c.t > 0 or n.s ~= 'r' then leave('delayed:' .. queue(c), c.id) end -- a release that does not know it may have put it off
  elseif c.s == 'r' and n.s ~= 'r' then
    leave('leases', c.id)
    leave('running', c.id)
  end
  local due = expiry(n)
  if due > 0 then enter('waits', due, n.id) end
  if n.s == 'q' then
    enqueue(n, place)
  elseif n.s == 'r' and n.e ~= c.e then
    enter('leases', n.e, n.id)
    if c.s ~= 'r' then enter('running', n.e, n.id) end
  elseif ENDED[n.s] then
    free(n, before)
    if n['@'] ~= '' then leave(owned_by(n.o), n.id) end
    enter('retention', ms + TERMINAL_TTL, n.id)
    expire(n)
  end
end
