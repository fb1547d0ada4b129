-- attach creates the namespace's root, or returns the one that stands, and counts server runs.
--
-- KEYS  [1] root of the namespace
-- ARGV  [1] schema version  [2] number of partitions  [3] ids of the server runs, '' where they are not known
--       [4] epoch that the caller knows, 0 where it knows none
-- Reply {schema version, number of partitions, epoch, epoch before, 1 where the root was created}
--
-- Schema and partitions are fixed at creation. The epoch grows when other runs answer than those that stand there; a root
-- that is lost goes on from the epoch that the caller knows. Writes nothing to a namespace that the caller can't work on. The
-- only script that is not of a partition. The first write is one that Redis allows at maxmemory.
local schema, partitions, runs, known = unpack(ARGV)
local root = redis.call('HMGET', KEYS[1], 'schema', 'partitions', 'epoch', 'runs')

local function integer(field)
  return tonumber(field or '') or 0
end

local function record(epoch)
  redis.call('HDEL', KEYS[1], 'none')
  redis.call('HSET', KEYS[1], 'epoch', string.format('%.0f', epoch), 'runs', runs)
  return epoch
end

if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HDEL', KEYS[1], 'none')
  redis.call('HSET', KEYS[1], 'schema', schema, 'partitions', partitions, 'created', redis.call('TIME')[1])
  return {schema, partitions, record(integer(known) + 1), integer(known), 1}
end

local before = math.max(integer(root[3]), 1)
local epoch = before
local ours = root[2] == partitions and root[1] and integer(root[1]) <= integer(schema)
if ours and runs ~= '' and root[4] ~= runs then
  local first = (root[4] or '') == ''
  epoch = record(first and before or math.max(before, integer(known)) + 1)
end
return {root[1], root[2], epoch, before, 0}
