-- Work on its last chance, which is handed out alone.

-- Since when the member of a queue waits that waits longest for a process that runs nothing else: from now on, where the clock
-- was set back since it came.
local function held_since(q)
  local head = redis.pcall('ZRANGE', anchor .. 'solitary:' .. q, '0', '0', 'WITHSCORES')
  if failed(head) or #head == 0 then return nil end
  local since = tonumber(head[2])
  if since <= ms then return since end
  enter('solitary:' .. q, ms, head[1])
  return ms
end

-- The places of the queues in which work on its last chance waits, the longest wait first.
local function held_places()
  local out = {}
  for i = 1, #wants, 3 do
    local since = held_since(wants[i])
    if since then out[#out + 1] = {since = since, at = i} end
  end
  table.sort(out, function(a, b) return a.since < b.since or a.since == b.since and a.at < b.at end)
  return out
end

-- Claims the one member that waits longest, of the queues asked for.
local function serve_solitary(plans)
  if not any('solitary:') then return end
  for _, place in ipairs(held_places()) do
    local q, p = wants[place.at], plans[wants[place.at + 2]]
    while wants[place.at + 1] > 0 and held_since(q) and not full() do
      looked = looked + 1
      local id = redis.call('ZRANGE', anchor .. 'solitary:' .. q, '0', '0')[1]
      local fate = take('solitary:', q, id, p)
      flush() -- the next look must not show it again
      if fate == 'claimed' then
        if redis.pcall('GET', anchor .. 'turn:' .. q) == worker then redis.call('DEL', anchor .. 'turn:' .. q) end
        return
      end
    end
  end
end

-- Whether it is this worker's turn to become empty for a queue. Nobody else takes it for a lease; one that lasts for longer was
-- taken before the clock was set back.
local function turn(q)
  local name, ttl = anchor .. 'turn:' .. q, text(math.max(lease, 1))
  local took = try('SET', name, worker, 'NX', 'PX', ttl)
  if took and not failed(took) then return true end
  if redis.pcall('GET', name) ~= worker and redis.call('PTTL', name) <= math.max(lease, longest) then return false end
  redis.call('SET', name, worker, 'PX', ttl)
  return true
end

-- Whether work on its last chance waits, and whether this worker is to become empty for it, since it has waited for a lease.
local function held()
  local out = 0
  for _, place in ipairs(held_places()) do
    out = math.max(out, 1)
    if yields and ms - place.since >= lease and turn(wants[place.at]) then out = 2 end
  end
  return out
end
