-- The place among what may be claimed of a queued execution, which it keeps where it is moved to another revision.
local function place_of(c)
  for _, index in ipairs({'ready:', 'solitary:'}) do
    local score = redis.pcall('ZSCORE', anchor .. index .. queue(c), c.id)
    if score and not failed(score) then return tonumber(score) end
  end
end

-- Counts an execution for the revision that it is moved to; one that is not positive stays as it is.
local function recount(c, n)
  local from, to = counters(c), counters(n)
  if not from or not to then return end
  if from[2] > 0 then count(queue(c), from[2] - 1) end
  count(queue(n), to[2] + 1)
end

-- Counts an execution for the revision that it is moved to, and returns the place that it keeps in the queue.
local function moved(c, n)
  recount(c, n)
  return c.s == 'q' and n.s == 'q' and place_of(c) or nil
end
