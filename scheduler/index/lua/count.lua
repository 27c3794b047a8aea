-- KEYS set; ARGV from, to. Returns the number of entries counted, and the time at which to continue ('': all are
-- counted).
local base, from, to, AT_ONCE = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), 1000
local name, start = page_of(base, from)
local n = name and call('ZCOUNT', base .. ':' .. name, from - start, '(' .. to - start) or 0
local s = call('ZRANGEBYSCORE', base, '(' .. from, '(' .. to, 'WITHSCORES', 'LIMIT', 0, AT_ONCE + 1)
for x = 1, math.min(#s, 2 * AT_ONCE), 2 do
  local key = base .. ':' .. s[x]
  n = n + (s[x + 2] and call('ZCARD', key) or call('ZCOUNT', key, '-inf', '(' .. to - s[x + 1]))
end
return {n, s[2 * AT_ONCE + 2] or ''}
