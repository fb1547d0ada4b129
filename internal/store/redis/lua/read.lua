-- read returns one execution as a client may see it, and marks its log as watched where asked to.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] packed {id, every owner: 0 or 1, owner, watch: 0 or 1, log entries at most, first log id}
-- Reply {'ok', now, view, {log id, {kind, data}, ...}} | {'missing' | 'malformed' | 'foreign' | 'payload', now}
--
-- A log of the wrong type reads as empty: the log is a view, control and payloads are the authority.
local id, every, owner, watched, limit, from = unpack(cmsgpack.unpack(ARGV[1]))

local function read()
  local c, why = load(id)
  if not c then return {why, us} end
  if every ~= 1 and c.o ~= owner then return {'missing', us} end
  if watched == 1 then watch(c) end
  local reply = shown('ok', c)
  if #reply == 3 and limit > 0 and c.g ~= '' then
    local log = redis.pcall('XRANGE', key('l', id), from, '+', 'COUNT', text(limit))
    reply[4] = failed(log) and {} or log
  end
  return reply
end

return read()
