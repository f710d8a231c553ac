"""`python -m bench.records [--quick]`: what a call's two records cost, and how fast a log is verified.

Each mode runs with 1 and with 64 calls at once, on a file of its own in a temporary folder. CPU time is the event
loop's share, and all, with the process that signs and writes. What the disk is like decides on the rest, so a
plain write with its fsync is measured beside it.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import uvloop
from tests.world.records import OK, POLICY, decided, gateway

from accredit.attest import CallDecision
from accredit.stores.audit_log.places import FileLog
from accredit.stores.audit_log.process import LogProcess
from accredit.stores.audit_log.queue import QueuedRecords
from accredit.stores.audit_log.reader import LogFile
from bench.procfs import cpu_seconds

FULL_CALLS, QUICK_CALLS = 4_000, 500
MODES = (("record", False), ("durable", True))
CONNECTIONS = (1, 64)
TARGET = 5_000
"""Records a second that one core is to verify at least."""


@dataclass(frozen=True, slots=True)
class Row:
    """One mode: microseconds of CPU time for each record, records a second, and records a second that are verified."""

    mode: str
    connections: int
    loop_us: float
    all_us: float
    per_second: float
    verified: float


async def record(records: QueuedRecords, calls: list[CallDecision]) -> None:
    for call in calls:
        await records.begin(call)
        await records.finish(call, OK)


async def run(path: Path, *, durable: bool, connections: int, calls: int) -> tuple[float, float, float]:
    signer, _ = gateway()
    records = QueuedRecords(
        LogProcess(FileLog(path, "FULL" if durable else "NORMAL"), signer),
        durable=durable,
        policy_digest=POLICY,
        on_problem=print,
    )
    await records.start()
    work = [[decided() for _ in range(calls // connections)] for _ in range(connections)]
    began, cpu, loop = time.perf_counter(), cpu_seconds(os.getpid()), time.thread_time()
    await asyncio.gather(*(record(records, each) for each in work))
    await records.aclose()
    return time.perf_counter() - began, cpu_seconds(os.getpid()) - cpu, time.thread_time() - loop


def measure(folder: Path, mode: str, *, durable: bool, connections: int, calls: int) -> Row:
    path = folder / f"{mode}-{connections}.db"
    calls -= calls % connections
    wall, cpu, loop = uvloop.run(run(path, durable=durable, connections=connections, calls=calls))
    began = time.thread_time()
    with LogFile(path) as log_file:
        report = log_file.verify([gateway()[1]])
    verifying = time.thread_time() - began
    assert report.valid, report.fault
    assert report.records == 2 * calls
    each = 1e6 / report.records
    return Row(mode, connections, loop * each, cpu * each, report.records / wall, report.records / verifying)


def fsync_us(folder: Path, times: int = 200) -> float:
    """Microseconds of a write of 4 KiB that is forced to the disk."""
    descriptor = os.open(folder / "plain", os.O_WRONLY | os.O_CREAT)
    try:
        began = time.perf_counter()
        for _ in range(times):
            os.write(descriptor, bytes(4096))
            os.fdatasync(descriptor)
        return (time.perf_counter() - began) / times * 1e6
    finally:
        os.close(descriptor)


def main() -> int:
    parser = argparse.ArgumentParser(description="What records cost.")
    parser.add_argument("--quick", action="store_true", help="fewer calls")
    calls = QUICK_CALLS if parser.parse_args().quick else FULL_CALLS
    with tempfile.TemporaryDirectory(prefix="accredit-bench-") as name:
        rows = [
            measure(Path(name), mode, durable=durable, connections=connections, calls=calls)
            for mode, durable in MODES
            for connections in CONNECTIONS
        ]
        print(f"a write of 4 KiB with its fdatasync: {fsync_us(Path(name)):.0f} us\n")
    print("| mode | calls at once | event loop, us a record | all CPU, us a record | records/s | verified/s |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row.mode} | {row.connections} | {row.loop_us:.0f} | {row.all_us:.0f} | {row.per_second:,.0f}"
            f" | {row.verified:,.0f} |"
        )
    return 0 if all(row.verified >= TARGET for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
