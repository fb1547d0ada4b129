-- inspect judges executions, index members, bindings and other keys of a partition.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] packed {'x', {id, ...}} | {'o', {id, ...}} | {'m', index, {id, ...}} | {'b', {digest, ...}} | {'k', {name, type, mortal: 0 or 1, ...}},
--           at most 100 of them; 'o': executions of which only what has no control is of interest
--       [2] how long a lease may be over, in ms
-- Reply {subject, code, ...}: what is wrong. See judge.lua
--
-- Writes nothing.
local what, list, ids = unpack(cmsgpack.unpack(ARGV[1]))
local overdue = tonumber(ARGV[2])
local out = {}

local function found(subject, code)
  if code == '' then return end
  out[#out + 1] = subject
  out[#out + 1] = code
end

if what == 'm' then
  for _, id in ipairs(ids) do found(id, judge_member(list, id)) end
elseif what == 'b' then
  for _, digest in ipairs(list) do found(digest, judge_binding(digest)) end
elseif what == 'k' then
  for i = 1, #list, 3 do found(list[i], judge_key(list[i], list[i + 1], list[i + 2])) end
else
  for _, id in ipairs(list) do
    local known = what == 'o' and redis.call('EXISTS', key('c', id)) == 1
    for _, code in ipairs(known and {} or (judge(id, overdue))) do found(id, code) end
  end
end
return out
