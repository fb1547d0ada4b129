-- remove erases ended executions whose retention is over, with everything that belongs to them, and ends a pass of
-- maintenance over a page: it prunes the index of what is served.
--
-- KEYS  [1] anchor of the partition
-- ARGV  at most 100 ids
-- Reply packed {removed, malformed, foreign}
--
-- Invariants 9, 10: keys, index member and binding go together, and nothing of an unfinished execution is touched.
local removed, malformed, unknown = 0, 0, 0

local function over(id)
  local score = redis.pcall('ZSCORE', anchor .. 'retention', id)
  return score and not failed(score) and tonumber(score) <= ms
end

local function erase(id, c)
  redis.call('UNLINK', unpack((belongings(id, c and c['#']))))
  leave('retention', id)
  if c then
    delist(c)
  else
    delist_raw(id, {})
  end
end

for _, id in ipairs(ARGV) do
  if over(id) then
    local c, why = load(id)
    if why == 'foreign' then
      unknown = unknown + 1
    elseif why == 'malformed' then
      reject(id, 'retention')
      malformed = malformed + 1
    elseif c and not ENDED[c.s] then
      leave('retention', id)
    else
      erase(id, c)
      removed = removed + 1
    end
  end
end
prune()
return cmsgpack.pack({removed, malformed, unknown})
