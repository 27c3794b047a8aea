-- KEYS set; ARGV who asks, for how many ms the filling shall be his (0 = no longer), the generation of the map that he
-- fills for, and, to note how far it has come: what it is called, ms. Gives what it is called, its generation, how far
-- it has come, and 1 if it is his; nothing when nobody asked for it. Noted is only what is done for the very filling
-- that he took, and still has. Clocks are set back at times: nobody has it for longer than is asked for here.
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
