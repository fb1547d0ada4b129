-- Writes to indexes and counters: one at a time, or held back so that a script of several executions writes each index once.
--
-- Indexes are derived from controls. One of the wrong type holds nothing of use, so it gives way to a new one instead of
-- failing a script that has already written.

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
