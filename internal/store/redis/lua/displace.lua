-- displace carries out an operator's command on executions of a revision that are queued or wait for an answer.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] packed {deployment, revision, members to look at, members to pass over, plan if queued, plan if waiting}  then the
--       payloads that both plans write
-- Reply packed {now, done, kept, remaining}
--       kept: members that were looked at and stay, since their time is over, or this release does not know their schema or
--       can't count so far
--
-- Each leaves the revision by it, so that a repeat does nothing twice. A doctor that counts meanwhile must not correct counters
-- by what it saw before. At most 100 members.
local deployment, revision, most, skip, queued, waiting = unpack(cmsgpack.unpack(ARGV[1]))
local q = deployment .. '@' .. revision
local plans = {q = plan(queued, 2), w = plan(waiting, 2)}
local INDEXES = {'ready:', 'solitary:', 'delayed:', 'waiting:'}
local done, kept = 0, 0

-- The members to look at, each with its index.
local function members()
  local out = {}
  for _, index in ipairs(INDEXES) do
    if #out == most then break end
    local ids = redis.pcall('ZRANGE', anchor .. index .. q, text(skip), text(skip + most - #out - 1))
    local size = redis.pcall('ZCARD', anchor .. index .. q)
    if failed(ids) then ids, size = {}, 0 end
    skip = math.max(0, skip - size)
    for _, id in ipairs(ids) do out[#out + 1] = {index = index, id = id} end
  end
  return out
end

local function displace(index, id)
  local c, why = load(id)
  if why == 'malformed' then return reject(id, index .. q) end
  if why == 'missing' or c and (not plans[c.s] or queue(c) ~= q or (c.s == 'w') ~= (index == 'waiting:')) then
    return leave(index .. q, id)
  end
  local n, before
  local over = c and expiry(c) > 0 and expiry(c) <= ms -- for maintenance to end
  if c and not over then n, before = prepare(c, plans[c.s]) end
  if not n then
    kept = kept + 1
    return
  end
  if done == 0 then first('DEL', anchor .. 'tally') end
  commit(c, n, plans[c.s], before)
  done = done + 1
end

for _, m in ipairs(members()) do displace(m.index, m.id) end
local remaining = 0
for _, index in ipairs(INDEXES) do
  local n = redis.pcall('ZCARD', anchor .. index .. q)
  if not failed(n) then remaining = remaining + n end
end
if done == 0 then repeated() end
return cmsgpack.pack({us, done, kept, remaining})
