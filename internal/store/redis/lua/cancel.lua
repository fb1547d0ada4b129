-- cancel asks for an execution to stop, without having read it: one plan comes along for each phase.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] packed {id, every owner: 0 or 1, owner, plan if queued, if running, if waiting}  [2] reason, where there is one
-- Reply {'ok', now, view} | {'missing' | 'malformed' | 'foreign' | 'range', now}
--
-- Invariant 8: it changes nothing where a cancel is pending or the execution has ended, and wins in every other phase.
local id, every, owner, queued, running, waiting = unpack(cmsgpack.unpack(ARGV[1]))

local function cancel()
  local c, why = load(id)
  if not c then return {why, us} end
  if every ~= 1 and c.o ~= owner then return {'missing', us} end
  if ENDED[c.s] or c.x > 0 then
    repeated()
    return answer('ok', c)
  end
  local p = plan(({q = queued, r = running, w = waiting})[c.s], 2)
  local n, before = prepare(c, p)
  if not n then return {before, us} end
  commit(c, n, p, before)
  return answer('ok', n)
end

return cancel()
