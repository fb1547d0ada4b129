-- apply carries out one plan whose guard names what must hold.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] packed {id, plan}  then the payloads that the plan writes, then its progress
-- Reply packed {outcome, now, control, log ids}: 'ok' with the control afterwards; 'done' where this operation was applied
--       before; 'lost', 'stale' or 'moved' where the guard does not hold, with the present control; 'missing',
--       'malformed', 'foreign', 'range' and 'progress' (the stored list is no list) without one.
--
-- Invariants 3, 11: the operation token is compared before any guard, all guards before the first write.
local id, packed = unpack(cmsgpack.unpack(ARGV[1]))

local function apply()
  local p = plan(packed, 2)
  local c, why = load(id)
  if not c then return {why, us} end
  if p.operation ~= '' and string.sub(c.y, 1, #p.operation + 1) == p.operation .. ':' then
    repeated()
    return {'done', us, record(c)}
  end
  why = refusal(c, p)
  if why then return {why, us, record(c)} end
  local n, before = prepare(c, p)
  if not n then return {before, us} end
  local ids = commit(c, n, p, before)
  return {'ok', us, record(n), ids}
end

return cmsgpack.pack(apply())
