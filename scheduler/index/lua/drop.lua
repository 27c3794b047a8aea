-- KEYS set, registry; ARGV prefix of the held sets' names. Deletes up to AT_ONCE pages of a set, the marker first.
-- Returns the number of pages that remain: call again until it is 0.
local base, AT_ONCE = KEYS[1], 1000
call('ZREMRANGEBYSCORE', base, '+inf', '+inf')
for _, topic in ipairs(call('SMEMBERS', KEYS[2])) do call('UNLINK', ARGV[1] .. topic) end
call('DEL', KEYS[2], base .. ':filled')
local names = call('ZRANGE', base, 0, AT_ONCE - 1)
for _, name in ipairs(names) do call('UNLINK', base .. ':' .. name) end
if names[1] then call('ZREM', base, unpack(names)) end
return call('ZCARD', base)
