-- find looks an idempotency key up.
--
-- KEYS  [1] anchor of the partition
-- ARGV  [1] key digest  [2] fingerprint
-- Reply {'found', now, view} | {'missing' | 'reused' | 'malformed' | 'foreign', now}
--
-- Invariant 2: the answer is what submit would give. Writes nothing
-- that lasts.
local c, why = bound(ARGV[1], ARGV[2])
if not c then return {why, us} end
repeated()
return answer('found', c)
