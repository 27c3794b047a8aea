-- KEYS set; ARGV now, limit. Returns the time of the first entry after now ('': none, or not read because the limit was
-- reached), then for each page its name, its start, and its due entries: member, score, … (nil instead of entries: the
-- page does not exist).
local base, now, want = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local out, got, skip, s = {''}, 0, 0, nil
repeat
  s = call('ZRANGEBYSCORE', base, '-inf', now, 'WITHSCORES', 'LIMIT', skip, 32)
  for x = 1, #s, 2 do
    if got >= want then break end
    local key = base .. ':' .. s[x]
    local e = call('ZRANGEBYSCORE', key, '-inf', now - s[x + 1], 'WITHSCORES', 'LIMIT', 0, want - got)
    out[#out + 1], out[#out + 2], out[#out + 3] = s[x], s[x + 1], (e[1] or call('EXISTS', key) == 1) and e
    got = got + #e / 2
  end
  skip = skip + 32
until #s == 0 or got >= want
if got >= want then return out end
local name, start = page_of(base, now)
local e = {}
if name then
  e = call('ZRANGEBYSCORE', base .. ':' .. name, '(' .. now - start, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
end
if not e[1] then
  name, start = page_after(base, now)
  e = name and call('ZRANGE', base .. ':' .. name, 0, 0, 'WITHSCORES') or {}
end
if e[1] then out[1] = string.format('%.0f', start + e[2]) end
return out
