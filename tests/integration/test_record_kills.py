"""Processes that record calls and are killed: what was answered is recorded, and what was forwarded was decided."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.world.children import children
from tests.world.logs import Log, by_database_process, records_in, verified
from tests.world.postgres import cluster, database_for
from tests.world.raw_server import until
from tests.world.records import NOW_MS
from tests.world.running import run
from tests.world.warm import Warm

from accredit.stores.audit_log import queue

pytestmark = pytest.mark.slow

ROUNDS = [5, pytest.param(20, marks=pytest.mark.long)]
"""Processes that are killed one after the other."""


class Killed:
    """A writer that is killed after so many lines of its output; `forwarded` and `answered` are the calls' ids."""

    def __init__(self, log: Path | str, now_ms: int) -> None:
        self.process = Warm(
            [sys.executable, "-m", "tests.world.record_writer", str(log), str(now_ms)], stdout=subprocess.PIPE
        )
        self.lines: list[bytes] = []

    def kill_after(self, lines: int, *, log_process_first: bool = False) -> None:
        self.read(lines)
        if log_process_first:
            for child in children(self.process.pid):
                os.kill(child, signal.SIGKILL)
            self.read(lines)
        self.kill()

    def read(self, lines: int) -> None:
        assert self.process.stdout is not None
        self.lines += [self.process.stdout.readline() for _ in range(lines)]

    def kill(self) -> None:
        self.process.kill()
        assert self.process.stdout is not None
        self.lines += self.process.stdout.read().splitlines(keepends=True)
        self.process.stdout.close()
        self.process.wait()

    def ids(self, what: str) -> set[str]:
        lines = [line.decode().split() for line in self.lines if line.endswith(b"\n")]
        return {call_id for kind, call_id in lines if kind == what}


def all_closed(path: Path) -> bool:
    """Whether no call of a dead writer is open: in a file at once, in a database once somebody has looked."""
    records = records_in(path)
    allowed = {record.call.id for record in records if record.decision and record.decision.verdict == "allow"}
    return allowed == {record.call.id for record in records if record.outcome}


def check(path: Path, killed: list[Killed]) -> None:
    async def recover() -> None:
        async with Log(path, clock=lambda: NOW_MS) as later:
            await later.records.start()
            await until(lambda: all_closed(path))

    run(recover())
    report = verified(path)
    assert report.valid, report.fault
    records = records_in(path)
    decided = {record.call.id for record in records if record.phase == "decision"}
    outcomes = {record.call.id: record.outcome.status for record in records if record.outcome}
    forwarded = {call_id for each in killed for call_id in each.ids("f")}
    answered = {call_id for each in killed for call_id in each.ids("a")}
    assert answered
    assert forwarded <= decided
    assert all(outcomes.get(call_id) == "ok" for call_id in answered)
    assert decided == set(outcomes)
    assert sum(record.phase == "outcome" for record in records) == len(outcomes)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_every_answer_has_its_record__however_often_the_process_is_killed_and_the_clock_steps_back(
    rounds: int, tmp_path: Path
) -> None:
    path, chance = tmp_path / "accredit.db", random.Random(7)
    killed: list[Killed] = []
    for number in range(rounds):
        writer = Killed(path, NOW_MS - 60_000 * number)
        killed.append(writer)
        writer.kill_after(chance.randrange(1, 600), log_process_first=number % 3 == 0)
    check(path, killed)
    writers = verified(path).writers
    assert len(writers) >= rounds


@pytest.mark.timeout(300)
def test_in_a_database_as_well__whoever_is_killed__the_gateway_its_log_process_or_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Log, "executors", staticmethod(by_database_process))
    monkeypatch.setattr(queue, "LOG_LOOK_SECONDS", 0.1)
    path, chance = tmp_path / "no.db", random.Random(7)
    killed: list[Killed] = []
    with database_for(tmp_path) as database:
        url = f"postgresql://{database.user}@/{database.database}?host={database.hosts[0].name}"
        lives = Killed(url, NOW_MS)
        for number in range(5):
            writer = Killed(url, NOW_MS - 60_000 * number)
            killed.append(writer)
            writer.read(chance.randrange(1, 300))
            cluster().run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                f" WHERE datname = '{database.database}' AND application_name = 'accredit' AND pid <> pg_backend_pid()"
            )
            writer.kill_after(chance.randrange(1, 300), log_process_first=number % 3 == 0)
        lives.kill_after(100)
        check(path, [*killed, lives])
        assert len(verified(path).writers) >= len(killed) + 1
