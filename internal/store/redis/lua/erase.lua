-- erase removes an execution, or the oldest ones of an owner, with all that belongs to them, whatever they are doing.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] packed {'x', id, every owner: 0 or 1, owner} | {'o', owner, members to look at, members to pass over}
-- Reply packed {'ok', now, executions, unfinished, idempotency keys, kept, more: 0 or 1, {id, ...}}
--       | packed {'missing' | 'malformed' | 'foreign', now}
--       The ids are those of executions that ran. kept: of a schema that this release does not know, or of another owner whose
--       name has the same hash.
--
-- Invariants 3, 9, 10: with the control its fence is gone, so that whoever ran the work is refused from now on; keys, index
-- members, binding and place go together. At most 100 executions.
local what, subject, limit, from = unpack(cmsgpack.unpack(ARGV[1]))
local executions, unfinished, bindings, kept, more, ran = 0, 0, 0, 0, 0, {}

-- c is a control, or what can be read of one.
local function wipe(id, c, holds_place)
  local before = holds_place and c.d and c.r and counters(c)
  local keys, bound = belongings(id, c['#'])
  redis.call('UNLINK', unpack(keys))
  if before then free(c, before) end
  if holds_place then
    redis.call('DEL', anchor .. 'tally')
    unfinished = unfinished + 1
  end
  vanish(id, c.d and c.r and {[queue(c)] = true} or {}, c)
  executions = executions + 1
  if bound then bindings = bindings + 1 end
  if c.s == 'r' then ran[#ran + 1] = id end
end

-- Erases what can't be read; its place was freed when it was listed as malformed.
local function wipe_raw(id, raw)
  local listed = redis.pcall('ZSCORE', anchor .. 'malformed', id)
  wipe(id, raw, not (listed and not failed(listed)) and not ENDED[raw.s or ''])
end

local function one(id)
  local c, why = load(id)
  if why == 'malformed' and limit == 1 then
    wipe_raw(id, parts(id))
  elseif not c then
    return why
  elseif limit ~= 1 and c.o ~= from then
    return 'missing'
  else
    wipe(id, c, not ENDED[c.s])
  end
  return 'ok'
end

-- What can't be read has left the owner's index, and is looked for among all of its kind.
local function malformed(owner)
  local ids = redis.pcall('ZRANGE', anchor .. 'malformed', '0', '99')
  if failed(ids) then return end
  for _, id in ipairs(ids) do
    local raw = parts(id)
    if raw.o == owner then wipe_raw(id, raw) end
  end
end

local function all(owner)
  local index = by('owner', owner)
  local ids = redis.pcall('ZRANGE', anchor .. index, text(from), text(from + limit - 1))
  if failed(ids) then return end
  for _, id in ipairs(ids) do
    local c, why = load(id)
    if c and c.o == owner then
      wipe(id, c, not ENDED[c.s])
    elseif why == 'malformed' then
      reject(id, index)
    elseif why == 'missing' then
      leave(index, id)
    else
      kept = kept + 1
    end
  end
  if #ids == limit then more = 1 else malformed(owner) end
end

local outcome = 'ok'
if what == 'x' then outcome = one(subject) else all(subject) end
if outcome ~= 'ok' then return cmsgpack.pack({outcome, us}) end
return cmsgpack.pack({outcome, us, executions, unfinished, bindings, kept, more, ran})
