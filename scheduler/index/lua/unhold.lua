-- KEYS set, held, registry; ARGV topic, limit. Gives how many are left.
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
local left = call('ZCARD', KEYS[2])
if left == 0 then call('SREM', KEYS[3], ARGV[1]) end
return left
