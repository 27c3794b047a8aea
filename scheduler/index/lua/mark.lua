-- KEYS: the set. ARGV:
-- 1  our marker
-- 2  its generation
-- 3  the oldest valid epoch
-- 4  our previous marker; '': the set has none of ours
-- 5  id of the filling; '': the set is complete
-- 6  generation of the map that the set is filled for
--
-- Returns 1 if the set had a valid marker, and -1 if our previous marker is missing: the set was lost, and is left
-- without a marker. The script adds before it removes, because a full Redis refuses only the first write of a script,
-- and the leader must notice that Redis is full. A leader's first marker resets the record of the filling (filled.lua).
local there = redis.call('ZRANGEBYSCORE', KEYS[1], '+inf', '+inf')
redis.call('ZADD', KEYS[1], '+inf', ARGV[1])
local intact, stays, notes = 0, false, KEYS[1] .. ':filled'
for _, m in ipairs(there) do
  local epoch, generation = string.match(m, '^!(%d+):.*:(%d+)$')
  if generation == ARGV[2] and tonumber(epoch) >= tonumber(ARGV[3]) then intact = 1 end
  if m == ARGV[4] then stays = true end
  if m ~= ARGV[1] then redis.call('ZREM', KEYS[1], m) end
end
if ARGV[4] ~= '' and not stays then
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('DEL', notes)
  return -1
end
if ARGV[5] == '' then
  redis.call('DEL', notes)
elseif not stays or redis.call('HGET', notes, 'generation') ~= ARGV[6] then
  redis.call('DEL', notes)
  redis.call('HSET', notes, 'life', ARGV[5], 'generation', ARGV[6], 'done', 0)
end
return intact
