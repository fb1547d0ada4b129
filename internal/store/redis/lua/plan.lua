-- Plans as they arrive, and their payloads. What carries them out is commit.lua.

-- A plan as the client packs it. Its payloads stand in ARGV from at on, then its progress.
local function plan(h, at)
  return {
    guard = h[1], worker = h[2], token = h[3], fence = h[4], margin = h[5], operation = h[6], version = h[7],
    sequence = h[8], status = h[9], drop = h[10] == 1, changes = h[11], writes = h[12], erases = h[13], events = h[14],
    note = h[15], at = at,
  }
end

-- Whether nothing of an execution can stand but its input, its progress and its log: its first attempt runs, and has stored no checkpoint.
local function bare(c)
  return c.s == 'r' and c.a == 1 and c.c == 1
end

local function write_payloads(c, n, p)
  for i, kind in ipairs(p.writes) do
    if ENDED[n.s] then
      redis.call('SET', key(kind, n.id), ARGV[p.at + i - 1], 'PX', BACKSTOP)
    else
      redis.call('SET', key(kind, n.id), ARGV[p.at + i - 1])
    end
  end
  if #p.erases > 0 and not bare(c) then
    local keys = {}
    for i, kind in ipairs(p.erases) do keys[i] = key(kind, n.id) end
    redis.call('DEL', unpack(keys))
  end
end
