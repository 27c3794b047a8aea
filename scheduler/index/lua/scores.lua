-- KEYS set; ARGV times and members. Returns for each member its time in the page that contains the given time; '': the
-- page does not have the member.
local out, at, name, start = {}, nil, nil, nil
for i = 1, #ARGV, 2 do
  if ARGV[i] ~= at then
    at = ARGV[i]
    name, start = page_of(KEYS[1], at)
  end
  local score = name and call('ZSCORE', KEYS[1] .. ':' .. name, ARGV[i + 1])
  out[#out + 1] = score and string.format('%.0f', start + score) or ''
end
return out
