"""`python -m bench.verifying [--records N] [--rounds N]`: how fast `accredit log verify` is, and what memory it takes.

The same log of four writers is verified in a file and, where PostgreSQL is installed, in a database on this machine, on
one core and on all that there are. Rounds are interleaved. CPU time is told as well, of the command with the processes
that it forks, as other work on the machine does not change it as much; the database's own is not in it. The peak of
memory is that of its largest process.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import uvloop
from tests.world.copied_logs import copy_log
from tests.world.postgres import cluster, programs
from tests.world.recorded import thread
from tests.world.records import OK, POLICY, decided

from accredit.keys import log_signer, make_key, write_key
from accredit.stores.audit_log.queue import QueuedRecords

WRITERS, AT_ONCE = 4, 64
ROW = "| {:<10} | {:>5} | {:>9,.0f} | {:>6.1f} | {:>10.0f} | {:>8} |"


class Verified(NamedTuple):
    """One run of the command: records, seconds, seconds of CPU time, MiB at the most."""

    records: int
    wall: float
    cpu: float
    peak: int


async def write(folder: Path, calls: int) -> None:
    """Writes a log, and the gateway's key."""
    key = make_key("gateway", "bench", 1_800_000_000)
    write_key(folder / "gateway.key", key)
    for _ in range(WRITERS):
        records = QueuedRecords(
            thread(folder / "accredit.db", log_signer(key), durable=True),
            durable=True,
            policy_digest=POLICY,
            on_problem=print,
        )
        await records.start()
        await asyncio.gather(*(record(records, calls // WRITERS // AT_ONCE) for _ in range(AT_ONCE)))
        await records.aclose()


async def record(records: QueuedRecords, calls: int) -> None:
    for _ in range(calls):
        call = decided()
        await records.begin(call)
        await records.finish(call, OK)


def verify(folder: Path, store: str, cores: set[int]) -> Verified:
    """Runs the command on these cores."""
    began = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "accredit",
        "log",
        "verify",
        "--key",
        "gateway.key.pub",
        "--json",
        "--store",
        store,
    ]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, preexec_fn=lambda: os.sched_setaffinity(0, cores)
    )
    assert process.stdout is not None
    report = json.load(process.stdout)
    process.stdout.close()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    assert report["valid"], report["fault"]
    wall = time.perf_counter() - began
    return Verified(report["records"], wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss >> 10)


def main() -> int:
    parser = argparse.ArgumentParser(description="How fast a log is verified.")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    cores = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory(prefix="accredit-bench-") as name:
        folder = Path(name)
        uvloop.run(write(folder, options.records // 2))
        stores = {"SQLite": "sqlite:///accredit.db"}
        if programs() is not None:
            database = cluster().fresh()
            copy_log(folder / "accredit.db", database)
            socket = database.hosts[0].name
            stores["PostgreSQL"] = f"postgresql://{database.user}@/{database.database}?host={socket}"
        print("| store      | cores | records/s |      s | CPU us/rec | peak MiB |")
        print("|---|---|---|---|---|---|")
        for _ in range(options.rounds):
            for used in ({min(cores)}, cores):
                for kind, store in stores.items():
                    done = verify(folder, store, used)
                    each = 1e6 * done.cpu / done.records
                    print(ROW.format(kind, len(used), done.records / done.wall, done.wall, each, done.peak), flush=True)
    print(f"load: {os.getloadavg()[0]:.1f} on {len(cores)} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
