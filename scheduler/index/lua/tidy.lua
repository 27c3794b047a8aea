-- KEYS set; ARGV names of pages and members of them that are nobody's ('' = the page itself, if there is nothing in
-- it). Removes them. A page that has gone by itself (evicted, or removed by a stranger) took its entries along: the
-- marker goes, too, so that the leader learns that the set is not whole.
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
