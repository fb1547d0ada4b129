-- resume answers the open wait.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] packed {id, every owner: 0 or 1, owner, sequence named by the client or 0, sequence checked or 0,
--           key digest or '', body digest, plan}  [2] answer
-- Reply {'ok' | 'replayed' | 'unchecked', now, view}
--       | {'idle' | 'moved' | 'reused' | 'missing' | 'malformed' | 'foreign' | 'range' | 'payload', now}, with the open
--         wait's sequence after 'moved' and the status after 'idle'
--
-- Invariant 7: the key is compared before the wait, and bound in the write that applies the answer.
local id, every, owner, sequence, checked, digest, body, packed = unpack(cmsgpack.unpack(ARGV[1]))

local function bound_answer()
  if digest == '' then return nil end
  local value = redis.pcall('HGET', key('n', id), digest)
  if failed(value) then return 'malformed' end
  if value then return value == body and 'replayed' or 'reused' end
end

local function apply(c)
  local p = plan(packed, 2)
  local n, before = prepare(c, p)
  if not n then return {before, us} end
  commit(c, n, p, before)
  if digest ~= '' then redis.call('HSET', key('n', id), digest, body) end
  return answer('ok', n)
end

local function resume()
  local c, why = load(id)
  if not c then return {why, us} end
  if every ~= 1 and c.o ~= owner then return {'missing', us} end
  local seen = bound_answer()
  if seen == 'replayed' then
    repeated()
    return answer(seen, c)
  end
  if seen then return {seen, us} end
  if c.s ~= 'w' then return {'idle', us, c.s} end
  if sequence ~= 0 and sequence ~= c.q then return {'moved', us, c.q} end
  if checked ~= c.q then return shown('unchecked', c) end
  return apply(c)
end

return resume()
