-- Plans: their guard, and carrying them out as a whole. Nothing is written before everything that may refuse was asked.
local OWNED, EXPIRED, WAIT, WAIT_EXPIRED, OVERDUE = 1, 2, 3, 4, 5

-- Why the guard does not hold: 'lost', 'stale', 'moved'; nil where it does.
local function refusal(c, p)
  if p.guard == OWNED then
    if not owned(c, p.worker, p.token, p.fence, p.margin) then return 'lost' end
    if c.v ~= p.version then return 'moved' end
  elseif p.guard == EXPIRED then
    if c.s ~= 'r' or c.f ~= p.fence or ms < c.e then return 'stale' end
    if c.v ~= p.version then return 'moved' end
  elseif p.guard == WAIT or p.guard == WAIT_EXPIRED then
    if c.s ~= 'w' or c.q ~= p.sequence then return 'stale' end
    if p.guard == WAIT_EXPIRED and (c.h == 0 or ms < c.h) then return 'stale' end
  elseif p.guard == OVERDUE then
    local at = expiry(c)
    if at == 0 or ms < at then return 'stale' end
    if c.v ~= p.version then return 'moved' end
  end
end

-- The control after the plan, and the counters where the plan frees a place; nil and why where it can't be carried out.
local function prepare(c, p)
  local n = applied(c, p.changes, p.status)
  if not n then return nil, 'range' end
  if p.events > 0 and not p.drop then
    local kind = redis.call('TYPE', key('p', c.id)).ok
    if kind ~= 'list' and kind ~= 'none' then return nil, 'progress' end
  end
  return n, ENDED[n.s] and counters(c) or nil
end

-- The plan's progress, as it stands in ARGV behind the payloads.
local NONE = {}
local function events_of(p)
  if p.events == 0 then return NONE end
  local events = {}
  for i = 1, p.events do events[i] = ARGV[p.at + #p.writes + i - 1] end
  return events
end

local function wait_of(p)
  for i, kind in ipairs(p.writes) do
    if kind == 'w' then return ARGV[p.at + i - 1] end
  end
end

-- Carries the plan out; n and before come from prepare. Returns the ids of the log entries.
local function commit(c, n, p, before)
  local events = events_of(p)
  local list = entries(c, n, events, wait_of(p))
  if #list > 0 and n.g == '' then n.g = epoch(n) end
  local out = tell(c, n, p.note)
  save(c, n)
  spill(n, out)
  write_payloads(c, n, p)
  if p.drop or #events > 0 then write_progress(n, p, events) end
  local ids = append(n, list)
  reindex(c, n, before)
  return ids
end
