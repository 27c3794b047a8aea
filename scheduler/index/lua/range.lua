-- KEYS set; ARGV from, to, limit, a member or ''. With a member, returns only entries after (from, member), whether or
-- not the set still has this entry. Returns for each page its name, its start, and entries: member, score, … (nil
-- instead of entries: the page does not exist).
local base, from, to, want, after = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local out, got = {}, 0

-- Compares bytes. Lua's order of strings would depend on the server's locale.
local function beyond(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x > y end
  end
  return #a > #b
end

local function rank_after(key, at)
  local lo = call('ZCOUNT', key, '-inf', '(' .. at)
  local hi = lo + call('ZCOUNT', key, at, at)
  while lo < hi do
    local mid = math.floor((lo + hi) / 2)
    if beyond(call('ZRANGE', key, mid, mid)[1], after) then hi = mid else lo = mid + 1 end
  end
  return lo
end

local name, start = page_of(base, from)
if not name then
  name, start = page_after(base, from)
  after = ''
end
while name and start < to and got < want do
  local key, e = base .. ':' .. name, nil
  if after == '' then
    e = call('ZRANGEBYSCORE', key, from - start, '(' .. to - start, 'WITHSCORES', 'LIMIT', 0, want - got)
  else
    local rank = rank_after(key, from - start)
    e = call('ZRANGE', key, rank, rank + want - got - 1, 'WITHSCORES')
  end
  out[#out + 1], out[#out + 2], out[#out + 3] = name, tostring(start), (e[1] or call('EXISTS', key) == 1) and e
  got = got + #e / 2
  after = ''
  name, start = page_after(base, start)
end
return out
