-- repair_capacity takes what a counter is off by away from it.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] packed {token, counter, by how much it is too high, its text where that can't be read}
-- Reply 1 where it was done
--
-- Invariant 9: what a counter is off by stays the same while work comes and goes, so it is taken away whatever the counter
-- shows now. The token tells that no other doctor has counted, and so maybe repaired, since.
local token, field, drift, unreadable = unpack(cmsgpack.unpack(ARGV[1]))
local left = redis.pcall('GET', anchor .. 'tally')
local raw = redis.pcall('HGET', anchor .. 'capacity', field)
if left ~= token or failed(raw) then return 0 end
local value = integer(raw or '0')
if not value and raw ~= unreadable then return 0 end
local right = (value or 0) - drift
if right < 0 then return 0 end
redis.call('DEL', anchor .. 'tally')
count(field, right)
return 1
