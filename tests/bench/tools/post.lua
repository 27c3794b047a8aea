-- One job per request, 200 bytes of payload. wrk -s post.lua URL -- TOPIC DELAY|spread PAUSE_MS spread: any day of five
-- years, at random.
local DAYS = 1826
local requests = {}

local function body(topic, delay)
  return string.format('{"topic":"%s","delay":"%s","payload":{"text":"%s"}}', topic, delay, string.rep("x", 187))
end

function init(args)
  local topic, after, pause = args[1], args[2], tonumber(args[3] or "0")
  if pause > 0 then
    delay = function() return pause end
  end
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
  wrk.path = "/v1/jobs"
  if after ~= "spread" then
    wrk.body = body(topic, after)
    return
  end
  for day = 1, DAYS do
    requests[day] = wrk.format(nil, nil, nil, body(topic, "P" .. day .. "D"))
  end
  math.randomseed(os.time())
  request = function() return requests[math.random(DAYS)] end
end

-- RESULT jobs/s, jobs, refused, broken connections, p50 ms, p99 ms summary.requests counts answers, errors.status those
-- of them above 399, errors.timeout late answers.
function done(summary, latency)
  local refused, broken = summary.errors.status, summary.errors.read + summary.errors.write
  local good = summary.requests - refused
  io.write(string.format("RESULT %.0f %d %d %d %.2f %.2f\n", good / (summary.duration / 1e6), good, refused, broken,
                         latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
