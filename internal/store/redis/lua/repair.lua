-- repair puts right what inspect found. It judges again first, and leaves alone what is not wrong any more.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] packed {'x', {id, ...}} | {'m', index, {id, ...}} | {'b', {digest, ...}} | {'k', {name, type, mortal, ...}}, at
--           most 100 of them  [2] error of an execution that can't go on  [3..5] budgets of one whose own can't be read
-- Reply how many were put right
--
-- Invariants 1, 9: an end that can be read is kept, and a place is freed once. What this release does not know is not touched.
local what, list, ids = unpack(cmsgpack.unpack(ARGV[1]))
local done = 0
-- Of keys that belong to no execution: no lease is longer.
local KEY_TTL = 3600000

local function unlink(names)
  if #names > 0 then redis.call('UNLINK', unpack(names)) end
end

local function mortalize(c)
  for _, name in ipairs(lasting(c)) do
    redis.call('PEXPIRE', name, text(name == key('l', c.id) and STREAM_TTL or BACKSTOP))
  end
end

-- What the history tells of an end that no command made.
local function note_of_end(status)
  return status == 'x' and 'Z' or 'G\t\tstored_execution_invalid'
end

-- Ends a well-formed execution whose payloads can't be used. A cancel that is pending wins, as everywhere.
local function fail(c)
  local before = counters(c)
  local n = setmetatable({}, ZEROS)
  for f, v in pairs(c) do n[f] = v end
  n.s = c.x > 0 and 'x' or 'f'
  n.v, n.u = c.v + 1, math.max(ms, c.u)
  n.w, n.k, n.e, n.t, n.q, n.h, n.p = '', '', 0, 0, 0, 0, 0
  local entry, out = entries(c, n, {}, nil), tell(c, n, note_of_end(n.s))
  save(c, n)
  spill(n, out)
  redis.call('DEL', key('p', c.id), key('w', c.id), key('a', c.id), key('e', c.id))
  if n.s == 'f' then redis.call('SET', key('e', c.id), ARGV[2]) end
  append(n, entry)
  reindex(c, n, before)
  return n
end

-- Removes payloads of the wrong type. A log gets another name, so that a viewer sees the gap.
local function mend_types(c)
  local wrong, fatal = misshapen(c)
  local logged = type_of('l:' .. c.id)
  redis.call('DEL', anchor .. 'none')
  unlink(wrong)
  if logged ~= 'stream' and logged ~= 'none' and c.g ~= '' then
    c.g = epoch(c)
    redis.call('HSET', key('c', c.id), 'g', c.g)
  end
  if fatal then c = fail(c) end
  mortalize(c)
end

-- Ends what lacks a payload, unless that happened already for another one's sake.
local function end_lacking(id)
  local c = load(id)
  if not c or not lacking(c) then return end
  redis.call('DEL', anchor .. 'none')
  mortalize(fail(c))
end

-- What is stored of a control that can't be read, as text by field; nil where that is nothing, or not enough to know whose it
-- is: long values, an owner among them, stand in a hash of their own.
local function remains(id)
  local raw = redis.pcall('HGETALL', key('c', id))
  if failed(raw) then return nil end
  local out = {}
  for i = 1, #raw, 2 do out[raw[i]] = raw[i + 1] end
  if out['~'] then
    raw = redis.pcall('HGETALL', key('m', id))
    if failed(raw) or #raw == 0 then return nil, out end
    for i = 1, #raw, 2 do out[raw[i]] = raw[i + 1] end
  end
  if not out.d or out.d == '' or not out.r or out.r == '' then return nil, out end
  return out, out
end

-- A well-formed control of what can be saved: ended as it was, or failed.
local function salvaged(id, raw)
  local n = setmetatable({id = id}, ZEROS)
  local function number(f, other)
    local v = integer(raw[f] or '')
    n[f] = v and v >= (other or 0) and v or other or 0
  end
  for _, f in ipairs({'v', 'f', 'a', 'l', 'n', 'c', 'p', 'j', 'b', 'u'}) do number(f) end
  for i, f in ipairs({'bl', 'bn', 'bc'}) do
    local v = integer(raw[f] or '')
    n[f] = v and (v > 0 or f == 'bn') and v or tonumber(ARGV[2 + i])
  end
  n.z, n.d, n.r, n.o, n.lb, n['#'] = SCHEMA, raw.d, raw.r, raw.o or '', raw.lb or '', raw['#'] or ''
  n.tp, n.ts = raw.tp or '', raw.ts or ''
  n.i = string.find(raw.i or '', '^%d$') and tonumber(raw.i) or 0
  n.s = ENDED[raw.s or ''] and raw.s or 'f'
  if n.b == 0 or n.b > ms then n.b = ms end
  if n.u < n.b or n.u > ms then n.u = ms end
  if n.s == raw.s then
    n.v, n.y = math.max(n.v, 1), raw.y or ''
  else
    n.v, n.u = math.min(n.v + 1, MAX), ms
  end
  if n.s == 'x' then n.x = integer(raw.x or '') or 0 end
  if n.s == 'x' and n.x == 0 then n.x = n.u end
  if integer(raw.g or '') then n.g = raw.g end
  n['$'], n['%'] = raw['$'] or '', raw['%'] or ''
  return n
end

-- Writes a control as a whole, in place of what stood there.
local function rewrite(n)
  local short, long = {}, {}
  n['~'] = ''
  for f, v in pairs(n) do
    if type(v) == 'string' and #v > 64 then
      long[#long + 1] = f
      long[#long + 1] = v
    end
  end
  if #long > 0 then n['~'] = '1' end
  for f, v in pairs(n) do
    if f ~= 'id' and v ~= 0 and v ~= '' and not (type(v) == 'string' and #v > 64) then
      short[#short + 1] = f
      short[#short + 1] = type(v) == 'number' and text(v) or v
    end
  end
  redis.call('DEL', key('c', n.id), key('m', n.id))
  redis.call('HSET', key('c', n.id), unpack(short))
  if #long > 0 then redis.call('HSET', key('m', n.id), unpack(long)) end
end

-- Ends an execution whose control can't be read, or removes it where nothing of it can be saved. Its place was freed when it
-- was listed as malformed; where it was not, that is done here.
local function bury(id, queues)
  local raw, left = remains(id)
  local listed = stands('malformed', id)
  if left and left.d and left.r then queues[left.d .. '@' .. left.r] = true end
  local unfinished = not listed and left and not ENDED[left.s or '']
  if not raw then
    local c = unfinished and left.d and left.r and left or nil
    local before = c and counters(c)
    local names = {key('c', id), binding_of(id, left and left['#'])}
    for _, kind in ipairs(KINDS) do names[#names + 1] = key(kind, id) end
    redis.call('DEL', anchor .. 'tally') -- a count under way can't tell any more what this held
    unlink(names)
    if c then free(c, before) end
    vanish(id, queues, left)
    return
  end
  local n = salvaged(id, raw)
  if n.p > 0 and type_of('p:' .. id) ~= 'list' then n.p = 0 end
  local before = unfinished and counters(n) or nil
  local out = n.s ~= raw.s and tell(n, n, note_of_end(n.s)) or nil
  rewrite(n)
  spill(n, out)
  unlink((misshapen(n)))
  redis.call('DEL', key('w', id), key('a', id))
  if n.p == 0 then redis.call('DEL', key('p', id)) end
  if n.s == 'f' and redis.call('EXISTS', key('e', id)) == 0 or n.s ~= raw.s then
    redis.call('SET', key('e', id), ARGV[2])
  end
  if n.s ~= raw.s and n.g ~= '' then append(n, entries(setmetatable({g = n.g}, ZEROS), n, {}, nil)) end
  free(n, before)
  vanish(id, queues, left)
  enlist(n)
  enter('retention', ms + TERMINAL_TTL, id)
  if binding_of(id, n['#']) then redis.call('PEXPIRE', key('b', n['#']), BACKSTOP) end
  mortalize(n)
end

local function reenter(c)
  leave('malformed', c.id)
  enlist(c)
  if indexed(c) then return end
  if expiry(c) > 0 then enter('waits', expiry(c), c.id) end
  if c['@'] ~= '' and not ENDED[c.s] then enter(owned_by(c.o), c.b, c.id) end
  if c.s == 'q' then
    leave('delayed:' .. queue(c), c.id)
    enqueue(c)
  elseif c.s == 'r' then
    enter('leases', c.e, c.id)
    enter('running', c.e, c.id)
  elseif c.s == 'w' then
    enter('waiting:' .. queue(c), c.b, c.id)
  elseif ENDED[c.s] then
    enter('retention', c.u + TERMINAL_TTL, c.id)
  end
end

local function remove_orphans(id)
  local names = {}
  for i, kind in ipairs(KINDS) do names[i] = key(kind, id) end
  unlink(names)
end

-- Index and lifetimes come before types, which may end the execution.
local MEND = {
  orphan_keys = function(id) remove_orphans(id) end,
  malformed_control = function(id) bury(id, {}) end,
  missing_index = function(_, c) reenter(c) end,
  missing_ttl = function(_, c) mortalize(c) end,
  wrong_type = function(_, c) mend_types(c) end,
  missing_payload = function(id) end_lacking(id) end,
}

local function mend(id)
  local codes, c = judge(id, 0)
  for _, code in ipairs({'orphan_keys', 'malformed_control', 'missing_index', 'missing_ttl', 'wrong_type', 'missing_payload'}) do
    for _, is in ipairs(codes) do
      if is == code then
        MEND[code](id, c)
        done = done + 1
      end
    end
  end
end

local function mend_member(index, id)
  local code = judge_member(index, id)
  if code == 'stray_member' then
    leave(index, id)
    done = done + 1
  elseif code == 'malformed_control' then
    local q = string.match(index, '^%a+:(.*)$')
    bury(id, q and {[q] = true} or {})
    done = done + 1
  end
end

local function mend_key(name, wanted, mortal)
  local code = judge_key(name, wanted, mortal)
  if code == 'wrong_type' then redis.call('UNLINK', anchor .. name) end
  if code == 'missing_ttl' then redis.call('PEXPIRE', anchor .. name, text(KEY_TTL)) end
  if code ~= '' then done = done + 1 end
end

if what == 'm' then
  for _, id in ipairs(ids) do mend_member(list, id) end
elseif what == 'b' then
  for _, digest in ipairs(list) do
    if judge_binding(digest) ~= '' then
      redis.call('UNLINK', key('b', digest))
      done = done + 1
    end
  end
elseif what == 'k' then
  for i = 1, #list, 3 do mend_key(list[i], list[i + 1], list[i + 2]) end
else
  for _, id in ipairs(list) do mend(id) end
end
return done
