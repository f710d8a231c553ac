"""`python -m bench.telemetry [--quick] [--only call|path]`: what it costs to watch a gateway.

- call: the time that measuring one call takes by itself, in this process: counted; and traced or not. The least counts:
  other work on the machine only adds to it;
- path: the same calls through gateways that differ in nothing but that, side by side (`side_by_side`).
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import uvloop
from msgspec import Raw
from tests.world.measured import collecting

from accredit.jsonrpc.frames import Request, Success
from accredit.jsonrpc.requests import decode_request
from accredit.telemetry.board import Board
from accredit.telemetry.labels import Names
from accredit.telemetry.metrics import Metrics
from accredit.telemetry.operations import Meter, Operation
from accredit.telemetry.tracing import SpanQueue, Tracer
from bench.errors import BenchError
from bench.payloads import CALLS
from bench.processes import configured, upstream
from bench.report import table
from bench.side_by_side import Turns, take_turns

TIMES = 20_000
ROUNDS = 9
ROUNDS_OF_TURNS = 150, 50
"""In full, and quick."""
AIMS = {"counted": 3.0, "counted, not traced": 5.0, "counted and traced": 55.0}
"""Microseconds: 3 for metrics, 2 more for a call that is not traced, 50 more for one that is."""
CATALOG = "".join(f'[tools."{name}"]\nscope = "mcp:tool"\n' for name in ("200b-json", "200b-modern", "32k-json"))
SAMPLES = {"metrics": None, "not traced": 0.0, "traced, 1%": 0.01, "traced, all": 1.0}
"""How the gateways are watched; the first one only counts."""
MORE_US = {"metrics": 3.0, "not traced": 2.0, "traced, all": 100.0}
"""At most: of metrics beside nothing, of the rest beside metrics; a call that is traced has two spans, of 50 each."""
RATIOS = {"traced, 1%": 1.03}
PATHS = ("200b-json", "200b-modern", "32k-json")


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
        operation = meter.begin(request, time.perf_counter())
        assert isinstance(operation, Operation)
        meter.decided(operation, None)
        operation.sent = time.perf_counter()
        if operation.traced is not None:
            meter.in_trace(request, operation).text  # noqa: B018 - it is written anew
        operation.answered(response)
        operation.told("2025-11-25", "")
        operation.end()
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
    rows: list[tuple[str, ...]] = []
    with ExitStack() as stack:
        server = stack.enter_context(upstream("upstream", folder))
        collector = stack.enter_context(collecting())
        ways: dict[str, tuple[str, int]] = {}
        for name, sample in {"off": None, **SAMPLES}.items():
            text = f'[gateway]\nport = 0\n[upstream]\nurl = "{server.url}"\n{CATALOG}'
            if name != "off":
                text += "[admin]\nport = 0\n"
            if sample is not None:
                text += f'[telemetry]\nendpoint = "{collector.url}"\nsample = {sample}\n'
            ours = stack.enter_context(configured(text, folder, f"watched-{'abcde'[len(ways)]}"))
            ways[name] = ours.url, ours.pid
        for call in PATHS:
            say(f"{call}: {ROUNDS_OF_TURNS[quick]} rounds of {', '.join(ways)}")
            turns = uvloop.run(take_turns(ways, CALLS[call], ROUNDS_OF_TURNS[quick]))
            rows += [_row(call, name, turns) for name in SAMPLES]
    head = ("call", "watched", "beside", "µs of CPU", "more, µs", "half of the rounds", "ratio", "aim")
    return table(head, rows)


def _row(call: str, name: str, turns: Turns) -> tuple[str, ...]:
    base = "off" if name == "metrics" else "metrics"
    found = turns.difference(name, base)
    aim = ""
    if name in MORE_US:
        aim = f"{MORE_US[name]:.0f} µs, {'met' if found.us <= MORE_US[name] else '**missed**'}"
    elif name in RATIOS:
        aim = f"{RATIOS[name]:.2f} x, {'met' if found.ratio <= RATIOS[name] else '**missed**'}"
    spread = f"{found.low:+.1f} to {found.high:+.1f}"
    return (call, name, base, f"{found.base:.0f}", f"{found.us:+.1f}", spread, f"{found.ratio:.3f} x", aim)


def say(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
