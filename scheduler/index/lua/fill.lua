-- KEYS set; ARGV for each packed page: the times of its first and last entry, and the argument of RESTORE. If the set
-- has no entries between these times, the packed page becomes a page of the set; otherwise the entries that the set
-- lacks are added. Returns 0 if this server cannot restore packed pages.
local base = KEYS[1]

local function is_free(first, last)
  local name, start = page_of(base, last)
  if not name then return true end
  if start >= first then return false end
  local e = call('ZRANGE', base .. ':' .. name, -1, -1, 'WITHSCORES')
  return not e[1] or start + e[2] < first
end

local function restore(key, packed)
  local done = redis.pcall('RESTORE', key, 0, packed, 'REPLACE')
  return done.err
end

-- Names and scores of restored pages that are not in the set yet.
local known = {}

local function enter_pages()
  if known[1] then call('ZADD', base, unpack(known)) end
end

local all_free = is_free(tonumber(ARGV[1]), tonumber(ARGV[#ARGV - 1]))
for i = 1, #ARGV, 3 do
  local first = tonumber(ARGV[i])
  local free = all_free or is_free(first, tonumber(ARGV[i + 1]))
  local key = base .. ':' .. (free and ARGV[i] or 'packed')
  local err = restore(key, ARGV[i + 2])
  if err then
    enter_pages()
    if string.find(err, 'OOM') or string.find(err, 'READONLY') then return {err = err} end
    return 0
  end
  if all_free then
    known[#known + 1], known[#known + 2] = ARGV[i], ARGV[i]
  elseif free then
    call('ZADD', base, first, ARGV[i])
  else
    local e, list = call('ZRANGE', key, 0, -1, 'WITHSCORES'), {}
    call('DEL', key)
    for x = 1, #e, 2 do
      list[x], list[x + 1] = first + e[x + 1], e[x]
    end
    add(base, list, true)
  end
end
enter_pages()
return 1
