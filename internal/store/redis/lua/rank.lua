-- The order of claims.

-- The place in the order of claims of work that is due since then: Control.Rank.
local PRIORITY_STEP = 60000
local function rank(since, priority)
  return since - priority * PRIORITY_STEP
end

-- The priority of an execution whose control is not read otherwise; 0 where none can be read.
local function priority_of(id)
  local raw = redis.pcall('HGET', key('c', id), 'i')
  return type(raw) == 'string' and string.find(raw, '^%d$') and tonumber(raw) or 0
end
