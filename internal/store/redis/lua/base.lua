-- What every script of a partition begins with.
--
-- KEYS[1] is the anchor of the partition, "<prefix>:{<tag>}:". No key of that very name exists: it routes the script to
-- the partition's slot, and all other keys are built from it here, so that no script can reach another partition.
local anchor = KEYS[1]
local us, ms = clock()

local function key(kind, id)
  return anchor .. kind .. ':' .. id
end

-- Integers as text. Lua would write large ones with an exponent. Executions of one script have most of theirs in common.
local texts = {}
local function text(n)
  local s = texts[n]
  if not s then
    s = string.format('%.0f', n)
    texts[n] = s
  end
  return s
end

-- Whether a reply of pcall is an error, and whether its text has the given word.
local function failed(reply, word)
  if type(reply) ~= 'table' or not reply.err then return false end
  return not word or string.find(reply.err, word, 1, true) ~= nil
end

-- What pcall of Lua caught, as an error that a script may return.
local function raised(err)
  if type(err) == 'table' and err.err then return {err = err.err} end
  return {err = tostring(err)}
end

-- A write that may be the first one of a script that must go on at maxmemory. Redis refuses there what may take memory,
-- but only as long as the script has not written: a DEL of nothing counts as a write, and is always allowed. Returns any
-- other error.
local function try(...)
  local reply = redis.pcall(...)
  if failed(reply, 'OOM') then
    redis.call('DEL', anchor .. 'none')
    reply = redis.pcall(...)
  end
  return reply
end

-- As try, for a write that only maxmemory could refuse. Raises any other error.
local function first(...)
  local reply = try(...)
  if failed(reply) then return redis.call(...) end
  return reply
end

-- A reply that only repeats what was done before, for a caller who waits for its acknowledgement: a wait speaks of what its own
-- connection has written, and the first try may have come over another one.
local function repeated()
  if ACKED then first('SET', anchor .. 'ack', '', 'PX', '60000') end
end
