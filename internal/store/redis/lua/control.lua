-- Controls: reading, validating, changing and writing them, exactly as package execution does.
--
-- A control is a table from field code to value, numbers as numbers, with absent fields at their zero. Six fields are the
-- store's own and never leave it: '#', the digest of the idempotency key, '~', which says that values too long for a
-- listpack stand in the hash m:<id>, '&', up to which chunks are settled: see beat.lua, and '@', which says that it was admitted
-- under its owner's ceiling, '%', the newest part of its history: see history.lua, and '$', the name of who submitted it.
local SCHEMA = 1
local MAX = 9007199254740991
local STATUS = {q = true, r = true, w = true, c = true, f = true, x = true}
local ENDED = {c = true, f = true, x = true}
local ABSENT = {
  z = 0, v = 0, f = 0, a = 0, l = 0, n = 0, c = 0, bl = 0, bn = 0, bc = 0, i = 0, e = 0, t = 0, jq = 0, j = 0, x = 0, q = 0, h = 0,
  p = 0, m = 0, b = 0, u = 0, d = '', r = '', o = '', lb = '', tp = '', ts = '', w = '', k = '', y = '', g = '', ['#'] = '',
  ['~'] = '', ['&'] = '', ['@'] = '', ['%'] = '', ['$'] = '',
}
local OWN = {['#'] = true, ['~'] = true, ['&'] = true, ['@'] = true, ['%'] = true, ['$'] = true}
local ZEROS = {__index = ABSENT}

-- A canonical integer within [0, MAX], or nil. Executions of one script have most of theirs in common.
local integers = {}
local function integer(s)
  local n = integers[s]
  if n then return n end
  if #s > 16 or not (s == '0' or string.find(s, '^[1-9]%d*$')) then return nil end
  n = tonumber(s)
  if n > MAX then return nil end
  integers[s] = n
  return n
end

-- Adds stored fields to c; false where one is unknown or unreadable.
local function fields(c, raw)
  for i = 1, #raw, 2 do
    local f, v = raw[i], raw[i + 1]
    local zero = ABSENT[f]
    if zero == 0 then
      v = integers[v] or integer(v)
      if not v then return false end
    elseif f == 's' then
      if not STATUS[v] then return false end
    elseif not zero then
      return false
    end
    c[f] = v
  end
  return true
end

-- What must be true of every stored control: no more and no less than what Control.check of package execution asks for. A
-- control that scripts hand out and the client then refuses would fail the whole reply, and stall its neighbours.
local function consistent(c)
  local running, waiting, canceled = c.s == 'r', c.s == 'w', c.s == 'x'
  return c.z == SCHEMA and c.s and c.d ~= '' and c.r ~= '' and c.v >= 1 and c.u >= c.b
    and running == (c.w ~= '') and running == (c.k ~= '') and running == (c.e ~= 0)
    and waiting == (c.q ~= 0) and (waiting or c.h == 0)
    and (running or canceled == (c.x ~= 0)) and (c.s == 'q' or c.t == 0) and c.bl >= 1 and c.bc >= 1 and c.i <= 9
end

local function foreign(raw)
  if raw[1] == 'z' and raw[2] == '1' then return false end -- as submit writes it
  for i = 1, #raw, 2 do
    if raw[i] == 'z' then
      local n = integer(raw[i + 1])
      return n ~= nil and n > SCHEMA
    end
  end
  return false
end

-- The control of id and nil, or nil and why: 'missing', 'malformed', or 'foreign' for a schema that this release does not know.
-- Then its fields as they are stored.
local function load(id)
  local raw = redis.pcall('HGETALL', key('c', id))
  if failed(raw) then return nil, 'malformed' end
  if #raw == 0 then return nil, 'missing' end
  if foreign(raw) then return nil, 'foreign' end
  local c = setmetatable({id = id}, ZEROS)
  local ok = fields(c, raw)
  if ok and c['~'] ~= '' then
    local long = redis.pcall('HGETALL', key('m', id))
    ok = not failed(long) and #long > 0 and fields(c, long)
    for i = 1, ok and #long or 0 do raw[#raw + 1] = long[i] end
  end
  if not ok or not consistent(c) then return nil, 'malformed' end
  return c, nil, raw
end

local function computed(n, f, op, arg, stamped)
  if op == '+' then return n[f] + arg end
  if op == 'a' then return ms + arg end
  if op == 's' then return math.max(ms, stamped) end
  if op == 'f' then return math.max(n[f] + 1, us) end
  if op == 'v' then return n.v end
  return 0
end

-- The control after the changes {field, op, argument, ...}; nil where a number leaves its range. It holds what they set, and finds
-- the rest in c, which must stay as it is.
local function applied(c, changes, status)
  local n = setmetatable({}, {__index = c})
  for i = 1, #changes, 3 do
    local f, op, arg = changes[i], changes[i + 1], changes[i + 2]
    if ABSENT[f] == 0 then
      if op ~= '=' then arg = computed(n, f, op, arg, c.u) end
      if arg > MAX then return nil end
    elseif type(arg) ~= 'string' then
      arg = ''
    end
    n[f] = arg
  end
  n.s = status
  return n
end

-- Writes what differs between two controls. At least the version always does.
local function save(c, n)
  local name = key('c', n.id)
  local sets, gone = {'HSET', name}, {'HDEL', name}
  for f, v in pairs(n) do
    if v ~= c[f] then
      if v == 0 or v == '' then
        gone[#gone + 1] = f
      else
        local at = #sets
        sets[at + 1] = f
        sets[at + 2] = type(v) == 'number' and text(v) or v
      end
    end
  end
  first(unpack(sets))
  if #gone > 2 then redis.call(unpack(gone)) end
end

-- Whether the lease is held by this worker's claim, with more than the margin left.
local function owned(c, worker, token, fence, margin)
  return c.s == 'r' and c.w == worker and c.k == token and c.f == fence and ms < c.e - margin
end
