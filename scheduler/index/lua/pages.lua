-- Shared by the scripts. A set is `base`: a sorted set of pages, score = start of the page, member = its name. The
-- entries of a page are the sorted set `base:name`, with scores relative to the page's start. A page ends where the
-- next one starts. A page has at most MAX entries, half of what Redis would pack, because a packed set is searched from
-- its beginning. If one millisecond has more entries, its page starts with that millisecond and has no other entries.
-- Lists of entries are flat: time, member, time, member, …, ascending. The member at +inf in `base` is not a page but
-- the leader's marker.
local call, huge = redis.call, math.huge
local MAX, FULL, WIDTH, AHEAD = 64, 60, 32768, 32

local function page_of(base, at)
  local s = call('ZREVRANGEBYSCORE', base, at, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return s[1], tonumber(s[2])
end

local function page_after(base, at)
  local s = call('ZRANGEBYSCORE', base, '(' .. at, '(inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return s[1], tonumber(s[2])
end

-- Pages that were read ahead for a list of entries, because a call per page is expensive. names: their names; starts:
-- their starts, and the start of the page after the last; x: the current page; reach: how many pages are read at once.
local names, starts, x, reach = {}, {}, 0, 1

local function forget_pages()
  names, starts, x = {}, {}, 0
end

-- Sets how many pages to read ahead: as many as the list may need.
local function begin_list(base, list)
  local n = #list / 2
  forget_pages()
  reach = n > 1 and call('ZCOUNT', base, list[1], list[2 * n - 1]) < 4 * n and math.min(n, AHEAD) or 1
end

local function read_pages(base, at)
  local name, start = page_of(base, at)
  local s = call('ZRANGEBYSCORE', base, '(' .. at, '(inf', 'WITHSCORES', 'LIMIT', 0, reach)
  names, starts, x = {name or false}, {start or -huge}, 1
  for i = 1, #s, 2 do
    names[#names + 1], starts[#starts + 1] = s[i], tonumber(s[i + 1])
  end
  if #s < 2 * reach then starts[#starts + 1] = huge end
end

-- Returns the name of the page of a time (false: no page starts before this time), the page's start, and the start of
-- the next page. The times of successive calls must ascend until forget_pages.
local function seek(base, at)
  while starts[x + 1] and starts[x + 1] <= at do x = x + 1 end
  if not starts[x + 1] then read_pages(base, at) end
  return names[x], starts[x], starts[x + 1]
end

-- Returns the position of the last entry of the list, from i on, that is before `top`.
local function run_end(top, list, i)
  local j, n = i, #list
  while j + 2 < n and list[j + 2] < top do j = j + 2 end
  return j
end

local function begin_page(base, start)
  local name = string.format('%.0f', start)
  call('ZADD', base, start, name)
  forget_pages()
  return name
end

local function store(key, start, list, i, j, nx)
  local args, n = {}, 0
  for x = i, j, 2 do
    args[n + 1], args[n + 2] = list[x] - start, list[x + 1]
    n = n + 2
  end
  if nx then call('ZADD', key, 'NX', unpack(args)) else call('ZADD', key, unpack(args)) end
end

-- Merges a page's entries with list[i..j]. If a member is in both, the page's entry stays if nx, else the list's.
local function merged(old, start, list, i, j, nx)
  local known, all, n, o = {}, {}, 0, 1
  if nx then
    for x = 1, #old, 2 do known[old[x]] = true end
  else
    for x = i, j, 2 do known[list[x + 1]] = true end
  end
  local function take_old(to)
    while o < #old and start + old[o + 1] <= to do
      if nx or not known[old[o]] then
        all[n + 1], all[n + 2] = start + old[o + 1], old[o]
        n = n + 2
      end
      o = o + 2
    end
  end
  for x = i, j, 2 do
    if not (nx and known[list[x + 1]]) then
      take_old(list[x])
      all[n + 1], all[n + 2] = list[x], list[x + 1]
      n = n + 2
    end
  end
  take_old(huge)
  return all, n
end

-- Returns the position of the last entry of a page that starts with all[first]: after at most `want` entries, and never
-- within a millisecond.
local function piece_end(all, n, first, want)
  local last = first - 2
  while last + 2 < n do
    local g = last + 2
    while g + 2 < n and all[g + 2] == all[last + 2] do g = g + 2 end
    if last >= first and (g - first) / 2 + 1 > want then break end
    local alone = last < first and (g - first) / 2 + 1 > MAX
    last = g
    if alone then break end
  end
  return last
end

-- Adds entries to a full page by splitting it. If the entries follow those of the page, the new pages are full;
-- otherwise all pages get the same size.
local function regroup(base, name, start, list, i, j, nx)
  local key = base .. ':' .. name
  local old = call('ZRANGE', key, 0, -1, 'WITHSCORES')
  local all, n = merged(old, start, list, i, j, nx)
  local want, first = FULL, 1
  if #old > 0 and start + old[#old] >= list[i] then
    want = math.ceil(n / 2 / math.ceil(n / 2 / FULL))
  end
  call('DEL', key)
  while first < n do
    local last = piece_end(all, n, first, want)
    local from, where = all[first], name
    if first > 1 then
      where = begin_page(base, from)
    elseif from > start and (last - first) / 2 + 1 > MAX then
      call('ZREM', base, name)
      where = begin_page(base, from)
    else
      from = start
    end
    store(base .. ':' .. where, from, all, first, last)
    first = last + 2
  end
end

local function add(base, list, nx)
  local i, n = 1, #list
  begin_list(base, list)
  while i < n do
    local at = list[i]
    local name, start, top = seek(base, at)
    if not name then
      start = at - at % WIDTH
      name = begin_page(base, start)
    end
    local key, j = base .. ':' .. name, run_end(top, list, i)
    local there = call('ZCARD', key)
    if there + (j - i) / 2 + 1 <= MAX then
      store(key, start, list, i, j, nx)
    elseif there <= MAX then
      regroup(base, name, start, list, i, j, nx)
    elseif at > start then -- all entries of the full page are in one millisecond
      begin_page(base, at)
      j = i - 2
    else
      while list[j] > at do j = j - 2 end
      store(key, start, list, i, j, nx)
    end
    i = j + 2
  end
end

-- Removes entries. Returns for each position in the list: true: the entry was removed; false: the member has another
-- time; nil: the page does not have the member.
local function remove(base, list)
  local found, i, n = {}, 1, #list
  begin_list(base, list)
  while i < n do
    local name, start, top = seek(base, list[i])
    local j = run_end(top, list, i)
    if name then
      local key, ids, gone = base .. ':' .. name, {}, {}
      for x = i, j, 2 do ids[#ids + 1] = list[x + 1] end
      local is = call('ZMSCORE', key, unpack(ids))
      for x = i, j, 2 do
        local score = is[(x - i) / 2 + 1]
        if score then
          found[x] = start + score == list[x]
          if found[x] then gone[#gone + 1] = list[x + 1] end
        end
      end
      if gone[1] then
        call('ZREM', key, unpack(gone))
        if call('EXISTS', key) == 0 then call('ZREM', base, name) end
      end
    end
    i = j + 2
  end
  return found
end
