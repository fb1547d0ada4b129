-- The indexes into which people look.

-- The name of an index by something that may be long, or that must not show. Members are held against their control, so two
-- that share a name only make each other's pages slower.
local function by(kind, value)
  return kind .. ':' .. string.sub(redis.sha1hex(value), 1, 16)
end

-- Indexes by the time of creation, for those who look for executions: all of them, and those of a deployment, an owner, a
-- label, and a status that is listed.
local function listings(c)
  local out = {'all', 'of:' .. c.d}
  if c.o ~= '' then out[3] = by('owner', c.o) end
  for label in string.gmatch(c.lb, '[^\n]+') do out[#out + 1] = by('label', label) end
  if LISTED[c.s] then out[#out + 1] = 'status:' .. c.s end
  return out
end

local function enlist(c)
  for _, index in ipairs(listings(c)) do enter(index, c.b, c.id) end
end
