"""`accredit log list -f`, the real command, on a log that is written meanwhile."""

import asyncio
import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from tests.world.command import environment
from tests.world.logs import Log
from tests.world.raw_server import PATIENCE
from tests.world.records import OK
from tests.world.warm import command

pytestmark = pytest.mark.slow


class Following:
    """`async with Following(store) as calls`: `accredit log list -f --json -n 2`, from its start on."""

    def __init__(self, store: Path | str) -> None:
        url = store if isinstance(store, str) else f"sqlite:///{store}"
        self._command = [*command(), "log", "list", "-f", "--json", "-n", "2", "--store", url]

    async def __aenter__(self) -> "Following":
        self._process = await asyncio.create_subprocess_exec(
            *self._command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.terminate()
        await self._process.wait()

    async def note(self) -> str:
        """What it says on stderr next."""
        assert self._process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            return (await self._process.stderr.readline()).decode()

    async def next(self) -> str:
        """The id of the call that is shown next."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            return json.loads(await self._process.stdout.readline())["call"]


async def test_a_log_that_is_longer_than_the_limit_is_followed__also_calls_that_began_long_before(
    tmp_path: Path,
) -> None:
    async with Log(tmp_path / "accredit.db") as log:
        slow = await log.call(outcome=None)
        calls = [await log.call() for _ in range(5)]
        async with Following(tmp_path / "accredit.db") as following:
            assert [await following.next(), await following.next()] == [each.call.id for each in calls[-2:]]
            for _ in range(2):
                new = await log.call()
                assert await following.next() == new.call.id
            await log.port.finish(slow, OK)
            assert await following.next() == slow.call.id
            # Whoever follows keeps no older state of the log alive: it would grow, and nothing could be pruned.
            with closing(sqlite3.connect(tmp_path / "accredit.db")) as store:
                assert store.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


async def test_a_log_that_is_replaced_is_followed_from_its_beginning__and_not_silently_never_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "accredit.db"
    async with Log(path) as log:
        calls = [await log.call() for _ in range(3)]
    async with Following(path) as following:
        assert [await following.next(), await following.next()] == [each.call.id for each in calls[-2:]]
        for name in ("accredit.db", "accredit.db-wal", "accredit.db-shm"):
            if (tmp_path / name).exists():
                (tmp_path / name).rename(tmp_path / f"old-{name}")
        assert "waiting for the log" in await following.note()
        async with Log(path) as log:
            new = await log.call()
            assert "is another log now" in await following.note()
            assert await following.next() == new.call.id
