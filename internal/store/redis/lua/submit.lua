-- submit admits executions, each as a whole, or refuses it before its first write.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] packed {{id, key digest or '', fingerprint, ceiling of the deployment or 0, plan, ceiling of the owner where
--           there is one}, ...}  then the input of each
-- Reply for each {'created', now} | {'found', now, view} | {'reused' | 'full' | 'crowded' | 'malformed' | 'foreign', now},
--       or an error of this one alone
--
-- Invariants 1, 2, 9: binding, counters, control, input and index stand or fall together. The first write is one that
-- Redis refuses at maxmemory.

-- What is stored of the control: values too long for a listpack go to a hash of their own.
local function stored(n)
  local short, long = setmetatable({}, ZEROS), {}
  for f, v in pairs(n) do
    if type(v) == 'string' and #v > 64 then
      long[#long + 1] = f
      long[#long + 1] = v
      short['~'] = '1'
    else
      short[f] = v
    end
  end
  return short, long
end

local function create(request, at, before)
  local id, digest, fingerprint, _, packed, most = unpack(request)
  local p = plan(packed, at)
  local blank = setmetatable({id = id}, ZEROS)
  local n = applied(blank, p.changes, p.status)
  if not n then return {'malformed', us} end
  n['#'], n['@'], n['$'] = digest, most and '1' or '', string.sub(p.note, 3)
  local short, long = stored(n)
  local values = {}
  for f, v in pairs(short) do
    if v ~= '' and v ~= 0 then
      values[#values + 1] = f
      values[#values + 1] = type(v) == 'number' and text(v) or v
    end
  end
  redis.call('HSET', key('c', id), unpack(values))
  if #long > 0 then redis.call('HSET', key('m', id), unpack(long)) end
  write_payloads(n, p)
  if digest ~= '' then redis.call('SET', key('b', digest), fingerprint .. id) end
  n['~'] = short['~']
  count(n.d, before[1] + 1)
  count(queue(n), before[2] + 1)
  if most then put(owned_by(n.o), text(n.b), id) end -- the next one here counts them
  reindex(blank, n)
  return {'created', us}
end

local function found(c)
  repeated()
  return answer('found', c)
end

-- Ids that this script has admitted.
local created = {}

local function submit(request, at, fresh)
  local id, digest, fingerprint, ceiling, packed, most = unpack(request)
  local c, why
  if digest ~= '' then
    c, why = bound(digest, fingerprint)
    if c then return found(c) end
    if why ~= 'missing' then return {why, us} end
  end
  if not fresh or created[id] then
    c, why = load(id)
    if c then return found(c) end
    if why ~= 'missing' then return {why, us} end
  end
  local target = {d = '', r = ''}
  for i = 1, #packed[11], 3 do target[packed[11][i]] = packed[11][i + 2] end
  local before = counters(target)
  if not before then return {'malformed', us} end
  if ceiling > 0 and before[1] >= ceiling then return {'full', us} end
  if most then
    local held = redis.pcall('ZCARD', anchor .. owned_by(target.o))
    if not failed(held) and held >= most then return {'crowded', us} end
  end
  created[id] = true
  return create(request, at, before)
end

local requests, keys = cmsgpack.unpack(ARGV[1]), {}
for i = 1, #requests do keys[i] = key('c', requests[i][1]) end
local fresh = redis.call('EXISTS', unpack(keys)) == 0
return each(#requests, function(i) return submit(requests[i], i + 1, fresh) end)
