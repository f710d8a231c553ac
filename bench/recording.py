"""`python -m bench.recording [--quick]`: what records cost a call through the real gateway.

Gateways side by side, each a process of its own: records off, `record` and `durable`, with 1 and with 64 connections.
CPU time is the gateway's, with that of the process which writes its log. Rounds go around the gateways in turn; medians
are kept. The upstream runs on the same machine, as does the load: both take their part of its cores. A call that was
answered has two records in the end, or the run fails: to refuse is cheap.
"""

import argparse
import contextlib
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median

from accredit.keys import make_key, write_key
from accredit.stores.audit_log.reader import LogFile
from bench.errors import BenchError
from bench.load import Load, run
from bench.payloads import CALLS
from bench.processes import Server, configured, upstream
from bench.procfs import cpu_seconds

MODES = ("off", "record", "durable")
CONNECTIONS = (1, 64)
FULL, QUICK = (5, 3), (2, 1)
"""Rounds, and seconds of one turn."""
TARGET = 2.0
"""Times the throughput of `durable` at 64 connections, at most, is that of `off`."""

Sample = tuple[Load, float]


def toml(url: str, mode: str) -> str:
    records = f'[attest]\nmode = "{mode}"\nkey_file = "gateway.key"\n[store]\nurl = "sqlite:///{mode}.db"\n'
    return f'[gateway]\nport = 0\n[upstream]\nurl = "{url}"\n{records}'


def measure(folder: Path, rounds: int, seconds: int) -> dict[tuple[str, int], list[Sample]]:
    found: dict[tuple[str, int], list[Sample]] = {}
    calls = Counter[str]()
    write_key(folder / "gateway.key", make_key("gateway", "gateway", 0))
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(upstream("upstream", folder))
        ways: dict[str, Server] = {
            mode: stack.enter_context(configured(toml(server.url, mode), folder, mode)) for mode in MODES
        }
        for number in range(rounds + 1):
            for connections in CONNECTIONS:
                for mode, way in ways.items():
                    before = cpu_seconds(way.pid)
                    load = run(way.url, CALLS["200b-json"], connections, seconds, folder)
                    calls[mode] += load.calls
                    cpu_us = (cpu_seconds(way.pid) - before) / load.calls * 1e6
                    if number:  # the first round fills caches
                        found.setdefault((mode, connections), []).append((load, cpu_us))
    for mode in MODES[1:]:  # their gateways have ended, and what they had to write is written
        with LogFile(folder / f"{mode}.db") as log_file:
            records = sum(each.record() is not None for each in log_file.entries())
        if records < 2 * calls[mode]:
            raise BenchError(f"{mode}: {records} records of {calls[mode]} calls")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.recording", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few and short rounds")
    rounds, seconds = QUICK if parser.parse_args().quick else FULL
    with tempfile.TemporaryDirectory(prefix="accredit-bench-") as folder:
        found = measure(Path(folder), rounds, seconds)
    rates = {key: median(load.calls / load.duration * 1e6 for load, _ in samples) for key, samples in found.items()}
    print("| mode | connections | calls/s | to off | CPU per call, us | p50, us | p99, us |")
    print("|---|---|---|---|---|---|---|")
    for (mode, connections), samples in found.items():
        cpu = median(cpu for _, cpu in samples)
        p50, p99 = median(load.p50 for load, _ in samples), median(load.p99 for load, _ in samples)
        rate = rates[mode, connections]
        ratio = rates["off", connections] / rate
        print(f"| {mode} | {connections} | {rate:,.0f} | {ratio:.2f} x | {cpu:.0f} | {p50:.0f} | {p99:.0f} |")
    print(f"\ndurable at 64 connections: target {TARGET} x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
