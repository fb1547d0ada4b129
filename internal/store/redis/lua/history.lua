-- The history of an execution: a line for each transition, as HistoryEntry.Line of package execution writes it. The newest stand in
-- the control, under '%', as long as they are short, so that most executions need nothing more; older ones in a list of their own.
-- The control then begins with "+<how many ever went there>" and a newline. The history is a view: it never blocks a transition.
local HISTORY = 99 -- lines that the list keeps
local NOTES = 64 -- bytes in the control: what a listpack takes

-- How many lines ever went to the list, and those in the control.
local function notes(c)
  local pushed, lines = string.match(c['%'], '^%+(%d+)\n(.*)$')
  if pushed then return tonumber(pushed), lines end
  return 0, c['%']
end

-- The line of a plan's note, and the lines before it: without the last, of which it takes the place where both are checkpoints.
local function noted(lines, n, note)
  local head, detail = string.sub(note, 1, 1) .. text(n.a), string.sub(note, 2)
  if head == 'c' .. text(n.a) then detail = '\t' .. n.w end
  if string.sub(note, 1, 1) == 'k' then
    local before, times = string.match('\n' .. lines, '^(.*)\n' .. head .. 'x?(%d*)\t%d+$')
    if before then
      lines = string.sub(before, 2)
      head = head .. 'x' .. text((tonumber(times) or 1) + 1)
    end
  end
  return head .. '\t' .. text(n.u - n.b) .. detail, lines
end

local function kept(pushed, lines)
  return pushed > 0 and '+' .. text(pushed) .. '\n' .. lines or lines
end

-- Adds a note to the history of n, which follows c, before n is saved. Returns what the control has no room for: see spill.
local function tell(c, n, note)
  if note == '' then return nil end
  local pushed, lines = notes(c)
  local line, before = noted(lines, n, note)
  n['%'] = kept(pushed, before == '' and line or before .. '\n' .. line)
  if #n['%'] <= NOTES then return nil end
  local out = {}
  for old in string.gmatch(before, '[^\n]+') do out[#out + 1] = old end
  n['%'] = kept(pushed + #out, line)
  if #n['%'] > NOTES then
    out[#out + 1] = line
    n['%'] = kept(pushed + #out, '')
  end
  return out
end

-- Adds to the list what the control has no room for, once it is saved. A key of another type gives way to a new one.
local function spill(n, out)
  if not out then return end
  local name = key('h', n.id)
  local length = redis.pcall('RPUSH', name, unpack(out))
  if failed(length) then
    redis.call('DEL', name)
    length = redis.call('RPUSH', name, unpack(out))
  end
  if length > HISTORY then redis.call('LTRIM', name, text(-HISTORY), '-1') end
end
