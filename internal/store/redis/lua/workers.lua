-- workers tells which processes have polled of late.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] how many at most
-- Reply {now, packed {worker, queue, ...}, when, ...}, the newest first
--
-- Writes nothing.
local seen = redis.pcall('ZREVRANGE', anchor .. 'workers', '0', text(tonumber(ARGV[1]) - 1), 'WITHSCORES')
local out = {text(us)}
for i = 1, failed(seen) and 0 or #seen do out[i + 1] = seen[i] end
return out
