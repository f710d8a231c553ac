"""`python -m bench.servers [--quick] [--only path|memory|siege|heavy]`: what it costs to stand before many servers.

- path: the same call at `/mcp` of `[upstream]` and at `/mcp/NAME` of `[servers]`, side by side;
- memory: what one more server takes that nobody asks, and one that was asked;
- siege: calls at fifteen servers, one connection each, while five others do all the harm that `tests.world.siege` knows
  and callers ask them all the time; beside the same fifteen in front of a gateway of their own;
- heavy: recorded calls beside servers whose answers become as much as they may (`bench.besieged`).
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.parse import urlsplit

import uvloop

from bench.besieged import heavy
from bench.errors import BenchError
from bench.load import check
from bench.payloads import CALLS, Call
from bench.processes import ROOT, Server, configured, gateway, upstream
from bench.procfs import memory, reset_peak
from bench.report import table
from bench.speed import FULL, QUICK, Plan, Way, measure

HONEST = [f"honest-{number}" for number in range(15)]
SIEGES = {
    "silent or gone": ("hangs", "drips", "crashes", "lies", "refuses"),
    "too much": ("floods", "asks", "huge", "crosses", "floods"),
}
BESIEGERS = 8
"""Callers of each hostile server."""
SERVERS = 50
KIB = 1024
SIEGE_ROUNDS = (5, 3.0), (3, 2.0)
"""Rounds, and seconds of each: in full, and quick."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.servers", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=["path", "memory", "siege", "heavy"])
    parser.add_argument("--besiege", nargs="+", metavar=("URL", "NAME"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.besiege:
        uvloop.run(besiege(*options.besiege))
        return 0
    parts: dict[str, Callable[[Path, bool], str]] = {
        "path": path,
        "memory": idle_memory,
        "siege": siege,
        "heavy": heavy,
    }
    try:
        with tempfile.TemporaryDirectory(prefix="accredit-bench-") as folder:
            for name, part in parts.items():
                if options.only in (None, name):
                    print(part(Path(folder), options.quick), flush=True)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


def toml(servers: dict[str, str]) -> str:
    """A configuration of servers, by their names."""
    named = "".join(f'[servers.{name}]\nurl = "{url}"\n' for name, url in servers.items())
    return f"[gateway]\nport = 0\n\n{named}"


def path(folder: Path, quick: bool) -> str:
    plan = QUICK if quick else Plan(tuple((call, 16) for call, at in FULL.series if at == 16), rounds=9)
    with ExitStack() as stack:
        server = stack.enter_context(upstream("upstream", folder))
        one = stack.enter_context(gateway(server.url, folder))
        several = stack.enter_context(configured(toml(dict.fromkeys(HONEST, server.url)), folder, "several"))
        ways = [Way("/mcp", one.url, one.pid), Way("/mcp/NAME", f"{base(several)}/{HONEST[0]}", several.pid)]
        found = list(measure(plan, ways, folder, say))
    rows = [
        (each.name, _us(each.cpu("/mcp")), _us(each.cpu("/mcp/NAME")), f"{each.ratio('/mcp/NAME', '/mcp') or 0:.2f} x")
        for each in found
    ]
    return table(("call", "/mcp, µs of CPU", "/mcp/NAME, µs", "ratio"), rows)


def _us(value: float | None) -> str:
    return f"{value or 0:.0f}"


def base(server: Server) -> str:
    """Where a gateway's endpoints begin."""
    where = urlsplit(server.url)
    return f"{where.scheme}://{where.netloc}/mcp"


def idle_memory(folder: Path, _quick: bool) -> str:
    call = CALLS["200b-json"]
    found: dict[str, list[float]] = {"never asked": [], "asked once": []}
    with upstream("upstream", folder) as server:
        for _ in range(3):
            sizes: dict[str, list[int]] = {name: [] for name in found}
            for number in (1, SERVERS + 1):
                names = [f"server-{each}" for each in range(number)]
                with configured(toml(dict.fromkeys(names, server.url)), folder, f"of-{'many' * (number > 1)}") as ours:
                    check(f"{base(ours)}/{names[0]}", call)
                    sizes["never asked"].append(memory(ours.pid).rss)
                    for name in names:
                        check(f"{base(ours)}/{name}", call)
                    sizes["asked once"].append(memory(ours.pid).rss)
            for name, (one, many) in sizes.items():
                found[name].append((many - one) / SERVERS / KIB)
    rows = [
        (name, f"{median(each):.0f}", "200", "met" if median(each) < 200 else "**missed**")
        for name, each in found.items()
    ]
    return table(("one more server", "KiB", "at most", ""), rows)


class Times(NamedTuple):
    """Of calls, in seconds."""

    all: list[float]

    def part(self, share: float) -> float:
        return sorted(self.all)[int(share * (len(self.all) - 1))]


def siege(folder: Path, quick: bool) -> str:
    rounds, seconds = SIEGE_ROUNDS[quick]
    rows: list[tuple[str, ...]] = []
    for name, kinds in SIEGES.items():
        with ExitStack() as stack:
            server = stack.enter_context(upstream("upstream", folder))
            urls = stack.enter_context(_hostile(kinds))
            hostile = {f"hostile-{number}": url for number, url in enumerate(urls)}
            honest = dict.fromkeys(HONEST, server.url)
            alone = stack.enter_context(configured(toml(honest), folder, "alone"))
            besieged = stack.enter_context(configured(toml(honest | hostile), folder, "besieged"))
            reset_peak(besieged.pid)
            pairs: list[tuple[Times, Times]] = []
            most = 0
            for number in range(rounds):
                say(f"siege, {name}: round {number + 1} of {rounds}")
                calm = asyncio.run(calls(base(alone), seconds))
                with _besiegers(base(besieged), hostile):
                    time.sleep(1)
                    pairs.append((calm, asyncio.run(calls(base(besieged), seconds))))
                    most = max(most, len(list(Path(f"/proc/{besieged.pid}/fd").iterdir())))
            rows.append(_row(name, pairs, memory(besieged.pid).peak, most))
    head = (
        "siege",
        "calls/s, alone",
        "besieged",
        "p50 alone, ms",
        "besieged",
        "p99 alone, ms",
        "besieged",
        "p50, ratio",
        "p99, ratio",
        "peak memory, MiB",
        "descriptors",
    )
    return table(head, rows)


def _row(name: str, pairs: Sequence[tuple[Times, Times]], peak: int, descriptors: int) -> tuple[str, ...]:
    def typical(what: Callable[[Times], float]) -> tuple[float, float, float]:
        each = [(what(calm), what(harmed)) for calm, harmed in pairs]
        return median(calm for calm, _ in each), median(it for _, it in each), median(it / calm for calm, it in each)

    rate = typical(lambda times: len(times.all) / sum(times.all) * len(HONEST))
    p50, p99 = typical(lambda times: times.part(0.5) * 1e3), typical(lambda times: times.part(0.99) * 1e3)
    return (
        name, f"{rate[0]:,.0f}", f"{rate[1]:,.0f}", f"{p50[0]:.2f}", f"{p50[1]:.2f}", f"{p99[0]:.2f}", f"{p99[1]:.2f}",
        f"{p50[2]:.1f} x", f"{p99[2]:.1f} x", f"{peak / KIB / KIB:.0f}", str(descriptors),
    )  # fmt: skip


@contextmanager
def _hostile(kinds: Sequence[str]):
    command = [sys.executable, "-m", "tests.world.siege", *kinds]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


@contextmanager
def _besiegers(url: str, hostile: dict[str, str]):
    process = subprocess.Popen([sys.executable, "-m", "bench.servers", "--besiege", url, *hostile], cwd=ROOT)
    try:
        yield
    finally:
        process.kill()
        process.wait()


async def besiege(url: str, *names: str) -> None:
    """Call hostile servers for ever; who is told something reads up to 4 MiB of it, within a second."""
    await asyncio.gather(*(_besieger(url, name) for name in names for _ in range(BESIEGERS)))


async def _besieger(url: str, name: str) -> None:
    while True:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
                try:
                    writer.write(_request(f"/mcp/{name}", CALLS["200b-json"]))
                    size = 0
                    while size < 4 << 20 and (piece := await reader.read(1 << 16)):
                        size += len(piece)
                finally:
                    writer.close()


async def calls(url: str, seconds: float) -> Times:
    """Calls at all honest servers, each over one connection, one after the other."""
    times = Times([])
    port, ends = urlsplit(url).port, time.monotonic() + seconds

    async def at(name: str) -> None:
        call = CALLS["200b-json"]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request = _request(f"/mcp/{name}", call)
        while time.monotonic() < ends:
            begun = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            if await reader.readexactly(length) != call.answer:
                raise BenchError(f"{name}: a wrong answer")
            times.all.append(time.perf_counter() - begun)
        writer.close()

    await asyncio.gather(*map(at, HONEST))
    return times


def _request(path: str, call: Call) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(call.request)}"]
    lines += [f"{name}: {value}" for name, value in call.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + call.request


def say(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
