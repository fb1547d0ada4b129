-- The execution that an idempotency key is bound to, or nil and why. A binding whose execution is gone does not count.
local function bound(digest, fingerprint)
  local value = redis.pcall('GET', key('b', digest))
  if failed(value) then return nil, 'malformed' end
  if not value then return nil, 'missing' end
  local id = string.sub(value, 33)
  local c, why = load(id)
  if c and string.sub(value, 1, 32) ~= fingerprint then return nil, 'reused' end
  return c, why
end
