-- KEYS set; ARGV names of pages, each followed by one of its members that belongs to no job ('': the page itself, if it
-- is empty). Removes these members and empty pages. If a page is missing (evicted, or deleted by another client), its
-- entries are lost: the script removes the marker, so that the leader notices that the set is incomplete.
for i = 1, #ARGV, 2 do
  local key = KEYS[1] .. ':' .. ARGV[i]
  if ARGV[i + 1] ~= '' then
    call('ZREM', key, ARGV[i + 1])
  elseif call('EXISTS', key) == 0 then
    call('ZREMRANGEBYSCORE', KEYS[1], '+inf', '+inf')
  end
  if call('EXISTS', key) == 0 then call('ZREM', KEYS[1], ARGV[i]) end
end
return 1
