-- poll hands out due work of the revisions that a process runs, and tells what lies ahead.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] packed {worker, token, payload bytes at most or 0, mode, {queue, count, index of its plan, ...}, {plan, ...},
--           longest lease in ms, number or 0}
--           mode: the sum of 1 continued, 2 shared, 4 solitary, 8 yields, 16 doubt, 32 brief
--           count: -1 nothing, 0 tell only whether there is some
-- Reply {packed {now, next due or 0, more, left, ahead, malformed, held},
--       {control, input, checkpoint, answer, the sum of 1 invalid and 2 as it stood before the claim}, ...}
--       more: the bounds of this script left due work that was asked for; left: the places among the queues asked for, from
--       0, of those of which there is more due than was asked for; ahead: in how many milliseconds the lease that ends soonest
--       runs out, 0 where something is overdue, -1 where nothing runs; held: 1 where work on its last chance waits, 2 where
--       this worker is to become empty for it. Of a solitary and of a brief one only left, more and malformed count.
--
-- Invariants 3, 4, 11: a claim is handed out once. The ids of a worker's batch stand under its token for a lease, so that a
-- repeat hands out the same claims at no cost to a budget. A continued poll adds to the batch of its token, unless a repeat in
-- doubt has settled that: what it would add, nobody would hear of. Of a shared one, which asks several partitions, each
-- remembers also that it gave nothing, and so does one in doubt, of which a copy may be under way: that, and any with a lower
-- number than what is remembered, claims nothing. At most 100 members are moved or looked at. What had fallen due before the
-- clock was set back is put back. What can't be read leaves the index, what this release does not know is put off. Work on its
-- last chance is handed out to a solitary poll only, one at a time: it never fails for what runs beside it. The parts before this one are claims.lua,
-- ripen.lua and solitary.lua.

-- In how many milliseconds the lease that ends soonest runs out; 0: something is overdue; -1: nothing runs.
local function ahead()
  for _, index in ipairs({'waits', 'retention'}) do
    local n = redis.pcall('ZCOUNT', anchor .. index, '-inf', text(ms))
    if not failed(n) and n > 0 then return 0 end
  end
  local head = redis.pcall('ZRANGE', anchor .. 'leases', '0', '0', 'WITHSCORES')
  if failed(head) or #head == 0 then return -1 end
  return math.max(tonumber(head[2]) - ms, 0)
end

-- Says which revisions are served, a thousand at a time: Lua passes no more than some thousand arguments. And who serves them.
local function present()
  local who = {worker}
  for i = 1, #wants, 3 do who[#who + 1] = wants[i] end
  try('ZADD', anchor .. 'workers', text(ms), cmsgpack.pack(who))
  for from = 1, #wants, 3000 do
    local seen = {}
    for i = from, math.min(from + 2999, #wants), 3 do
      seen[#seen + 1] = text(ms)
      seen[#seen + 1] = wants[i]
    end
    try('ZADD', anchor .. 'served', unpack(seen))
  end
end

-- Sees to what has fallen due, where some is wanted, and notes what will.
local function look_ahead(q, wanted)
  local due = next_due(q)
  if due and due <= ms then
    if wanted >= 0 then ripen(q, wanted) end
    due = redis.call('ZRANGEBYSCORE', anchor .. 'delayed:' .. q, '(' .. text(ms), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]
    due = tonumber(due)
  end
  if due and (soonest == 0 or due < soonest) then soonest = due end
end

local function serve_all(plans)
  if not work or not one and not brief and not any('ready:') then return end
  for i = 1, #wants, 3 do
    if wants[i + 1] >= 0 then serve((i - 1) / 3, wants[i], wants[i + 1], plans[wants[i + 2]]) end
  end
end

if not solitary and not brief and work and (one or any('delayed:')) then
  for i = 1, #wants, 3 do look_ahead(wants[i], wants[i + 1]) end
end
local failure
if not replay() then
  local plans = {}
  for i, h in ipairs(packed) do plans[i] = plan(h, 2) end
  local hand = solitary and serve_solitary or serve_all
  failure = together(hand, plans)
  if #out > 1 or (shared or doubt) and lease > 0 then remember() end
end
if not brief then present() end
if solitary or brief then
  out[1] = cmsgpack.pack({us, 0, more, left, -1, malformed, 0})
else
  out[1] = cmsgpack.pack({us, soonest, more, left, ahead(), malformed, work and any('solitary:') and held() or 0})
end
return failure or out
