-- Posts one body over and over; prints the counts as one line that load.py reads.
-- Arguments: the file that holds the body, then headers as "Name: value".
function init(args)
  local file = assert(io.open(args[1], "rb"))
  wrk.method = "POST"
  wrk.body = file:read("*a")
  file:close()
  for i = 2, #args do
    local name, value = args[i]:match("^([^:]+): (.*)$")
    wrk.headers[name] = value
  end
end

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("counts calls=%d microseconds=%d failures=%d mean=%d p50=%d p99=%d\n",
    summary.requests, summary.duration, e.connect + e.read + e.write + e.status + e.timeout,
    latency.mean, latency:percentile(50), latency:percentile(99)))
end
