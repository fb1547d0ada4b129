-- The list of progress events after a plan.
local function write_progress(n, p, events)
  if p.drop then redis.call('DEL', key('p', n.id)) end
  for i = math.max(1, #events - PROGRESS_EVENTS + 1), #events, 1000 do
    local length = redis.call('RPUSH', key('p', n.id), unpack(events, i, math.min(i + 999, #events)))
    if length > PROGRESS_EVENTS then redis.call('LTRIM', key('p', n.id), text(-PROGRESS_EVENTS), '-1') end
  end
end
