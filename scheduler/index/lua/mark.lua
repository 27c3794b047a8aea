-- KEYS set; ARGV our marker, its generation, the oldest epoch that is believed. Gives 1 when there was a marker to
-- believe. Adds first: Redis that is full refuses a script's first write only, and that it refuses is what the leader
-- has to learn.
local there = redis.call('ZRANGEBYSCORE', KEYS[1], '+inf', '+inf')
redis.call('ZADD', KEYS[1], '+inf', ARGV[1])
local intact = 0
for _, m in ipairs(there) do
  local epoch, generation = string.match(m, '^!(%d+):.*:(%d+)$')
  if generation == ARGV[2] and tonumber(epoch) >= tonumber(ARGV[3]) then intact = 1 end
  if m ~= ARGV[1] then redis.call('ZREM', KEYS[1], m) end
end
return intact
