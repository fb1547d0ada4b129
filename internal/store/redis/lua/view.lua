-- What a client may see of an execution.

-- When an ended execution is removed, with its idempotency key; 0: it has not ended, or left the index.
local function expires(c)
  local at = ENDED[c.s] and redis.pcall('ZSCORE', anchor .. 'retention', c.id)
  return at and not failed(at) and tonumber(at) or 0
end

-- {control, progress, result, error, wait, why cancellation was asked for, when it expires}; nil where one of the first five is of
-- another type. MGET takes such a key for none.
local function view(c)
  local progress, got = {}, {false, false, false}
  if c.p > 0 then
    progress = redis.pcall('LRANGE', key('p', c.id), '0', '-1')
    if failed(progress) then return nil end
  end
  if c.a > 0 or c.s ~= 'q' then
    local wanted = {key('r', c.id), key('e', c.id), key('w', c.id)}
    if c.x > 0 then wanted[4] = key('x', c.id) end
    got = redis.call('MGET', unpack(wanted))
  end
  local needed = ({c = 'r', f = 'e', w = 'w'})[c.s]
  local there = ({c = got[1], f = got[2], w = got[3]})[c.s]
  if needed and not there and redis.call('EXISTS', key(needed, c.id)) == 1 then return nil end
  return {record(c), progress, got[1], got[2], got[3], got[4] or false, expires(c)}
end

-- The reply for an execution as it stands, for who asks to see it: an outcome, the time, and the view of it.
local function shown(outcome, c)
  local seen = view(c)
  if not seen then return {'payload', us} end
  return {outcome, us, seen}
end

-- The same for who asked for something else. What can't be read is left out: it must not hide that the change was made.
local function answer(outcome, c)
  return {outcome, us, view(c) or {record(c), {}, false, false, false, false, 0}}
end

-- Marks the log of an unfinished execution as followed by somebody. Not worth failing a read for.
local function watch(c)
  if ENDED[c.s] then return end
  c.m = ms + WATCH_TTL
  try('HSET', key('c', c.id), 'm', text(c.m))
end
