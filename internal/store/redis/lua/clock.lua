-- The only clock of a script, in microseconds and in whole milliseconds. A script sees one instant throughout.
local function clock()
  local t = redis.call('TIME')
  local us = tonumber(t[1]) * 1000000 + tonumber(t[2])
  return us, math.floor(us / 1000)
end
