-- list looks at executions from a place on, the newest first, in whichever index of several has the fewest members, and
-- returns those that pass the filters.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] packed {{index, ...}, time of the place or 0 for the newest, id of the place, earliest time, members to look at,
--           executions to return, every owner: 0 or 1, owner, {deployment, ...}, revision or '', {status, ...}, {label, ...}};
--           lists that are empty filter nothing. At most 100 members.
--           An index 'owner', 'label' or 'status' has a value after it.
-- Reply packed {now, looked at, ended: 0 or 1, time and id of the last one that was looked at, {control, ...}}
--
-- Each index stands in the order of creation, so that a place is good in all of them. Members whose control is gone or can't be
-- read leave; those of a schema that this release does not know are passed over.
local names, at, from, earliest, most, wanted, every, owner, deployments, revision, statuses, labels = unpack(cmsgpack.unpack(ARGV[1]))

local function set(list)
  if #list == 0 then return nil end
  local out = {}
  for _, v in ipairs(list) do out[v] = true end
  return out
end

deployments, statuses = set(deployments), set(statuses)

local function passes(c)
  if every ~= 1 and c.o ~= owner then return false end
  if deployments and not deployments[c.d] or statuses and not statuses[c.s] then return false end
  if revision ~= '' and c.r ~= revision then return false end
  for _, label in ipairs(labels) do
    if not string.find('\n' .. c.lb .. '\n', '\n' .. label .. '\n', 1, true) then return false end
  end
  return c.b >= earliest
end

-- Whether an id comes before another one in a sorted set, whatever the server's locale.
local function below(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- The index with the fewest members, and how many they are.
local function narrowest()
  local best, fewest
  for _, name in ipairs(names) do
    local kind, value = string.match(name, '^(%a+):(.*)$')
    if kind == 'owner' or kind == 'label' then name = by(kind, value) end
    local n = redis.pcall('ZCARD', anchor .. name)
    if not failed(n) and (not fewest or n < fewest) then best, fewest = name, n end
  end
  return best
end

-- How many members of an index come before the place, found by halves where several were created at its time.
local function before(index)
  if at == 0 then return 0 end
  local low = redis.call('ZCOUNT', anchor .. index, '(' .. text(at), '+inf')
  local high = low + redis.call('ZCOUNT', anchor .. index, text(at), text(at))
  while low < high do
    local middle = math.floor((low + high) / 2)
    if below(redis.call('ZREVRANGE', anchor .. index, text(middle), text(middle))[1], from) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

local index = narrowest()
local looked, ended, last_at, last_id, out = 0, 1, at, from, {}

local function look()
  local skip = before(index)
  local members = redis.call('ZREVRANGE', anchor .. index, text(skip), text(skip + most - 1), 'WITHSCORES')
  for i = 1, #members, 2 do
    local id, created = members[i], tonumber(members[i + 1])
    if created < earliest then return 1 end
    if #out == wanted then return 0 end
    looked, last_at, last_id = looked + 1, created, id
    local c, why = load(id)
    if why == 'missing' then leave(index, id) end
    if why == 'malformed' then reject(id, index) end
    if c and passes(c) then out[#out + 1] = record(c) end
  end
  return #members < 2 * most and 1 or 0
end

if index then ended = look() end
return cmsgpack.pack({us, looked, ended, last_at, last_id, out})
