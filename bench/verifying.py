"""`python -m bench.verifying [--records N] [--rounds N]`: how fast `accredit log verify` is, and what memory it takes.

The same log of four writers, whose calls all have their proofs, is verified in a file and, where PostgreSQL is
installed, in a database on this machine: on one core and on all that there are, with its proofs and without. Rounds are
interleaved. CPU time is told as well, of the command with the processes that it forks, as other work on the machine
does not change it as much; the database's own is not in it. `floor` is how many times that is of the least that the
signatures take, which is measured before each run: Ed25519 for each record and, with proofs, both of the agent for each
call. Start-up is in all of it. The peak of memory is that of its largest process.
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
from statistics import median
from typing import NamedTuple

import uvloop
from cryptography.hazmat.primitives.asymmetric import ed25519, mldsa
from tests.unit.ratify.world import HUMAN, NOW
from tests.world.copied_logs import copy_log
from tests.world.decisions import call, passed_down, proven
from tests.world.postgres import cluster, programs
from tests.world.proved_calls import SETTINGS, record
from tests.world.recorded import thread
from tests.world.records import POLICY

from accredit.gateway.recording import recorder
from accredit.keys import log_signer, make_key, write_key
from accredit.keys.formats import KEY_FILE_VERSION, KeyFile
from accredit.stores.audit_log.queue import QueuedRecords

WRITERS, AT_ONCE = 4, 16
ROW = "| {:<10} | {:>5} | {:<6} | {:>9,.0f} | {:>6.1f} | {:>10.0f} | {:>5.2f} | {:>8} |"
RECORD_BYTES, CHALLENGE_BYTES = 1_400, 72
"""What is signed of a record, and of a call by its agent."""


class Verified(NamedTuple):
    """One run of the command: records, seconds, seconds of CPU time, MiB at the most."""

    records: int
    wall: float
    cpu: float
    peak: int


async def write(folder: Path, calls: int) -> None:
    """Writes a log, and the keys of its gateway and of who allowed its calls. They come when their proofs are made."""
    recorder.unix_ms = lambda: NOW * 1000
    key, chain = make_key("gateway", "bench", NOW), passed_down(2)
    write_key(folder / "gateway.key", key)
    owner = KeyFile(KEY_FILE_VERSION, "human", "Owner", HUMAN.id, NOW, HUMAN.public_key)
    (folder / "owner.key.pub").write_bytes(owner.text())
    for _ in range(WRITERS):
        records = QueuedRecords(
            thread(folder / "accredit.db", log_signer(key), durable=True),
            durable=True,
            policy_digest=POLICY,
            on_problem=print,
        )
        await records.start()

        async def some(records: QueuedRecords = records) -> None:
            for _ in range(calls // WRITERS // AT_ONCE):
                asked = proven(call(session="s-1"), chain, bound=True)
                await record(records, SETTINGS, asked, hides=False)

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))
        await records.aclose()


def signatures_us() -> tuple[float, float]:
    """CPU time that verifying a record's signature takes, and both of an agent, in microseconds: medians."""
    key, agent, other = (
        ed25519.Ed25519PrivateKey.generate(),
        ed25519.Ed25519PrivateKey.generate(),
        mldsa.MLDSA65PrivateKey.generate(),
    )
    payload, challenge = os.urandom(RECORD_BYTES), os.urandom(CHALLENGE_BYTES)
    of_record, of_agent, of_other = key.sign(payload), agent.sign(challenge), other.sign(challenge)
    first, second, third = key.public_key(), agent.public_key(), other.public_key()
    records: list[int] = []
    agents: list[int] = []
    for _ in range(200):
        began = time.thread_time_ns()
        first.verify(of_record, payload)
        between = time.thread_time_ns()
        second.verify(of_agent, challenge)
        third.verify(of_other, challenge)
        records.append(between - began)
        agents.append(time.thread_time_ns() - between)
    return median(records) / 1_000, median(agents) / 1_000


def verify(folder: Path, store: str, cores: set[int], *, proofs: bool) -> Verified:
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
        *(("--root", "owner.key.pub", "--require-proofs") if proofs else ("--no-proofs",)),
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
    parser.add_argument("--records", type=int, default=20_000)
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
        print("| store      | cores | proofs | records/s |      s | CPU us/rec | floor | peak MiB |")
        print("|---|---|---|---|---|---|---|---|")
        for _ in range(options.rounds):
            for used in ({min(cores)}, cores):
                for kind, store in stores.items():
                    for proofs in (True, False):
                        of_record, of_agent = signatures_us()
                        done = verify(folder, store, used, proofs=proofs)
                        each = 1e6 * done.cpu / done.records
                        least = of_record + of_agent / 2 * proofs
                        how = "yes" if proofs else "no"
                        rate = done.records / done.wall
                        print(
                            ROW.format(kind, len(used), how, rate, done.wall, each, each / least, done.peak), flush=True
                        )
    print(f"load: {os.getloadavg()[0]:.1f} on {len(cores)} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
