-- check proves that scripts of a partition run and may write.
--
-- KEYS  [1] anchor of the partition
-- Reply now
--
-- The write changes nothing and is allowed at maxmemory.
redis.call('DEL', anchor .. 'none')
return us
