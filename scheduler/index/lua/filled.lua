-- KEYS: the set. ARGV:
-- 1  id of the caller
-- 2  lease in ms; 0: release the lease
-- 3  generation of the map that the caller fills for
-- 4  id of the filling, to store progress
-- 5  progress in ms, to store progress
--
-- Returns the id of the filling, its generation, its progress, and 1 if the caller has the lease; nothing if no filling
-- was requested. Progress is stored only if the caller still holds the lease of this filling. A lease that ends later
-- than a new lease would end counts as expired, because the clock was set back.
local notes, me = KEYS[1] .. ':filled', ARGV[1]
local f = call('HMGET', notes, 'life', 'generation', 'done', 'by', 'until')
if not f[1] then return {} end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local is_his = f[4] == me
if ARGV[4] then
  is_his = is_his and f[1] == ARGV[4]
  if is_his then
    f[3] = ARGV[5]
    call('HSET', notes, 'done', f[3])
  end
elseif f[2] == ARGV[3] then
  local till = tonumber(f[5])
  is_his = is_his or not till or till <= now or till > now + ARGV[2]
else
  is_his = false
end
if is_his and ARGV[2] == '0' then
  call('HDEL', notes, 'by', 'until')
elseif is_his then
  call('HSET', notes, 'by', me, 'until', string.format('%.0f', now + ARGV[2]))
end
return {f[1], f[2], f[3], is_his and 1 or 0}
