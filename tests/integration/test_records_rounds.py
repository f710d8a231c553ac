"""Gateways that are killed at any moment, again and again, while many call, a clock steps to and fro, and the disk
is full now and then: what was answered is recorded, what was forwarded was decided, and every chain goes on."""

import asyncio
import contextlib
import json
import random
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.world.command import Serving, accredit
from tests.world.patient_stores import IMPORTS
from tests.world.raw_server import RawServer, until
from tests.world.recorded import records_of
from tests.world.recorded_load import LONG, Load, Upstream, configure, readiness, verify
from tests.world.small_disk import SmallDisk

from accredit.attest import CallRecord, Stored, encode_envelope
from accredit.stores.audit_log.reader import LogFile

pytestmark = pytest.mark.slow

ROUNDS = [4, pytest.param(20, marks=pytest.mark.long)]
"""Gateways that are killed one after the other."""
CLIENTS = 16
MEGABYTES = 16


class Rounds:
    """Gateways that write to one log, one after the other, each with a clock of its own that steps."""

    def __init__(self, folder: Path, disk: SmallDisk | None) -> None:
        self.upstream, self.load = Upstream(), Load()
        self.folder, self.disk = folder, disk
        self.kept: dict[str, bytes] = {}
        self._dice = random.Random(11)
        self._full = False

    @contextlib.asynccontextmanager
    async def gateway(self, seed: int) -> AsyncGenerator[Serving]:
        within: Sequence[str] = () if self.disk is None else self.disk.within
        command = (*within, sys.executable, "-m", "tests.world.stepping_clock", str(seed))
        serving = Serving(
            "--config", str(self.folder / "accredit.toml"), folder=self.folder, command=command,
            env=IMPORTS,
        )  # fmt: skip
        with await asyncio.to_thread(serving.__enter__):
            yield serving

    async def play(self, number: int) -> None:
        """One round: it begins with the disk full or not, and ends so or so."""
        async with self.gateway(number) as gateway:
            working = asyncio.create_task(self.load.work(gateway.port, f"r{number}", CLIENTS))
            if self._full:
                await self._more(self.load.refused)
                self._make_room()
            await self._more(self.load.answered)
            if self._dice.random() < 0.7:
                await self._fill()
            if self._full and self._dice.random() < 0.5:
                self._make_room()
                await self._more(self.load.answered)
            gateway.process.kill()
            await working
        self._keep_checkpoints()

    async def end(self, number: int) -> Path:
        """The last gateway begins and ends in order; gives the log's file."""
        self._make_room()
        async with self.gateway(number) as gateway:
            assert (await readiness(gateway.port))[0] == 200
            gateway.stop()
            await asyncio.to_thread(gateway.wait)
        return self.log()

    def log(self) -> Path:
        """The log's file, or a copy of it, when nobody writes."""
        return (self.folder if self.disk is None else self.disk.copy(self.folder)) / "accredit.db"

    async def _more(self, targets: list[str]) -> None:
        enough = len(targets) + self._dice.randrange(50)
        await until(lambda: len(targets) > enough)

    async def _fill(self) -> None:
        if self.disk is not None:
            enough = len(self.load.refused) + self._dice.randrange(20)
            self._full = True

            def is_full() -> bool:
                assert self.disk is not None
                self.disk.fill()  # again and again: SQLite gives room back each time that it has closed the file
                return len(self.load.refused) > enough

            await until(is_full)

    def _make_room(self) -> None:
        if self.disk is not None:
            self.disk.make_room()
            self._full = False

    def _keep_checkpoints(self) -> None:
        """As somebody would who keeps them elsewhere."""
        with LogFile(self.log()) as log:
            for entry in log.summaries():
                assert isinstance(entry.entry, Stored)
                self.kept[entry.entry.place] = encode_envelope(entry.entry.envelope)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("small", [False, True], ids=["disk", "small-disk"])
@pytest.mark.parametrize("count", ROUNDS)
async def test_after_kills_every_answer_has_its_record_and_nothing_else_was_forwarded(
    count: int, small: bool, tmp_path: Path
) -> None:
    with SmallDisk(tmp_path, MEGABYTES) if small else contextlib.nullcontext() as disk:
        rounds = Rounds(tmp_path, disk)
        async with RawServer(rounds.upstream) as server:
            configure(tmp_path, f'url = "{server.url}"', db=disk.path / "accredit.db" if disk else None)
            for number in range(count):
                await rounds.play(number)
            db = await rounds.end(count)
        rounds.load.check(db, rounds.upstream.called)
        assert bool(rounds.load.refused) is small
        (tmp_path / "kept").write_bytes(b"".join(line + b"\n" for line in rounds.kept.values()))
        found = verify(tmp_path, "--since", "kept")
        assert len(found["writers"]) >= count
        assert found["kept_checkpoints"] >= count - 2  # of the last one dead, and of the last one, there were none yet
        check_what_a_clock_that_steps_leaves_to_the_commands(tmp_path, db)


def check_what_a_clock_that_steps_leaves_to_the_commands(folder: Path, db: Path) -> None:
    """The order is that of the numbers; filters go by each call's own time; pruning ends a chain's past at the first
    record that says that it is newer, or its call, or that is an outcome whose decision stays."""
    records = records_of(db)
    rows = listed(folder)
    assert [row["call"] for row in rows] == [each.call.id for each in reversed(records) if each.phase == "decision"]
    received = [row["received"] for row in reversed(rows)]
    assert received != sorted(received)
    middle = sorted(received)[len(received) // 2]
    assert listed(folder, "--after", middle) == [row for row in rows if row["received"] >= middle]
    assert listed(folder, "--before", middle) == [row for row in rows if row["received"] < middle]
    before = max(map(says, (chain[0] for chain in by_writer(records).values())))  # others begin earlier
    done = accredit(
        "log",
        "prune",
        "--store",
        "sqlite:///accredit.db",
        "--before",
        before,
        "--key",
        "gateway.key",
        folder=folder,
        patience=LONG,
    )
    assert done.returncode == 0, done.stderr
    left = list(that_stay(records, before))
    assert records_of(db) == left
    assert len(left) < len(records)
    assert verify(folder)["valid"]


def that_stay(records: list[CallRecord], before: str) -> Iterator[CallRecord]:
    """The records that pruning leaves, of those that are in the order of their numbers."""
    ended, decided = set[str](), set[str]()
    for record in records:
        if says(record) >= before or (record.phase == "outcome" and record.call.id in decided):
            ended.add(record.log.writer)
        if record.log.writer in ended:
            decided.add(record.call.id)
            yield record


def says(record: CallRecord) -> str:
    """The later of its own time and its call's."""
    return max(record.times.recorded, record.times.received)


def listed(folder: Path, *options: str) -> list[dict[str, Any]]:
    done = accredit(
        "log",
        "list",
        "--store",
        "sqlite:///accredit.db",
        "--json",
        "-n",
        "1000000",
        *options,
        folder=folder,
        patience=LONG,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def by_writer(records: list[CallRecord]) -> dict[str, list[CallRecord]]:
    found: dict[str, list[CallRecord]] = {}
    for record in records:
        found.setdefault(record.log.writer, []).append(record)
    return found
