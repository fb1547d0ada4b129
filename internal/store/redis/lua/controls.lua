-- controls reads many controls of a partition, and keeps their logs marked as watched.
--
-- KEYS  [1] anchor of the partition
-- ARGV  at most 100 ids
-- Reply one control for each id, in order; empty where there is none or it can't be read
local out = {}
for i, id in ipairs(ARGV) do
  local c = load(id)
  if c then watch(c) end
  out[i] = c and record(c) or ''
end
return out
