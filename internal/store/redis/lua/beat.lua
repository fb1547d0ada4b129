-- beat renews leases and appends chunks for many executions of a partition.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] packed {{id, worker, token, fence, margin, lease or 0, mode, trim}, ...}, at most 100
--           mode: 0 no chunks, 1 append, 2 compare with what is there first
--           trim: '' nothing, '?' the size of the log is not known, '1' keep the new entry only, else the first id to keep
--       then one batch of chunks for each beat whose mode is not 0
-- Reply packed {now, {outcome, version, lease until, canceled: 0 or 1, log id, {{id, chunks, bytes}, ...}}, ...}
--       outcome: 'ok'; 'log' where the lease was renewed but the log takes no chunks; 'lost' and 'malformed', alone. The
--       last two parts come with chunks that stand in the log now; the last one tells what it holds, newest first, where that
--       was not known.
--
-- Invariants 3, 6: nothing is written under a lease that is over, and a batch of chunks once. A copy of a batch that was sent
-- again may arrive at any later time, on a connection that the client has given up. So what was repeated leaves its attempt
-- and the number of the chunk after it in the control, and what lies before that is not appended any more.
local beats = cmsgpack.unpack(ARGV[1])
local at = 1

-- Attempt, number of the first chunk, and number of chunks of a packed batch.
local function header(data)
  local line = string.match(data, '^[^\n]*') or ''
  local attempt, first_chunk, lengths = string.match(line, '^(%d+) (%d+)(.*)$')
  if not attempt then return nil end
  local _, chunks = string.gsub(lengths, ' ', '')
  return tonumber(attempt), tonumber(first_chunk), chunks
end

-- The entry of the batch, where an earlier try has appended it. The log's own bound bounds the search.
local function appended(id, data)
  local attempt, number = header(data)
  local last = '+'
  while true do
    local page = redis.pcall('XREVRANGE', key('l', id), last, '-', 'COUNT', '16')
    if failed(page) or #page == 0 then return nil end
    for _, entry in ipairs(page) do
      local a, f
      if entry[2][1] == 'c' then a, f = header(entry[2][2]) end
      if entry[2][2] == data then return entry[1] end
      if a and (a < attempt or f < number) then return nil end
    end
    last = '(' .. page[#page][1]
  end
end

-- The bytes of the chunks of a batch, as long as they were before they were compressed.
local function spoken(data)
  local lengths, bytes = string.match(data, '^%d+ %d+([^\n]*)'), 0
  for n in string.gmatch(lengths, '%d+') do bytes = bytes + tonumber(n) end
  return bytes
end

-- How much each entry of the log counts for, newest first; what the bounds leave no room for is trimmed.
local function sizes(id)
  local out, keep, chunks, bytes = {}, nil, 0, 0
  local log = redis.call('XRANGE', key('l', id), '-', '+')
  for i = #log, 1, -1 do
    if chunks >= HISTORY_CHUNKS or bytes >= HISTORY_BYTES then break end
    local kind, data = log[i][2][1], log[i][2][2]
    local n, size = 1, #data
    if kind == 'c' then
      local a, _, count = header(data)
      if a then n, size = count, spoken(data) end
    end
    chunks, bytes, keep = chunks + n, bytes + size, log[i][1]
    out[#out + 1] = {keep, n, size}
  end
  if keep and keep ~= log[1][1] then redis.call('XTRIM', key('l', id), 'MINID', keep) end
  return out
end

local function xadd(id, trim, data)
  if trim == '1' then return 'XADD', key('l', id), 'MAXLEN', '1', '*', 'c', data end
  if trim ~= '' and trim ~= '?' then return 'XADD', key('l', id), 'MINID', trim, '*', 'c', data end
  return 'XADD', key('l', id), '*', 'c', data
end

-- Appends the batch; an id, or nil where the log takes none.
local function add(id, trim, data)
  local reply = try(xadd(id, trim, data))
  if not failed(reply) then return reply end
end

-- Whether the batch, or one behind it, was repeated before, so that this copy of it comes too late.
local function late(c, attempt, number)
  local a, n = string.match(c.mark, '^(%d+) (%d+)$')
  return tonumber(a) == attempt and number < tonumber(n)
end

local function stream(c, mode, trim, data)
  local attempt, number, chunks = header(data)
  if late(c, attempt, number) then return 'ok' end
  if mode == 2 then first('HSET', key('c', c.id), '&', text(attempt) .. ' ' .. text(number + chunks)) end
  local id = mode == 2 and appended(c.id, data) or add(c.id, trim, data)
  if not id then return 'log' end
  if c.g == '' then first('HSET', key('c', c.id), 'g', text(math.max(ms, 1))) end
  if trim == '?' then return 'ok', id, sizes(c.id) end
  return 'ok', id
end

-- As much of a control as a beat needs.
local function glance(id)
  local raw = redis.pcall('HMGET', key('c', id), 's', 'w', 'k', 'f', 'e', 'v', 'x', 'g', 'z', '&')
  if failed(raw) then return nil, 'malformed' end
  if not raw[1] then return nil, 'lost' end
  local c = {id = id, s = raw[1], w = raw[2], k = raw[3], g = raw[8] or '', x = raw[7] and 1 or 0, mark = raw[10] or ''}
  if c.s ~= 'r' then return nil, 'lost' end
  c.f, c.e, c.v = integer(raw[4] or ''), integer(raw[5] or ''), integer(raw[6] or '')
  if not (c.f and c.e and c.v) or raw[9] ~= text(SCHEMA) then return nil, 'malformed' end
  return c
end

local function beat(b)
  local id, worker, token, fence, margin, lease, mode, trim = unpack(b)
  if mode > 0 then at = at + 1 end
  local data = ARGV[at]
  local c, why = glance(id)
  if not c then return {why} end
  if not owned(c, worker, token, fence, margin) then return {'lost'} end
  if lease > 0 then
    c.e = ms + lease
    first('HSET', key('c', id), 'e', text(c.e))
    enter('leases', c.e, id)
  end
  if mode == 0 then return {'ok', c.v, c.e, c.x} end
  local outcome, entry, held = stream(c, mode, trim, data)
  return entry and {outcome, c.v, c.e, c.x, entry, held or {}} or {outcome, c.v, c.e, c.x}
end

local out = {us}
for i, b in ipairs(beats) do out[i + 1] = beat(b) end
return cmsgpack.pack(out)
