-- inspect_capacity takes a sample of a partition's counters, or tells what some executions count for.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] packed {token or '', since, {id, ...}}, at most 100 ids
-- Reply packed {now in ms, {counter, value, ...}} without ids, after leaving the token
--       packed {now in ms, {deployment, revision, created, ended or 0, ...}, {deployment or '', revision or '', ...}} with
--       ids: those that were unfinished at since or later, and those of which nobody can tell whether they were
--
-- The token is what tells a repair that no other doctor has counted meanwhile. Without one nothing is written.
local token, since, ids = unpack(cmsgpack.unpack(ARGV[1]))

local TALLY_TTL = 3600000

local function sample()
  if token ~= '' then first('SET', anchor .. 'tally', token, 'PX', text(TALLY_TTL)) end
  local raw = redis.pcall('HGETALL', anchor .. 'capacity')
  return cmsgpack.pack({ms, failed(raw) and {} or raw})
end

-- A control that can't be read holds a place until it is listed as malformed.
local function unclear(id, why)
  if why == 'missing' or why == 'malformed' and redis.pcall('ZSCORE', anchor .. 'malformed', id) then return nil end
  local raw = redis.pcall('HMGET', key('c', id), 'd', 'r', 's')
  if failed(raw) then return '', '' end
  if ENDED[raw[3] or ''] then return nil end
  return raw[1] or '', raw[2] or ''
end

-- Whether a control was created, or ended, before the clock was set back, so that its stamps do not tell when.
local function ahead(c)
  return c.b > ms or ENDED[c.s] and c.u > ms
end

local function tally()
  local known, unknown = {}, {}
  for _, id in ipairs(ids) do
    local c, why = load(id)
    local d, r
    if not c then
      d, r = unclear(id, why)
    elseif ahead(c) then
      d, r = c.d, c.r
    elseif not ENDED[c.s] or c.u >= since then
      for _, v in ipairs({c.d, c.r, c.b, ENDED[c.s] and c.u or 0}) do known[#known + 1] = v end
    end
    if d then
      unknown[#unknown + 1] = d
      unknown[#unknown + 1] = r
    end
  end
  return cmsgpack.pack({ms, known, unknown})
end

return #ids == 0 and sample() or tally()
