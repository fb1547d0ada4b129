-- What a poll asks for, and handing it out. See poll.lua.
local worker, token, max, mode, wants, packed, lease, number = unpack(cmsgpack.unpack(ARGV[1]))
local function is(bits) return bit.band(mode, bits) > 0 end
local continued, shared, solitary, yields, doubt, brief = is(1), is(2), is(4), is(8), is(16), is(32)
local out, batch = {false}, {token, 0, 0, number, 0} -- 1 where it is settled; ids follow
local longest = 0 -- lease that anybody here has claimed with
local bytes, looked, kept, moved, more, malformed, soonest = 0, 0, 0, 0, 0, 0, 0
local left, unripe = {}, {}
local BOUND = 100

-- Whether one of the queues has a key of one of those kinds: most have none, and asking for all at once costs one command.
local function any(...)
  local some, kinds = 0, {...}
  for from = 1, #wants, 3000 do
    local keys = {}
    for i = from, math.min(from + 2999, #wants), 3 do
      for _, kind in ipairs(kinds) do keys[#keys + 1] = anchor .. kind .. wants[i] end
    end
    some = some + redis.call('EXISTS', unpack(keys))
  end
  return some > 0
end

local one = #wants == 3 -- its keys are looked at as soon as they are asked for
local work = solitary or brief and (one or any('ready:')) or not brief and any('delayed:', 'ready:', 'solitary:')

-- Input, checkpoint and answer, and whether one of them is missing or of another type.
local function payloads(c)
  if c.a == 0 then
    local input = redis.call('MGET', key('i', c.id))[1]
    return {input, false, false}, not input
  end
  local got = redis.call('MGET', key('i', c.id), key('k', c.id), key('a', c.id))
  local nothing = {}
  for i, kind in ipairs({'i', 'k', 'a'}) do
    if not got[i] then nothing[#nothing + 1] = key(kind, c.id) end
  end
  local invalid = not got[1]
  if #nothing > 0 and redis.call('EXISTS', unpack(nothing)) > 0 then invalid = true end
  return got, invalid
end

local function usable_progress(c)
  return c.p == 0 or redis.call('TYPE', key('p', c.id)).ok == 'list'
end

-- raw: its control as it was stored before the claim; nil: the claim is an earlier one.
local function hand_out(c, got, invalid, raw)
  if not usable_progress(c) then invalid = true end
  local flags = (invalid and 1 or 0) + (raw and 2 or 0)
  out[#out + 1] = {raw and cmsgpack.pack(raw) or record(c), got[1], got[2], got[3], flags}
  batch[#batch + 1] = c.id
  for i = 1, 3 do bytes = bytes + (got[i] and #got[i] or 0) end
end

local function claim(c, p, raw)
  local got, invalid = payloads(c)
  local n, before = prepare(c, p)
  if not n then return false end
  commit(c, n, p, before)
  raw[#raw + 1] = 'id'
  raw[#raw + 1] = c.id
  hand_out(n, got, invalid, n.g == c.g and raw or nil)
  return true
end

-- What is remembered of the worker's polls; nil: nothing that counts.
local function remembered()
  local got = redis.call('MGET', key('batch', worker), anchor .. 'lease')
  longest = integer(got[2] or '') or 0
  if not got[1] then return nil end
  local readable, old = pcall(cmsgpack.unpack, got[1])
  if not readable or type(old) ~= 'table' or type(old[3]) ~= 'number' or type(old[4]) ~= 'number' then return nil end
  return old[3] > ms and old or nil
end

-- A repeat: the claims of the batch that are still good. False where there is none, or to add to it.
local function replay()
  local old = remembered()
  if not old then return false end
  if old[1] ~= token then return number > 0 and number < old[4] end
  if continued then
    batch = old
    return old[5] == 1
  end
  if shared and doubt and old[5] == 0 then
    old[5] = 1
    first('SET', key('batch', worker), cmsgpack.pack(old), 'KEEPTTL')
  end
  more = old[2]
  for i = 6, #old do
    local c = load(old[i])
    if c and owned(c, worker, token, c.f, 0) then hand_out(c, payloads(c)) end
  end
  return true
end

local function remember()
  batch[2], batch[3] = more, math.max(batch[3], ms + lease)
  first('SET', key('batch', worker), cmsgpack.pack(batch), 'PX', text(math.max(lease, 1)))
  if #out > 1 and lease > longest then first('SET', anchor .. 'lease', text(lease)) end
end

-- Puts off such work among what is claimed: it hides nothing behind it, and keeps no doorbell quiet. The control is not touched.
local function postpone(index, q, id)
  leave(index .. q, id)
  enter('delayed:' .. q, ms + FOREIGN_DELAY, id)
end

-- Looks at one member of a queue's index: 'claimed', 'gone' from it, or 'kept' in it.
local function take(index, q, id, p)
  local c, why, raw = load(id)
  if why == 'malformed' then
    reject(id, index .. q)
    malformed = malformed + 1
    return 'gone'
  elseif why == 'missing' or c and (c.s ~= 'q' or queue(c) ~= q) then
    leave(index .. q, id)
    return 'gone'
  elseif c and c.t > ms then
    leave(index .. q, id)
    enter('delayed:' .. q, c.t, id)
    if soonest == 0 or c.t < soonest then soonest = c.t end
    return 'gone'
  elseif c and not solitary and expiry(c) > 0 and expiry(c) <= ms then
    leave(index .. q, id) -- for maintenance to end
    return 'gone'
  elseif c and not solitary and last_chance(c) then
    leave(index .. q, id)
    enqueue(c)
    return 'gone'
  elseif why == 'foreign' then
    postpone(index, q, id)
    return 'gone'
  end
  if claim(c, p, raw) then return 'claimed' end
  if not solitary then return 'kept' end
  postpone(index, q, id) -- no process becomes empty for what it can't claim
  return 'gone'
end

local function full()
  return looked >= BOUND or max > 0 and bytes >= max and #out > 1
end

-- Says that there is more of a queue, of which so many are still wanted. It is worth asking again at once only where this run
-- got on: where all that it could look at is kept, another would see the same.
local function unserved(place, wanted)
  if wanted == 0 then
    left[#left + 1] = place
  elseif looked + moved > kept then
    more = 1
  end
end

-- Claims up to wanted members of a queue, from the front. They are looked at a page at a time, one more than is wanted.
local function serve(place, q, wanted, p)
  local passed = 0
  while true do
    flush() -- the next page must not show again what has left
    local last = passed + wanted
    local page = redis.pcall('ZRANGE', anchor .. 'ready:' .. q, text(passed), text(last))
    if failed(page) then page = {} end
    local all = #page <= last - passed
    for _, id in ipairs(page) do
      if wanted == 0 or full() then return unserved(place, wanted) end
      looked = looked + 1
      local fate = take('ready:', q, id, p)
      if fate == 'claimed' then wanted = wanted - 1 end
      if fate == 'kept' then passed, kept = passed + 1, kept + 1 end
    end
    if all then
      if unripe[q] then unserved(place, wanted) end
      return
    end
  end
end
