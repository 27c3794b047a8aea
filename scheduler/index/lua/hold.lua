-- KEYS set, held, registry; ARGV topic, then times and members, ascending. Moves entries to `held`, a single sorted set
-- whose scores are times.
local list, kept = {}, {}
for i = 2, #ARGV, 2 do
  list[i - 1], list[i] = tonumber(ARGV[i]), ARGV[i + 1]
end
local found = remove(KEYS[1], list)
for i = 1, #list, 2 do
  if found[i] ~= false then
    kept[#kept + 1] = list[i]
    kept[#kept + 1] = list[i + 1]
  end
end
if kept[1] then
  call('SADD', KEYS[3], ARGV[1])
  call('ZADD', KEYS[2], unpack(kept))
end
return #kept / 2
