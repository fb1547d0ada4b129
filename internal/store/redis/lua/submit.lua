-- submit admits an execution as a whole, or refuses it before its first write.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] packed {id, key digest or '', fingerprint, ceiling of the deployment or 0, plan, ceiling of the owner where
--           there is one}  [2] input
-- Reply {'created', now, control} | {'found', now, view} | {'reused' | 'full' | 'crowded' | 'malformed' | 'foreign', now}
--
-- Invariants 1, 2, 9: binding, counters, control, input and index stand or fall together. The first write is one that
-- Redis refuses at maxmemory.
local id, digest, fingerprint, ceiling, packed, most = unpack(cmsgpack.unpack(ARGV[1]))

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

local function create(before)
  local p = plan(packed, 2)
  local blank = setmetatable({id = id}, ZEROS)
  local n = applied(blank, p.changes, p.status)
  if not n then return {'malformed', us} end
  n['#'], n['@'] = digest, most and '1' or ''
  local short, long = stored(n)
  local values = {}
  for f, v in pairs(short) do
    if f ~= 'id' and v ~= '' and v ~= 0 then
      values[#values + 1] = f
      values[#values + 1] = type(v) == 'number' and text(v) or v
    end
  end
  redis.call('HSET', key('c', id), unpack(values))
  if #long > 0 then redis.call('HSET', key('m', id), unpack(long)) end
  write_payloads(n, p)
  if digest ~= '' then redis.call('SET', key('b', digest), fingerprint .. id) end
  n['~'] = short['~']
  redis.call('HSET', anchor .. 'capacity', n.d, text(before[1] + 1), queue(n), text(before[2] + 1))
  if most then enter(owned_by(n.o), n.b, id) end
  reindex(blank, n)
  return {'created', us, record(n)}
end

local function found(c)
  repeated()
  return answer('found', c)
end

local function submit()
  local c, why
  if digest ~= '' then
    c, why = bound(digest, fingerprint)
    if c then return found(c) end
    if why ~= 'missing' then return {why, us} end
  end
  c, why = load(id)
  if c then return found(c) end
  if why ~= 'missing' then return {why, us} end
  local target = {d = '', r = ''}
  for i = 1, #packed[11], 3 do target[packed[11][i]] = packed[11][i + 2] end
  local before = counters(target)
  if not before then return {'malformed', us} end
  if ceiling > 0 and before[1] >= ceiling then return {'full', us} end
  if most then
    local held = redis.pcall('ZCARD', anchor .. owned_by(target.o))
    if not failed(held) and held >= most then return {'crowded', us} end
  end
  return create(before)
end

return submit()
