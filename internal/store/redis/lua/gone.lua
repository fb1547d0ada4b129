-- What goes: out of the indexes, or altogether. It belongs to index.lua, and is apart since the server makes every function anew
-- on each run of a script, and most scripts need none of these.

local function delist(c)
  for _, index in ipairs(listings(c)) do leave(index, c.id) end
end

-- Takes what can be read of a control, as text by field, out of the indexes that people look into, and out of what its owner
-- holds.
local function delist_raw(id, raw)
  leave('all', id)
  for status in pairs(LISTED) do leave('status:' .. status, id) end
  if raw.d then leave('of:' .. raw.d, id) end
  if raw.o and raw.o ~= '' then
    leave(by('owner', raw.o), id)
    leave(owned_by(raw.o), id)
  end
  for label in string.gmatch(raw.lb or '', '[^\n]+') do leave(by('label', label), id) end
end

-- The binding that a digest names, if it leads to the execution.
local function binding_of(id, digest)
  if not digest or digest == '' then return nil end
  local value = redis.pcall('GET', key('b', digest))
  if value and not failed(value) and string.sub(value, 33) == id then return key('b', digest) end
end

-- Takes an id out of every index that it may stand in. raw is what can be read of its control.
local function vanish(id, queues, raw)
  delist_raw(id, raw or {})
  for _, index in ipairs({'leases', 'running', 'waits', 'retention', 'malformed'}) do leave(index, id) end
  for q in pairs(queues) do
    for _, index in ipairs({'ready:', 'solitary:', 'delayed:', 'waiting:'}) do leave(index .. q, id) end
  end
end

-- Every key that an execution may have, with its binding.
local function belongings(id, digest)
  local keys = {}
  for _, kind in ipairs({'c', 'm', 'i', 'k', 'r', 'e', 'w', 'a', 'x', 'p', 'l', 'n', 'h'}) do keys[#keys + 1] = key(kind, id) end
  local binding = binding_of(id, digest)
  keys[#keys + 1] = binding
  return keys, binding ~= nil
end

-- What can be read of a control, as text by field, its long values included.
local function parts(id)
  local out = {}
  for _, kind in ipairs({'c', 'm'}) do
    local raw = redis.pcall('HGETALL', key(kind, id))
    if failed(raw) then raw = {} end
    for i = 1, #raw, 2 do out[raw[i]] = raw[i + 1] end
    if not out['~'] then break end
  end
  return out
end

-- Takes a control that can't be read out of every index and lists it for repair. Its place is freed once.
local function reject(id, where)
  leave(where, id)
  for _, index in ipairs({'leases', 'running', 'waits', 'retention'}) do leave(index, id) end
  local listed = put('malformed', text(ms), id)
  local raw = parts(id)
  local known, revision = string.match(where, '^%a+:([^@]*)@(.*)$')
  local c = {id = id, d = known or raw.d, r = revision or raw.r}
  delist_raw(id, {d = c.d, o = raw.o, lb = raw.lb})
  if not c.d or not c.r then return end
  for _, index in ipairs({'ready:', 'delayed:', 'solitary:', 'waiting:'}) do leave(index .. queue(c), id) end
  if listed == 1 and not ENDED[raw.s or ''] then free(c, counters(c)) end
end

-- Forgets processes that poll no more, and revisions that nobody has served for as long as an ended execution is kept, and of which nothing is left.
local function prune()
  redis.pcall('ZREMRANGEBYSCORE', anchor .. 'workers', '-inf', text(ms - WORKERS_KEPT))
  local old = redis.pcall('ZRANGEBYSCORE', anchor .. 'served', '-inf', text(ms - TERMINAL_TTL), 'LIMIT', '0', '100')
  if failed(old) then return end
  for _, q in ipairs(old) do
    local held = redis.pcall('HEXISTS', anchor .. 'capacity', q)
    if held == 0 then leave('served', q) end
  end
end
