-- A control with all that stands in it: what applied returns holds only what changes.
local function whole(c)
  local base = getmetatable(c).__index
  if base == ABSENT then return c end
  local out = {}
  for f, v in pairs(base) do out[f] = v end
  for f, v in pairs(c) do out[f] = v end
  return out
end

-- The control as the client reads it, packed: field, value, field, value, and its id under 'id'.
local function record(c)
  local out = {}
  for f, v in pairs(whole(c)) do
    if not OWN[f] and v ~= 0 and v ~= '' then
      out[#out + 1] = f
      out[#out + 1] = v
    end
  end
  return cmsgpack.pack(out)
end
