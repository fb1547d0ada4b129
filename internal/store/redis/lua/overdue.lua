-- overdue lists what maintenance has to see to: leases that ran out, what is queued or waits and whose time is over, ended
-- executions past retention.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] packed {leases at most, leases to pass over, waits at most, waits to pass over, ended at most, ended to pass over}
-- Reply {packed {now, malformed, foreign leases, foreign waits, more: 0 or 1, stamp before, stamp, walking: 0 or 1},
--       {id, control, ...}, {id, control, wait, ...}, {id, ...}}
--       walking: there is more to walk than one run looks at
--
-- Decides nothing, but for leases that lie too far ahead; with nothing to do it prunes the index of what is served. Members
-- whose control is gone or tells otherwise are put right; malformed ones leave every index; those of a schema that this release
-- does not know stay as they are. At most 100 of each, and of waits no more than make up two megabytes.
local lease_limit, lease_offset, wait_limit, wait_offset, ended_limit, ended_offset = unpack(cmsgpack.unpack(ARGV[1]))
local malformed, foreign_leases, foreign_waits, more, walking = 0, 0, 0, 0, 0
local WAIT_BYTES = 2000000
local WALK = 100
-- When a lease that is over, and stands where maintenance finds it, is looked at again.
local WALK_AGAIN = 5000

-- At most limit members that are due; one more tells whether there are more.
local function due(index, offset, limit)
  local ids = redis.pcall('ZRANGEBYSCORE', anchor .. index, '-inf', text(ms), 'LIMIT', text(offset), text(limit + 1))
  if failed(ids) then return {} end
  if #ids > limit then
    more = 1
    ids[limit + 1] = nil
  end
  return ids
end

-- Until when a lease holds; 0: there is none.
local function lease_end(c)
  return c.s == 'r' and c.e or 0
end

-- The control of a member that is rightly there, by the time that it must stand at, or 0; nil and why otherwise, after putting
-- the index right.
local function member(index, id, time_of)
  local c, why = load(id)
  if why == 'malformed' then
    reject(id, index)
    malformed = malformed + 1
  elseif why == 'missing' or c and time_of(c) == 0 then
    leave(index, id)
    c = nil
  elseif c and time_of(c) > ms then
    enter(index, time_of(c), id)
    c = nil
  end
  return c, why
end

-- Ends leases that lie further ahead than any that was asked for, as those do that were set before the server's clock was set
-- back: who still holds one has renewed it since, and of who doesn't the work would be stuck for as long as the clock was
-- set back. Nobody who is alive loses a part of a lease by it.
local function rein()
  local most = integer(redis.call('MGET', anchor .. 'lease')[1] or '')
  if not most then return end
  if redis.call('EXISTS', anchor .. 'running', anchor .. 'leases') == 0 then
    redis.call('DEL', anchor .. 'lease') -- nothing stands at rest
    return
  end
  local ids = redis.pcall('ZREVRANGEBYSCORE', anchor .. 'leases', '+inf', '(' .. text(ms + most), 'LIMIT', '0', '100')
  if failed(ids) then return end
  for _, id in ipairs(ids) do
    local c, why = load(id)
    if why == 'malformed' then
      reject(id, 'leases')
      malformed = malformed + 1
    elseif c and c.s == 'r' then
      c.e = math.min(c.e, ms + most)
      first('HSET', key('c', id), 'e', text(c.e))
      enter('leases', c.e, id)
      enter('running', c.e, id)
    elseif why ~= 'foreign' then
      leave('leases', id)
    end
  end
end

-- Puts back leases that vanished from their index. What runs stands in another one as well, by a time at which its lease is
-- over unless it was renewed; then it is looked at, and again when the renewed one is. Whatever is looked at leaves the front,
-- so that the next run goes on behind it.
local function walk()
  local ids = redis.pcall('ZRANGEBYSCORE', anchor .. 'running', '-inf', text(ms), 'LIMIT', '0', text(WALK))
  if failed(ids) then return end
  if #ids == WALK then walking = 1 end
  for _, id in ipairs(ids) do
    local c, why = member('running', id, lease_end)
    if c then
      local lease = redis.pcall('ZSCORE', anchor .. 'leases', id)
      if not lease or failed(lease) then enter('leases', c.e, id) end
      enter('running', ms + WALK_AGAIN, id)
    elseif why == 'foreign' then
      enter('running', ms + FOREIGN_DELAY, id)
    end
  end
end

local function leases()
  local out = {}
  for _, id in ipairs(due('leases', lease_offset, lease_limit)) do
    local c, why = member('leases', id, lease_end)
    if why == 'foreign' then foreign_leases = foreign_leases + 1 end
    if c then
      out[#out + 1] = id
      out[#out + 1] = record(c)
    end
  end
  return out
end

local function waits()
  local out, bytes = {}, 0
  for _, id in ipairs(due('waits', wait_offset, wait_limit)) do
    if bytes >= WAIT_BYTES then
      more = 1
      break
    end
    local c, why = member('waits', id, expiry)
    if why == 'foreign' then foreign_waits = foreign_waits + 1 end
    if c then
      local wait = c.s == 'w' and redis.pcall('GET', key('w', id))
      if not wait or failed(wait) then wait = '' end
      bytes = bytes + #wait
      out[#out + 1] = id
      out[#out + 1] = record(c)
      out[#out + 1] = wait
    end
  end
  return out
end

-- Leaves the time every few seconds, so that a server that came back with older data gives itself away. Returns what stood
-- there, and what does now; 0 where nothing stood there.
local function stamp()
  local held = redis.pcall('GET', anchor .. 'stamp')
  held = not failed(held) and held and integer(held) or 0
  if ms - held < 5000 then return held, held end
  local reply = try('SET', anchor .. 'stamp', text(ms), 'PX', BACKSTOP)
  return held, failed(reply) and held or ms
end

local held, stamped = stamp()
rein()
walk()
local running, waiting, ended = leases(), waits(), due('retention', ended_offset, ended_limit)
if #running + #waiting + #ended == 0 then prune() end
return {cmsgpack.pack({us, malformed, foreign_leases, foreign_waits, more, held, stamped, walking}), running, waiting, ended}
