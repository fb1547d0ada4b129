-- poll hands out due work of the revisions that a process runs, and tells what lies ahead.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] packed {worker, token, payload bytes at most or 0, mode, {queue, count, index of its plan, ...}, {plan, ...},
--           longest lease in ms, number or 0}
--           mode: the sum of 1 continued, 2 shared, 4 solitary, 8 yields, 16 doubt
--           count: -1 nothing, 0 tell only whether there is some
-- Reply {packed {now, next due or 0, more, left, ahead, malformed, held},
--       {control, input, checkpoint, answer, the sum of 1 invalid and 2 as it stood before the claim}, ...}
--       more: the bounds of this script left due work that was asked for; left: the places among the queues asked for, from
--       0, of those of which there is more due than was asked for; ahead: in how many milliseconds the lease that ends soonest
--       runs out, 0 where something is overdue, -1 where nothing runs; held: 1 where work on its last chance waits, 2 where
--       this worker is to become empty for it
--
-- Invariants 3, 4, 11: a claim is handed out once. The ids of a worker's batch stand under its token for a lease, so that a
-- repeat hands out the same claims at no cost to a budget. A continued poll adds to the batch of its token, unless a repeat in
-- doubt has settled that: what it would add, nobody would hear of. Of a shared one, which asks several partitions, each
-- remembers also that it gave nothing, and so does one in doubt, of which a copy may be under way: that, and any with a lower
-- number than what is remembered, claims nothing. At most 100 members are moved or looked at. What had fallen due before the
-- clock was set back is put back. What can't be read leaves the index, what this release does not know is put off. Work on its
-- last chance is handed out to a solitary poll only, one at a time: it never fails for what runs beside it.
local worker, token, max, mode, wants, packed, lease, number = unpack(cmsgpack.unpack(ARGV[1]))
local function is(bits) return bit.band(mode, bits) > 0 end
local continued, shared, solitary, yields, doubt = is(1), is(2), is(4), is(8), is(16)
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
local work = solitary or any('delayed:', 'ready:', 'solitary:')

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

-- Moves members that have fallen due to the set from which they are claimed, where they stay: as many as may be claimed, so
-- that a queue with very many leaves the others their part of the bound.
local function ripen(q, wanted)
  local most = math.min(math.max(wanted, 1), BOUND - moved)
  if most == 0 then
    unripe[q] = true
    return
  end
  local due = redis.call('ZRANGEBYSCORE', anchor .. 'delayed:' .. q, '-inf', text(ms), 'WITHSCORES', 'LIMIT', '0', text(most))
  local scored, ids = {}, {}
  for i = 1, #due, 2 do
    ids[#ids + 1] = due[i]
    scored[#scored + 1] = text(rank(tonumber(due[i + 1]), priority_of(due[i])))
    scored[#scored + 1] = due[i]
  end
  moved = moved + #ids
  unripe[q] = #ids == most
  redis.call('ZREM', anchor .. 'delayed:' .. q, unpack(ids))
  if failed(redis.pcall('ZADD', anchor .. 'ready:' .. q, unpack(scored))) then
    redis.call('DEL', anchor .. 'ready:' .. q)
    redis.call('ZADD', anchor .. 'ready:' .. q, unpack(scored))
  end
end

-- Sees to what has fallen due, where some is wanted, and notes what will.
local function look_ahead(q, wanted)
  local due = next_due(q)
  if due and due <= ms then
    if wanted >= 0 then ripen(q, wanted) end
    due = redis.call('ZRANGEBYSCORE', anchor .. 'delayed:' .. q, '(' .. text(ms), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]
    due = tonumber(due)
  end
  if due and (soonest == 0 or due < soonest) then soonest = due end
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
    isolate(c)
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
    local page = redis.pcall('ZRANGE', anchor .. 'ready:' .. q, text(passed), text(passed + wanted))
    if failed(page) or #page == 0 then
      if unripe[q] then unserved(place, wanted) end
      return
    end
    for _, id in ipairs(page) do
      if wanted == 0 or full() then return unserved(place, wanted) end
      looked = looked + 1
      local fate = take('ready:', q, id, p)
      if fate == 'claimed' then wanted = wanted - 1 end
      if fate == 'kept' then passed, kept = passed + 1, kept + 1 end
    end
  end
end

-- Since when the member of a queue waits that waits longest for a process that runs nothing else: from now on, where the clock
-- was set back since it came.
local function held_since(q)
  local head = redis.pcall('ZRANGE', anchor .. 'solitary:' .. q, '0', '0', 'WITHSCORES')
  if failed(head) or #head == 0 then return nil end
  local since = tonumber(head[2])
  if since <= ms then return since end
  enter('solitary:' .. q, ms, head[1])
  return ms
end

-- The places of the queues in which work on its last chance waits, the longest wait first.
local function held_places()
  local out = {}
  if not work or not any('solitary:') then return out end
  for i = 1, #wants, 3 do
    local since = held_since(wants[i])
    if since then out[#out + 1] = {since = since, at = i} end
  end
  table.sort(out, function(a, b) return a.since < b.since or a.since == b.since and a.at < b.at end)
  return out
end

-- Claims the one member that waits longest, of the queues asked for.
local function serve_solitary(plans)
  for _, place in ipairs(held_places()) do
    local q, p = wants[place.at], plans[wants[place.at + 2]]
    while wants[place.at + 1] > 0 and held_since(q) and not full() do
      looked = looked + 1
      local id = redis.call('ZRANGE', anchor .. 'solitary:' .. q, '0', '0')[1]
      local fate = take('solitary:', q, id, p)
      flush() -- the next look must not show it again
      if fate == 'claimed' then
        if redis.pcall('GET', anchor .. 'turn:' .. q) == worker then redis.call('DEL', anchor .. 'turn:' .. q) end
        return
      end
    end
  end
end

-- Whether it is this worker's turn to become empty for a queue. Nobody else takes it for a lease; one that lasts for longer was
-- taken before the clock was set back.
local function turn(q)
  local name, ttl = anchor .. 'turn:' .. q, text(math.max(lease, 1))
  local took = try('SET', name, worker, 'NX', 'PX', ttl)
  if took and not failed(took) then return true end
  if redis.pcall('GET', name) ~= worker and redis.call('PTTL', name) <= math.max(lease, longest) then return false end
  redis.call('SET', name, worker, 'PX', ttl)
  return true
end

-- Whether work on its last chance waits, and whether this worker is to become empty for it, since it has waited for a lease.
local function held()
  local out = 0
  for _, place in ipairs(held_places()) do
    out = math.max(out, 1)
    if yields and ms - place.since >= lease and turn(wants[place.at]) then out = 2 end
  end
  return out
end

-- In how many milliseconds the lease that ends soonest runs out; 0: something is overdue; -1: nothing runs.
local function ahead()
  for _, index in ipairs({'waits', 'retention'}) do
    local n = redis.pcall('ZCOUNT', anchor .. index, '-inf', text(ms))
    if not failed(n) and n > 0 then return 0 end
  end
  local head = redis.pcall('ZRANGE', anchor .. 'leases', '0', '0', 'WITHSCORES')
  if failed(head) or #head == 0 then return -1 end
  return math.max(tonumber(head[2]) - ms, 0)
end

-- Says which revisions are served, a thousand at a time: Lua passes no more than some thousand arguments. And who serves them.
local function present()
  local who = {worker}
  for i = 1, #wants, 3 do who[#who + 1] = wants[i] end
  try('ZADD', anchor .. 'workers', text(ms), cmsgpack.pack(who))
  for from = 1, #wants, 3000 do
    local seen = {}
    for i = from, math.min(from + 2999, #wants), 3 do
      seen[#seen + 1] = text(ms)
      seen[#seen + 1] = wants[i]
    end
    try('ZADD', anchor .. 'served', unpack(seen))
  end
end

local function serve_all(plans)
  if not work or not one and not any('ready:') then return end
  for i = 1, #wants, 3 do
    if wants[i + 1] >= 0 then serve((i - 1) / 3, wants[i], wants[i + 1], plans[wants[i + 2]]) end
  end
end

if not solitary and work and (one or any('delayed:')) then
  for i = 1, #wants, 3 do look_ahead(wants[i], wants[i + 1]) end
end
local failure
if not replay() then
  local plans = {}
  for i, h in ipairs(packed) do plans[i] = plan(h, 2) end
  local hand = solitary and serve_solitary or serve_all
  failure = together(hand, plans)
  if #out > 1 or (shared or doubt) and lease > 0 then remember() end
end
present()
if solitary then
  out[1] = cmsgpack.pack({us, 0, 0, left, -1, malformed, 0})
else
  out[1] = cmsgpack.pack({us, soonest, more, left, ahead(), malformed, held()})
end
return failure or out
