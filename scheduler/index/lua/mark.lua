-- KEYS set; ARGV our marker, its generation, the oldest epoch that is believed, the marker that was there when we last
-- looked ('' = none of ours), and while the set is being filled what this filling is called ('' = it is whole) and the
-- generation of the map it is filled for. Gives 1 when there was a marker to believe, -1 when what was there when we
-- last looked is not any more: then the set was lost since, and is left without a marker. Adds first: Redis that is
-- full refuses a script's first write only, and that it refuses is what the leader has to learn.
-- Beside a set that is being filled are notes on it (filled.lua), which begin anew with a leader's first marker.
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
