"""A record is written once, in whatever chain: a turn whose answer was lost may stand in that of a writer which was
taken for dead since. Written once more in the next one, it made a genuine log one that does not verify."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.world.logs import Log, away, by_database_thread, by_thread, each_executor, in_short, records_in, verified
from tests.world.postgres import cluster, database_for
from tests.world.raw_server import until
from tests.world.records import NOW_MS, decided, gateway
from tests.world.running import run

from accredit.stores.audit_log import queue
from accredit.stores.audit_log.author import CHECKPOINT_RECORDS
from accredit.stores.audit_log.queue import encode_for_turn
from accredit.stores.audit_log.requests import AppendEvents, Begin, Event

__all__ = ["each_executor"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("each_executor", [by_thread, by_database_thread], ids=["file", "database"], indirect=True),
    pytest.mark.usefixtures("each_executor"),
    pytest.mark.holds("stores/audit_log/author", "repeated-turns"),
]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(queue, "LOG_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(queue, "RECORD_RETRY_SECONDS", 0.02)
    return tmp_path / "accredit.db"


async def taken_for_dead(path: Path, log: Log) -> None:
    """What says that its writer lives is gone, and another one ends its chain."""
    name = str(log.records.writer)
    if path.exists():
        shutil.rmtree(path.with_name(f"{path.name}-writers"))
    else:
        with database_for(path.parent) as database, away(database):
            pass
    async with Log(path, durable=False) as other:
        await other.call_when_it_is_back()
        await until(lambda: name in over(path))


def over(path: Path) -> list[str]:
    ended = "SELECT name FROM log_writers WHERE over"
    if path.exists():
        with closing(sqlite3.connect(path)) as connection:
            return [name for (name,) in connection.execute(ended)]
    with database_for(path.parent) as database:
        return [name for (name,) in cluster().run(ended, database=database.database)]


@pytest.mark.parametrize("written", [True, False], ids=["written", "not written"])
def test_a_turn_in_doubt_is_on_record_once__though_its_writer_was_taken_for_dead(path: Path, written: bool) -> None:
    async def main() -> list[str]:
        async with Log(path, durable=False) as log:
            await log.call()
            await until(lambda: log.records.waiting == 0)
            log.executor.forgets, log.executor.full = written, not written
            call = decided()
            await log.port.begin(call)
            await until(lambda: log.port.problem() is not None)
            log.executor.full = True
            await taken_for_dead(path, log)
            log.executor.forgets = log.executor.full = False
            await until(lambda: log.records.waiting == 0)
        return [said for each, said in in_short(records_in(path)) if each == call.call.id]

    assert run(main()) == ["decision", "unknown"]
    assert verified(path).fault is None


@pytest.mark.parametrize("records", [3, CHECKPOINT_RECORDS], ids=["a record", "a checkpoint"])
async def test_a_turn_in_doubt_is_on_record_once__though_who_wrote_it_was_replaced_and_whatever_it_ended_with(
    path: Path, records: int
) -> None:
    asked = AppendEvents("ab" * 16, 1, [encode_for_turn(Event(decided(), NOW_MS)) for _ in range(records)])

    for begins in (True, False):
        executor = Log.executors(path, gateway()[0], False)
        if begins:
            await executor.run(Begin(asked.writer))
        assert await executor.run(asked) == [None] * records
        await executor.aclose()
    assert verified(path).records == records
