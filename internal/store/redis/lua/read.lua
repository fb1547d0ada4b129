-- read returns one execution as a client may see it, and marks its log as watched where asked to.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] packed {id, every owner: 0 or 1, owner, watch: 0 or 1, input: 0 or 1, log entries at most, first log id, lines of the
--           history at most}; -1 entries are the newest one alone
-- Reply {'ok', now, view, {log id, {kind, data}, ...}, input, {submitter, how many lines there ever were, line, ...}} | {'missing' | 'malformed' | 'foreign' | 'payload', now}
--
-- A log of the wrong type reads as empty: the log is a view, control and payloads are the authority.
local id, every, owner, watched, input, limit, from, told = unpack(cmsgpack.unpack(ARGV[1]))

local function log()
  local entries
  if limit < 0 then
    entries = redis.pcall('XREVRANGE', key('l', id), '+', '-', 'COUNT', '1')
  else
    entries = redis.pcall('XRANGE', key('l', id), from, '+', 'COUNT', text(limit))
  end
  return failed(entries) and {} or entries
end

-- The submitter, the number of lines that there ever were, and the newest ones, oldest first.
local function history(c)
  local pushed, lines = notes(c)
  local out, listed = {}, pushed > 0 and redis.pcall('LRANGE', key('h', id), text(-told), '-1') or {}
  for _, line in ipairs(failed(listed) and {} or listed) do out[#out + 1] = line end
  local total = pushed
  for line in string.gmatch(lines, '[^\n]+') do
    out[#out + 1] = line
    total = total + 1
  end
  return {c['$'], total, unpack(out)}
end

local function read()
  local c, why = load(id)
  if not c then return {why, us} end
  if every ~= 1 and c.o ~= owner then return {'missing', us} end
  if watched == 1 then watch(c) end
  local reply = shown('ok', c)
  if #reply < 3 then return reply end
  reply[4] = (limit == 0 or c.g == '') and {} or log()
  reply[5] = false
  if told > 0 then reply[6] = history(c) end
  if input == 1 then
    reply[5] = redis.pcall('GET', key('i', id))
    if failed(reply[5]) or not reply[5] then return {'payload', us} end
  end
  return reply
end

return read()
