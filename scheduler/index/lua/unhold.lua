-- KEYS set, held, registry; ARGV topic, limit. Moves up to `limit` held entries back to the set. Returns the time of
-- the first held entry that remains, or 0.
local got = call('ZRANGE', KEYS[2], 0, ARGV[2] - 1, 'WITHSCORES')
local list, ids = {}, {}
for i = 1, #got, 2 do
  list[i], list[i + 1] = tonumber(got[i + 1]), got[i]
  ids[#ids + 1] = got[i]
end
if ids[1] then
  add(KEYS[1], list, true)
  call('ZREM', KEYS[2], unpack(ids))
end
local next = call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if next[1] then return tonumber(next[2]) end
call('SREM', KEYS[3], ARGV[1])
return 0
