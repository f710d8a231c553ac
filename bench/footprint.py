"""The memory series: at rest, under load, after many calls, while answers come that are too large to keep."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchError
from bench.hostile import HEADERS, HUGE
from bench.load import check, post, run
from bench.payloads import CALLS, MIB
from bench.processes import gateway, upstream
from bench.procfs import memory, reset_peak

LOAD_CALLS = ("200b-json", "32k-json", "1m-json")
GROWTH_CALL = "200b-json"
WARM_UP_SECONDS = 2
LOAD_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Footprint:
    """Of one gateway, in bytes. `extra` is what each huge answer added at its peak to the memory before."""

    rest_rss: int
    rest_pss: int
    load_peak: int
    growth_calls: int
    growth: int
    extra: dict[str, int]


def measure(calls: int, folder: Path, say: Callable[[str], None]) -> Footprint:
    with upstream("upstream", folder) as server, gateway(server.url, folder) as proxy:
        check(proxy.url, CALLS[GROWTH_CALL])
        rest = memory(proxy.pid)
        say(f"memory: growth over {calls} calls")
        run(proxy.url, CALLS[GROWTH_CALL], 16, WARM_UP_SECONDS, folder)
        warm, done = memory(proxy.pid), 0
        while done < calls:
            done += run(proxy.url, CALLS[GROWTH_CALL], 16, LOAD_SECONDS, folder).calls
        growth = memory(proxy.pid).rss - warm.rss
        say("memory: under load")
        for name in LOAD_CALLS:
            run(proxy.url, CALLS[name], 16, LOAD_SECONDS, folder)
        peak = memory(proxy.pid).peak
    return Footprint(rest.rss, rest.pss, peak, done, growth, _huge_answers(folder, say))


def _huge_answers(folder: Path, say: Callable[[str], None]) -> dict[str, int]:
    """For each answer a gateway of its own: what one has taken and not given back is not the next one's."""
    extra: dict[str, int] = {}
    for huge in HUGE:
        say(f"memory: {huge.shown}")
        with upstream("hostile", folder) as server, gateway(server.url, folder) as proxy:
            before = memory(proxy.pid).rss
            reset_peak(proxy.pid)
            status, _, body = post(proxy.url, huge.request, HEADERS)
            extra[huge.shown] = memory(proxy.pid).peak - before
            if status != huge.status:
                raise BenchError(f"{huge.shown}: status {status}, {len(body) / MIB:.1f} MiB: {body[:300]!r}")
    return extra
