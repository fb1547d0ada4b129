-- counts tells what a partition holds, by revision.
--
-- KEYS  [1] anchor of the partition
-- Reply {now, leases, malformed, refusal, {queue, nonterminal, ready, delayed, waiting, oldest, served, ...}}
--
-- refusal: why the server would refuse a submission now, in its own words, or ''. Its cost grows with the number of
-- revisions only. Writes nothing.
local function pairs_of(reply)
  local out = {}
  if failed(reply) then return out end
  for i = 1, #reply, 2 do out[reply[i]] = reply[i + 1] end
  return out
end

local function size(index)
  local n = redis.pcall('ZCARD', anchor .. index)
  return failed(n) and 0 or n
end

-- How many of a revision are due, how many are not, and since when the due one waits that is claimed next.
local function backlog(q)
  local sizes = {ready = size('ready:' .. q), solitary = size('solitary:' .. q), delayed = 0}
  local delayed, oldest = size('delayed:' .. q), nil
  if delayed > 0 then sizes.delayed = redis.call('ZCOUNT', anchor .. 'delayed:' .. q, '-inf', text(ms)) end
  for index, n in pairs(sizes) do
    if n > 0 then
      local head = redis.call('ZRANGE', anchor .. index .. ':' .. q, '0', '0', 'WITHSCORES')
      local since = tonumber(head[2])
      if index == 'ready' then since = since + priority_of(head[1]) * PRIORITY_STEP end
      oldest = math.min(oldest or since, since)
    end
  end
  return sizes.ready + sizes.solitary + sizes.delayed, delayed - sizes.delayed, oldest or 0
end

-- What the server says to a write that may take memory; there is no key that this one could write.
local function refusal()
  local reply = redis.pcall('SET', anchor .. 'none', '', 'XX')
  return failed(reply) and reply.err or ''
end

local held = pairs_of(redis.pcall('HGETALL', anchor .. 'capacity'))
local served = pairs_of(redis.pcall('ZRANGE', anchor .. 'served', '0', '-1', 'WITHSCORES'))
local names, out = {}, {}
for name in pairs(held) do
  if string.find(name, '@', 1, true) then names[name] = true end
end
for name in pairs(served) do names[name] = true end
for name in pairs(names) do
  local ready, delayed, oldest = backlog(name)
  out[#out + 1] = {name, tonumber(held[name] or 0) or 0, ready, delayed, size('waiting:' .. name), oldest, tonumber(served[name] or 0)}
end
return cmsgpack.pack({us, size('leases'), size('malformed'), refusal(), out})
