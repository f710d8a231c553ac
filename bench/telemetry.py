"""`python -m bench.telemetry [--quick] [--only call|path]`: what it costs to watch a gateway.

- call: the time that measuring one call takes by itself, in this process: counted; and traced or not;
- path: the same calls through gateways that differ in nothing but that, side by side. The least of each is compared:
  other work on the machine only adds to it.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from msgspec import Raw
from tests.world.measured import collecting

from accredit.jsonrpc.frames import Request, Success
from accredit.jsonrpc.requests import decode_request
from accredit.telemetry import Board, Meter, Metrics, Names, SpanQueue, Tracer
from bench.errors import BenchError
from bench.payloads import CALLS
from bench.processes import configured, upstream
from bench.report import table
from bench.speed import FULL, QUICK, Plan, Way, measure

TIMES = 20_000
ROUNDS = 9
AIMS = {"counted": 3.0, "counted, not traced": 5.0, "counted and traced": 55.0}
"""Microseconds: 3 for metrics, 2 more for a call that is not traced, 50 more for one that is."""
SAMPLES = {"metrics": None, "not traced": 0.0, "traced, 1%": 0.01, "traced, all": 1.0}
RATIOS = {"traced, 1%": 1.03}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.telemetry", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=["call", "path"])
    options = parser.parse_args(arguments)
    parts: dict[str, Callable[[Path, bool], str]] = {"call": call, "path": path}
    try:
        with tempfile.TemporaryDirectory(prefix="accredit-bench-") as folder:
            for name, part in parts.items():
                if options.only in (None, name):
                    print(part(Path(folder), options.quick), flush=True)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


def call(_folder: Path, quick: bool) -> str:
    """What the hooks of one call do: begin, send, hear, end, and count a decision. The least of some rounds
    counts: other work on the machine only adds to it."""
    found: dict[str, list[float]] = {name: [] for name in AIMS}
    for _ in range(3 if quick else ROUNDS):
        for name, rate in (("counted", None), ("counted, not traced", 0.0), ("counted and traced", 1.0)):
            found[name].append(_per_call(rate))
    scale = _of_a_dict()
    rows = [
        ("for scale: one addition in a dict", f"{scale:.2f}", "", ""),
    ]
    rows += [
        (name, f"{min(each):.2f}", f"{AIMS[name]:.0f}", "met" if min(each) <= AIMS[name] else "**missed**")
        for name, each in found.items()
    ]
    return table(("one call", "µs", "at most", ""), rows)


def _per_call(rate: float | None) -> float:
    metrics = Metrics(Board().slot())
    queue = SpanQueue(metrics.spans)
    tracer = Tracer(rate, queue, metrics.spans) if rate is not None else None
    meter = Meter(metrics, tracer, names=Names(["echo"]))
    asked, response = CALLS["200b-json"].request, Success(1, Raw(CALLS["200b-json"].answer), b"")
    requests = [_read(asked) for _ in range(TIMES)]
    began = time.thread_time()
    for request in requests:
        operations = meter.begin(request, time.perf_counter())
        meter.decided(request.watcher, None)
        sent, asked_of = meter.sent(request)
        if isinstance(sent, Request) and sent.watcher is not None:
            if rate:
                sent.text  # noqa: B018 - it is written anew
            sent.watcher.answered(response)
        meter.received(asked_of)
        meter.end(operations, None, later=False, revision="2025-11-25", session="")
        if len(queue) > 100:
            queue.take()
    return (time.thread_time() - began) / TIMES * 1e6


def _of_a_dict() -> float:
    counts = {("tools/call", ""): 0}
    least = float("inf")
    for _ in range(ROUNDS):
        began = time.thread_time()
        for _ in range(TIMES):
            counts["tools/call", ""] += 1
        least = min(least, time.thread_time() - began)
    return least / TIMES * 1e6


def _read(text: bytes) -> Request:
    request = decode_request(text)
    assert isinstance(request, Request)
    request.in_meta("traceparent")  # whoever finds out the era has opened `_meta` already
    return request


def path(folder: Path, quick: bool) -> str:
    plan = QUICK if quick else Plan(tuple((which, 16) for which, at in FULL.series if at == 16), rounds=9)
    with ExitStack() as stack:
        server = stack.enter_context(upstream("upstream", folder))
        collector = stack.enter_context(collecting())
        ways: list[Way] = []
        for name, sample in {"off": None, **SAMPLES}.items():
            text = f'[gateway]\nport = 0\n[upstream]\nurl = "{server.url}"\n'
            if name != "off":
                text += "[admin]\nport = 0\n"
            if sample is not None:
                text += f'[telemetry]\nendpoint = "{collector.url}"\nsample = {sample}\n'
            ours = stack.enter_context(configured(text, folder, name.replace(" ", "-").replace("%", "")))
            ways.append(Way(name, ours.url, ours.pid))
        found = list(measure(plan, ways, folder, say))
    rows: list[tuple[str, ...]] = []
    for each in found:
        least = {way: min(sample.cpu_us for sample in samples) for way, samples in each.samples.items()}
        for name in SAMPLES:
            base = "off" if name == "metrics" else "metrics"
            ratio, at_most = least[name] / least[base], RATIOS.get(name)
            aim = "" if at_most is None else f"{at_most:.2f} x, {'met' if ratio <= at_most else '**missed**'}"
            more = f"{least[name] - least[base]:+.1f}"
            rows.append((each.name, name, base, f"{least[base]:.0f}", more, f"{ratio:.3f} x", aim))
    return table(("call", "watched", "beside", "µs of CPU", "more, µs", "ratio", "aim"), rows)


def say(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
