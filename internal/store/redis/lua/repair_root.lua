-- repair_root removes a root that can't be read, so that it can be made anew.
--
-- KEYS  [1] root of the namespace
-- ARGV  [1] the most partitions that there can be
-- Reply 1 where none stands afterwards
local got = redis.pcall('HMGET', KEYS[1], 'schema', 'partitions')
local schema, partitions = tonumber(got[1] or ''), tonumber(got[2] or '')
local readable = schema and partitions and schema >= 1 and partitions >= 1 and partitions <= tonumber(ARGV[1])
if not readable then redis.call('DEL', KEYS[1]) end
return redis.call('EXISTS', KEYS[1]) == 0 and 1 or 0
