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

-- The control that changes begin, and the commands that store it: values too long for a listpack go to a hash of their own, nil
-- where there are none. The first field is the schema, as foreign expects. nil where a number leaves its range.
local function begun(id, status, changes)
  local n, name = setmetatable({id = id, s = status}, ZEROS), key('c', id)
  local short, long, size = {'HSET', name, 'z', '', 's', status}, nil, 6
  for i = 1, #changes, 3 do
    local f, op, v = changes[i], changes[i + 1], changes[i + 2]
    local stored = v
    if ABSENT[f] == 0 then
      if op ~= '=' then v = computed(n, f, op, v, 0) end
      if v > MAX then return nil end
      stored = v > 0 and text(v) or ''
    elseif type(v) ~= 'string' then
      v, stored = '', ''
    end
    n[f] = v
    if f == 'z' then
      short[4] = stored
    elseif #stored > 64 then
      long = long or {'HSET', key('m', id)}
      long[#long + 1] = f
      long[#long + 1] = stored
    elseif stored ~= '' then
      short[size + 1], short[size + 2] = f, stored
      size = size + 2
    end
  end
  if long then
    n['~'] = '1'
    short[size + 1], short[size + 2] = '~', '1'
  end
  return n, short, long
end

local function add(changes, f, v)
  local at = #changes
  changes[at + 1], changes[at + 2], changes[at + 3] = f, '=', v
end

-- The changes of a plan, and those of the fields that are the store's own.
local function with_own(p, digest, most)
  if digest ~= '' then add(p.changes, '#', digest) end
  if most then add(p.changes, '@', '1') end
  if #p.note > 2 then add(p.changes, '$', string.sub(p.note, 3)) end
  return p.changes
end

-- Why there is no room for n; nil where there is. Then the counters as they are.
local function crowded(n, ceiling, most)
  local before = counters(n)
  if not before then return 'malformed' end
  if ceiling > 0 and before[1] >= ceiling then return 'full' end
  if most then
    local unfinished = redis.pcall('ZCARD', anchor .. owned_by(n.o))
    if not failed(unfinished) and unfinished >= most then return 'crowded' end
  end
  return nil, before
end

-- Ids that this script has admitted.
local created = {}

local function create(request, at)
  local id, digest, fingerprint, ceiling, packed, most = unpack(request)
  local p = plan(packed, at)
  local n, short, long = begun(id, p.status, with_own(p, digest, most))
  if not n then return {'malformed', us} end
  local why, before = crowded(n, ceiling, most)
  if why then return {why, us} end
  created[id] = true
  redis.call(unpack(short))
  if long then redis.call(unpack(long)) end
  write_payloads(n, n, p)
  if digest ~= '' then redis.call('SET', key('b', digest), fingerprint .. id) end
  count(n.d, before[1] + 1)
  count(queue(n), before[2] + 1)
  if most then put(owned_by(n.o), text(n.b), id) end -- the next one here counts them
  enlist(n)
  local due = expiry(n)
  if due > 0 then enter('waits', due, id) end
  enqueue(n)
  return {'created', us}
end

-- The execution that the submission repeats, or nil and why: 'missing' where there is none.
local function repeats(id, digest, fingerprint, fresh)
  if digest ~= '' then
    local c, why = bound(digest, fingerprint)
    if c or why ~= 'missing' then return c, why end
  end
  if fresh and not created[id] then return nil, 'missing' end
  return load(id)
end

local function submit(request, at, fresh)
  local c, why = repeats(request[1], request[2], request[3], fresh)
  if c then
    repeated()
    return answer('found', c)
  end
  if why ~= 'missing' then return {why, us} end
  return create(request, at)
end

local requests, keys = cmsgpack.unpack(ARGV[1]), {}
for i = 1, #requests do keys[i] = key('c', requests[i][1]) end
local fresh = redis.call('EXISTS', unpack(keys)) == 0
return each(#requests, function(i) return submit(requests[i], i + 1, fresh) end)
