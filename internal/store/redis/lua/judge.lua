-- What doctor holds against the authority, the control. Judging writes nothing, and sees one instant: what one script leaves
-- behind is whole, so that work on the move is never judged halfway.
--
-- Every judgement takes an id and returns a code, '' where all is well. repair.lua judges again before its first write.
local KINDS = {'m', 'i', 'k', 'r', 'e', 'w', 'a', 'x', 'p', 'l', 'n', 'h'}
local TYPES = {
  m = 'hash', i = 'string', k = 'string', r = 'string', e = 'string', w = 'string', a = 'string', x = 'string', p = 'list',
  l = 'stream', n = 'hash', h = 'list',
}
-- Without these an unfinished execution can't go on.
local NEEDED = {i = true, k = true, a = true, p = true, w = true}

local function type_of(name)
  return redis.call('TYPE', anchor .. name).ok
end

-- Whether the id stands in the index, and no later than it should.
local function stands(index, id, latest)
  local score = redis.pcall('ZSCORE', anchor .. index, id)
  if not score or failed(score) then return false end
  return not latest or tonumber(score) <= latest
end

-- Whether a well-formed control stands where it will be found. What an older release put off stands a little later.
local function indexed(c)
  local later = ms + FOREIGN_DELAY
  local due = expiry(c)
  if due > 0 and not stands('waits', c.id, due) then return false end
  if c['@'] ~= '' and not ENDED[c.s] and not stands(owned_by(c.o), c.id) then return false end
  if due > 0 and due <= ms then return true end
  if c.s == 'q' then
    return stands('ready:' .. queue(c), c.id) or stands('solitary:' .. queue(c), c.id)
      or stands('delayed:' .. queue(c), c.id, math.max(c.t, later))
  elseif c.s == 'r' then
    return stands('leases', c.id, c.e) and stands('running', c.id, math.max(c.e, later))
  end
  return c.s == 'w' and stands('waiting:' .. queue(c), c.id) or stands('retention', c.id)
end

-- Whether it stands, by the time of its creation, wherever people look for it.
local function enlisted(c)
  for _, index in ipairs(listings(c)) do
    local score = redis.pcall('ZSCORE', anchor .. index, c.id)
    if not score or failed(score) or tonumber(score) ~= c.b then return false end
  end
  return true
end

-- The payloads of an execution whose type is wrong: all of them, and whether it can't go on without one.
local function misshapen(c)
  local wrong, fatal = {}, false
  for _, kind in ipairs(KINDS) do
    local is = type_of(kind .. ':' .. c.id)
    if is ~= 'none' and is ~= TYPES[kind] then
      wrong[#wrong + 1] = key(kind, c.id)
      if NEEDED[kind] then fatal = true end
    end
  end
  return wrong, fatal and not ENDED[c.s]
end

-- Whether an unfinished execution can't go on for want of what every one has: its input, and where it waits the wait.
local function lacking(c)
  if ENDED[c.s] then return false end
  return type_of('i:' .. c.id) == 'none' or c.s == 'w' and type_of('w:' .. c.id) == 'none'
end

-- The keys of an ended execution that would stay forever.
local function lasting(c)
  local out = {}
  if not ENDED[c.s] then return out end
  local names = {key('c', c.id)}
  for _, kind in ipairs(KINDS) do names[#names + 1] = key(kind, c.id) end
  local binding = key('b', c['#'])
  if c['#'] ~= '' and redis.call('EXISTS', binding) == 1 then names[#names + 1] = binding end
  for _, name in ipairs(names) do
    if redis.call('PTTL', name) == -1 then out[#out + 1] = name end
  end
  return out
end

local function held(id)
  for _, kind in ipairs(KINDS) do
    if redis.call('EXISTS', key(kind, id)) == 1 then return true end
  end
  return false
end

-- All that is wrong with one execution. overdue is how long a lease may be over.
local function judge(id, overdue)
  local c, why = load(id)
  if why == 'missing' then return held(id) and {'orphan_keys'} or {} end
  if why == 'malformed' then return {'malformed_control'} end
  if why == 'foreign' then return {'foreign_schema'} end
  local out = {}
  if not indexed(c) or not enlisted(c) then out[#out + 1] = 'missing_index' end
  if #misshapen(c) > 0 then out[#out + 1] = 'wrong_type' end
  if lacking(c) then out[#out + 1] = 'missing_payload' end
  if #lasting(c) > 0 then out[#out + 1] = 'missing_ttl' end
  if c.s == 'r' and c.e + overdue < ms then out[#out + 1] = 'lease_over' end
  return out, c
end

-- Whether a control belongs into the index that it stands in.
local function belongs(index, c)
  if index == 'leases' or index == 'running' then return c.s == 'r' end
  if index == 'waits' then return expiry(c) > 0 end
  if index == 'retention' then return ENDED[c.s] end
  for _, listing in ipairs(listings(c)) do
    if index == listing then return true end
  end
  local kind, q = string.match(index, '^(%a+):(.*)$')
  if kind == 'owned' then return c['@'] ~= '' and not ENDED[c.s] and index == owned_by(c.o) end
  if kind == 'waiting' then return c.s == 'w' and queue(c) == q end
  if kind ~= 'ready' and kind ~= 'solitary' and kind ~= 'delayed' or c.s ~= 'q' or queue(c) ~= q then return false end
  if kind == 'solitary' then return last_chance(c) end
  return not stands('solitary:' .. q, c.id) and (kind == 'ready' or not stands('ready:' .. q, c.id))
end

-- What is wrong with a member of an index. What can't be read belongs into malformed alone, or nowhere.
local function judge_member(index, id)
  if not stands(index, id) then return '' end
  local c, why = load(id)
  if why == 'foreign' then return '' end
  if why == 'malformed' then return 'malformed_control' end
  return c and belongs(index, c) and '' or 'stray_member'
end

-- What is wrong with a binding. It leads to a control that knows of it; where the control can't be read it stays.
local function judge_binding(digest)
  local value = redis.pcall('GET', key('b', digest))
  if not value then return '' end
  if failed(value) then return 'wrong_type' end
  local id = string.sub(value, 33)
  if redis.call('EXISTS', key('c', id)) == 0 then return 'orphan_binding' end
  local known = redis.pcall('HGET', key('c', id), '#')
  return (failed(known) or known == digest) and '' or 'orphan_binding'
end

-- What is wrong with a key that belongs to no execution: its type, or that it has no time to live though it must.
local function judge_key(name, wanted, mortal)
  local is = type_of(name)
  if is ~= 'none' and is ~= wanted then return 'wrong_type' end
  if mortal == 1 and redis.call('PTTL', anchor .. name) == -1 then return 'missing_ttl' end
  return ''
end
