-- The event log of an execution: one field an entry, its name the kind, its value the data.

-- The log's name when it is begun now; later than the one before it.
local function epoch(c)
  return text(math.max(ms, (tonumber(c.g) or 0) + 1))
end

-- Entries that a plan leaves in the log: its progress, as much as the log keeps, then the change of status or the end. See
-- Plan.LogEntries.
local function entries(c, n, progress, wait)
  local wanted, out = #progress > 0 or c.g ~= '' or c.m > ms, {}
  if not wanted then return out end
  for i = math.max(1, #progress - HISTORY_CHUNKS + 1), #progress do out[#out + 1] = {'p', progress[i]} end
  if c.s ~= n.s then
    local numbers = {n.s, text(n.a), text(n.v), text(n.t), text(n.h)}
    local shown = n.s == 'w' and wait or ''
    out[#out + 1] = {ENDED[n.s] and 'e' or 's', table.concat(numbers, ' ') .. '\n' .. shown}
  end
  return out
end

-- Appends entries and returns their ids. The log keeps no more entries than chunks, also of one that nobody streams to: each
-- counts as a chunk at least. A log of another type, or one that takes nothing more, gives way to a new one: it never blocks
-- a transition.
local function append(n, list)
  local ids = {}
  for i, entry in ipairs(list) do
    local id = redis.pcall('XADD', key('l', n.id), 'MAXLEN', text(HISTORY_CHUNKS), '*', entry[1], entry[2])
    if failed(id) then
      n.g = epoch(n)
      redis.call('DEL', key('l', n.id))
      redis.call('HSET', key('c', n.id), 'g', n.g)
      id = redis.call('XADD', key('l', n.id), '*', entry[1], entry[2])
    end
    ids[i] = id
  end
  return ids
end
