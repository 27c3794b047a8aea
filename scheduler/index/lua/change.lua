-- KEYS set; ARGV channel ('': publish nothing), message, how ('put', 'missing', 'fix'), number of removals; for each
-- removal its time and member; then for each addition its time, its member and, for 'fix', the number of the removal
-- that it depends on. Both lists are ascending. Publishes the message if the earliest time became earlier. If the
-- earliest entry is overdue and stays (for example because its row is locked), also publishes it for an addition that
-- is due within a second, because the leader itself polls only once a second.
local base, how, r = KEYS[1], ARGV[3], tonumber(ARGV[4])
local gone, new, step = {}, {}, how == 'fix' and 3 or 2

local function earliest()
  local name, start = page_after(base, '-inf')
  local e = name and call('ZRANGE', base .. ':' .. name, 0, 0, 'WITHSCORES') or {}
  return e[1] and start + e[2] or huge
end

local before = ARGV[1] ~= '' and earliest()
for i = 5, 4 + 2 * r, 2 do
  gone[i - 4], gone[i - 3] = tonumber(ARGV[i]), ARGV[i + 1]
end
local found = remove(base, gone)
for i = 5 + 2 * r, #ARGV, step do
  if step == 2 or found[2 * ARGV[i + 2] - 1] then
    new[#new + 1] = tonumber(ARGV[i])
    new[#new + 1] = ARGV[i + 1]
  end
end
add(base, new, how == 'missing')
local function comes_first()
  if new[1] < before then return true end
  local t = call('TIME')
  local now = t[1] * 1000 + t[2] / 1000
  return before < now and new[1] < now + 1000
end

if before and new[1] and comes_first() then redis.call('PUBLISH', ARGV[1], ARGV[2]) end
return 1
