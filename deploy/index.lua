-- Prints the entries of a shard's index in Redis, earliest first, as "job at time":
--
--   redis-cli --eval deploy/index.lua '<installation>:{<shard>}:due' , 20
--
-- Read-only. The keys are described in scheduler/index/index.h.
local base, most, found = KEYS[1], tonumber(ARGV[1] or 20), {}
local FIRST_DAY_MS, DAY_MS = 1735689600000, 86400000

local function id_of(member, ms)
  local id = 0
  for i = 1, #member do id = id * 256 + string.byte(member, i) end
  if #member < 8 then id = id + math.max(0, math.floor((ms - FIRST_DAY_MS) / DAY_MS)) * 2 ^ 40 end
  return id
end

local pages = redis.call('ZRANGEBYSCORE', base, '-inf', '(inf', 'WITHSCORES', 'LIMIT', 0, most)
for s = 1, #pages, 2 do
  local entries = redis.call('ZRANGE', base .. ':' .. pages[s], 0, most - 1, 'WITHSCORES')
  for e = 1, #entries, 2 do
    local ms = pages[s + 1] + entries[e + 1]
    if #found < most then found[#found + 1] = string.format('%.0f at %.0f', id_of(entries[e], ms), ms) end
  end
end
return found
