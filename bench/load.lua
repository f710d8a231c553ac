-- Posts some bodies in turn, over and over; prints the counts as one line that load.py reads.
-- Arguments: how many bodies, the files that hold them, then headers as "Name: value".
local requests, last = {}, 0

function init(args)
  local bodies = tonumber(args[1])
  for i = bodies + 2, #args do
    local name, value = args[i]:match("^([^:]+): (.*)$")
    wrk.headers[name] = value
  end
  for i = 1, bodies do
    local file = assert(io.open(args[i + 1], "rb"))
    requests[i] = wrk.format("POST", nil, nil, file:read("*a"))
    file:close()
  end
end

function request()
  last = last % #requests + 1
  return requests[last]
end

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("counts calls=%d microseconds=%d failures=%d mean=%d p50=%d p99=%d\n",
    summary.requests, summary.duration, e.connect + e.read + e.write + e.status + e.timeout,
    latency.mean, latency:percentile(50), latency:percentile(99)))
end
