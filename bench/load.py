"""Load: wrk posts one call over and over; and one call by itself, to see that the answer is right."""

import http.client
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench.errors import BenchError
from bench.payloads import Call

WRK = shutil.which("wrk")
_SCRIPT = Path(__file__).with_name("load.lua")
_COUNTS = re.compile(r"counts calls=(\d+) microseconds=(\d+) failures=(\d+) mean=(\d+) p50=(\d+) p99=(\d+)\n")
_SERVED = 0.5
"""The part of its connections that wrk must have seen busy: less means that some wait for ever."""
_ONE_CALL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Load:
    """What wrk counted. Times in microseconds."""

    calls: int
    duration: int
    p50: int
    p99: int


def run(url: str, call: Call, connections: int, seconds: float, folder: Path) -> Load:
    """Posts `call`, and its others in turn, on `connections` connections for (whole) `seconds`; a failed call ends the
    run."""
    if WRK is None:
        raise BenchError("wrk is not installed (Debian: apt-get install wrk)")
    bodies = [folder / f"{call.name}-{number}.json" for number in range(len(call.all))]
    for body, each in zip(bodies, call.all, strict=True):
        body.write_bytes(each.request)
    headers = [f"{name}: {value}" for name, value in call.headers.items()]
    command = [WRK, "--threads", "1", "--connections", str(connections), "--duration", f"{seconds:g}s",
               "--timeout", "30s", "--script", str(_SCRIPT), url,
               "--", str(len(bodies)), *map(str, bodies), *headers]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = _COUNTS.search(done.stdout)
    if found is None:
        raise BenchError(f"wrk failed on {url}: {done.stderr or done.stdout}")
    calls, duration, failures, mean, p50, p99 = map(int, found.groups())
    if failures or not calls:
        raise BenchError(f"{call.name} at {url}: {failures} of {calls} calls failed")
    # wrk says nothing of a call that is never answered, but its time is missing from those that are.
    if calls * mean < _SERVED * connections * duration:
        raise BenchError(f"{call.name} at {url}: {calls * mean / duration:.1f} of {connections} connections served")
    return Load(calls, duration, p50, p99)


def check(url: str, call: Call) -> None:
    """One call, whose answer must be the expected one byte for byte (in SSE: the data of its event)."""
    status, content_type, body = post(url, call.request, call.headers)
    if call.sse:
        body = b"\n".join(line[6:] for line in body.splitlines() if line.startswith(b"data: "))
    if status != http.HTTPStatus.OK or content_type != call.content_type or body != call.answer:
        raise BenchError(f"{call.name} at {url}: a wrong answer ({status}, {content_type}): {body[:300]!r}")


def post(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, str, bytes]:
    """Status, content type and body of the answer to one POST."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.netloc, timeout=_ONE_CALL_SECONDS)
    try:
        connection.request("POST", where.path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers.get_content_type(), answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise BenchError(f"no answer from {url}: {error}") from error
    finally:
        connection.close()
