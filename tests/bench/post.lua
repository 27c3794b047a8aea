-- One job a request, 200 bytes of payload. wrk -s post.lua URL -- DELAY_OF_JOB PAUSE_MS
local body
function init(args)
  body = string.format('{"topic":"bench","delay":"%s","payload":{"text":"%s"}}', args[1] or "PT30M", string.rep("x", 187))
  local pause = tonumber(args[2] or "0")
  if pause > 0 then
    delay = function() return pause end
  end
  wrk.method = "POST"
  wrk.body = body
  wrk.headers["Content-Type"] = "application/json"
  wrk.path = "/v1/jobs"
end

function done(summary, latency)
  local bad = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout
  io.write(string.format("RESULT %.0f %d %.2f %.2f\n", (summary.requests - bad) / (summary.duration / 1e6), bad, latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
