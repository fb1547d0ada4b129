-- attach creates the namespace's root, or returns the one that stands.
--
-- KEYS  [1] root of the namespace
-- ARGV  [1] schema version  [2] number of partitions
-- Reply {schema version, number of partitions}
--
-- What it holds is fixed at creation. The only script that is not of a partition.
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'schema', ARGV[1], 'partitions', ARGV[2], 'created', redis.call('TIME')[1])
end
return redis.call('HMGET', KEYS[1], 'schema', 'partitions')
