-- apply carries out plans, each of one execution, whose guards name what must hold.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] packed {id, plan, where in ARGV its payloads begin, id, ...}  then for each the payloads that its plan writes and
--           its progress
-- Reply {packed {outcome, now, ...}, ...}: 'ok' with the log ids, and what no version tells of the control afterwards: end of the
--       lease, watched until, name of the log; 'done' where this operation was applied before, 'lost', 'stale' or 'moved' where
--       the guard does not hold, with the present control; 'missing', 'malformed', 'foreign', 'range' and 'progress' (the stored
--       list is no list) with nothing. An error in its place is that of one execution alone.
--
-- Invariants 3, 11: the operation token is compared before any guard, all guards of a plan before its first write.
local function apply(id, packed, at)
  local p = plan(packed, at)
  local c, why = load(id)
  if not c then return {why, us} end
  if p.operation ~= '' and c.y ~= '' and string.sub(c.y, 1, #p.operation + 1) == p.operation .. ':' then
    repeated()
    return {'done', us, record(c)}
  end
  why = refusal(c, p)
  if why then return {why, us, record(c)} end
  local n, before = prepare(c, p)
  if not n then return {before, us} end
  local ids = commit(c, n, p, before)
  return {'ok', us, ids, n.e, n.m, n.g}
end

local wanted = cmsgpack.unpack(ARGV[1])
return each(#wanted / 3, function(i) return cmsgpack.pack(apply(wanted[3 * i - 2], wanted[3 * i - 1], wanted[3 * i])) end)
