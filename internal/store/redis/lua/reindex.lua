-- Index upkeep of an execution whose control changes. It belongs to index.lua, and is apart since the server makes every function anew on
-- each run of a script.

-- Puts the backstop on everything that outlives the end: keys go by themselves a day after maintenance should have
-- removed them.
local function expire(c, n)
  local function ttl(kind) redis.call('PEXPIRE', key(kind, n.id), BACKSTOP) end
  ttl('c')
  ttl('i')
  if n.a > 0 and not bare(c) then
    ttl('k')
    ttl('n')
  end
  if n.x > 0 then ttl('x') end
  if n.p > 0 then ttl('p') end
  if string.sub(n['%'], 1, 1) == '+' then ttl('h') end
  if n['~'] ~= '' then ttl('m') end
  if n['#'] ~= '' then redis.call('PEXPIRE', key('b', n['#']), BACKSTOP) end
  if n.g ~= '' then redis.call('PEXPIRE', key('l', n.id), text(STREAM_TTL)) end
end

-- Moves an execution from the indexes of its old status to those of its new one.
local function reindex(c, n, before)
  local q, moves, place = queue(c), c.d ~= n.d or c.r ~= n.r, nil
  if c.s ~= n.s then
    if LISTED[c.s] then leave('status:' .. c.s, c.id) end
    if LISTED[n.s] then enter('status:' .. n.s, n.b, n.id) end
    if expiry(c) > 0 then leave('waits', c.id) end
  end
  if moves then place = moved(c, n) end
  if c.s == 'w' and (moves or n.s ~= 'w') then leave('waiting:' .. q, c.id) end
  if n.s == 'w' and (moves or c.s ~= 'w') then enter('waiting:' .. queue(n), n.b, n.id) end
  if c.s == 'q' then
    leave('ready:' .. q, c.id)
    if c.l > 0 then leave('solitary:' .. q, c.id) end
    if c.t > 0 or n.s ~= 'r' then leave('delayed:' .. q, c.id) end -- a release that does not know it may have put it off
  elseif c.s == 'r' and n.s ~= 'r' then
    leave('leases', c.id)
    leave('running', c.id)
  end
  local due = expiry(n)
  if due > 0 then enter('waits', due, n.id) end
  if n.s == 'q' then
    enqueue(n, place)
  elseif n.s == 'r' and n.e ~= c.e then
    enter('leases', n.e, n.id)
    if c.s ~= 'r' then enter('running', n.e, n.id) end
  elseif ENDED[n.s] then
    free(n, before)
    if n['@'] ~= '' then leave(owned_by(n.o), n.id) end
    enter('retention', ms + TERMINAL_TTL, n.id)
    expire(c, n)
  end
end
