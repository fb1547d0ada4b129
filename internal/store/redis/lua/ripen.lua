-- Moves members that have fallen due to the set from which they are claimed, where they stay: as many as may be claimed, so
-- that a queue with very many leaves the others their part of the bound.
local function ripen(q, wanted)
  local most = math.min(math.max(wanted, 1), BOUND - moved)
  if most == 0 then
    unripe[q] = true
    return
  end
  local due = redis.call('ZRANGEBYSCORE', anchor .. 'delayed:' .. q, '-inf', text(ms), 'WITHSCORES', 'LIMIT', '0', text(most))
  local scored, ids = {}, {}
  for i = 1, #due, 2 do
    ids[#ids + 1] = due[i]
    scored[#scored + 1] = text(rank(tonumber(due[i + 1]), priority_of(due[i])))
    scored[#scored + 1] = due[i]
  end
  moved = moved + #ids
  unripe[q] = #ids == most
  redis.call('ZREM', anchor .. 'delayed:' .. q, unpack(ids))
  if failed(redis.pcall('ZADD', anchor .. 'ready:' .. q, unpack(scored))) then
    redis.call('DEL', anchor .. 'ready:' .. q)
    redis.call('ZADD', anchor .. 'ready:' .. q, unpack(scored))
  end
end
