"""Outcomes that are known while the log can't be written: they wait, and are written when it can be. Only what a
process takes with it is unknown."""

import asyncio
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.world.children import children
from tests.world.logs import FILES, Log, by_process, each_executor, in_short, no_store, records_in, verified
from tests.world.raw_server import until
from tests.world.records import NOW_MS, OK, decided
from tests.world.running import run

from accredit.attest import Outcome
from accredit.errors import StoreUnavailable
from accredit.stores.audit_log import process as log_process
from accredit.stores.audit_log import queue as log
from accredit.stores.audit_log import writer as log_writer
from accredit.stores.audit_log.queue import encode_for_turn
from accredit.stores.audit_log.requests import Event
from accredit.stores.sqlite import store as sqlite_store

__all__ = ["each_executor"]

with_each_executor = pytest.mark.usefixtures("each_executor")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "accredit.db"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "RECORD_RETRY_SECONDS", 0.02)


def statuses(path: Path) -> list[str]:
    return [status for _, status in in_short(records_in(path))]


@with_each_executor
async def test_an_outcome_of_a_full_disk_is_written_when_there_is_room__though_nobody_calls_again(path: Path) -> None:
    async with Log(path) as each:
        calls = [await each.call(None) for _ in range(3)]
        with no_store(path):
            for call in calls:
                with pytest.raises(StoreUnavailable):
                    await each.port.finish(call, OK)
            assert each.port.problem() is not None
        await until(lambda: each.port.problem() is None)
        assert statuses(path) == ["decision"] * 3 + ["ok"] * 3
    assert verified(path).valid


@FILES
@with_each_executor
async def test_an_outcome_that_a_lock_held_up_is_written_when_it_is_given_up(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (sqlite_store, log_process, log_writer):
        monkeypatch.setattr(module, "STORE_LOCK_SECONDS", 0.1)

    async with Log(path) as each:
        call = await each.call(None)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable):
                await each.port.finish(call, Outcome(status="tool_error"))
            other.execute("ROLLBACK")
        await until(lambda: statuses(path) == ["decision", "tool_error"])
    assert statuses(path) == ["decision", "tool_error"]
    assert verified(path).valid


@pytest.mark.slow
async def test_an_outcome_that_was_queued_when_the_log_process_died_is_written_by_the_next_one_in_the_same_chain(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Log, "executors", staticmethod(by_process))

    async with Log(path) as each:
        calls = [await each.call(None) for _ in range(20)]
        (writes,) = children()
        os.kill(writes, signal.SIGSTOP)  # it has them in its socket, and does not do them
        finishing = [asyncio.ensure_future(each.port.finish(call, OK)) for call in calls]
        await asyncio.sleep(0)
        os.kill(writes, signal.SIGKILL)
        answers = await asyncio.gather(*finishing, return_exceptions=True)
        assert all(isinstance(answer, StoreUnavailable) for answer in answers)
        await until(lambda: statuses(path).count("ok") == 20)
    report = verified(path)
    assert (report.valid, report.records, len(report.writers)) == (True, 40, 1)


async def test_an_outcome_that_was_written_without_an_answer_is_not_written_again(path: Path) -> None:
    async with Log(path) as each:
        call = await each.call(None)
        each.executor.forgets = True
        with pytest.raises(StoreUnavailable):
            await each.port.finish(call, OK)
        await until(lambda: len(each.executor.asked) > 5)
        each.executor.forgets = False
        await until(lambda: each.port.problem() is None)
    assert statuses(path) == ["decision", "ok"]
    assert verified(path).valid


async def test_that_a_call_was_not_forwarded_is_written_as_well__though_nobody_calls_again(path: Path) -> None:
    async with Log(path) as each:
        await each.records.start()
        each.executor.forgets = True
        with pytest.raises(StoreUnavailable):
            await each.call()
        each.executor.forgets = False
        await until(lambda: statuses(path) == ["decision", "error"])
    assert statuses(path) == ["decision", "error"]


async def test_calls_go_on_while_much_waits__they_need_not_wait_for_all_of_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Log(path) as each:
        each.executor.turn_records = 4
        calls = [await each.call(None) for _ in range(40)]
        each.executor.full = True
        answers = [each.port.finish(call, OK) for call in calls]
        await asyncio.gather(*answers, return_exceptions=True)
        each.executor.full = False
        await each.port.begin(decided())
        assert statuses(path).count("ok") <= 4
        await until(lambda: statuses(path).count("ok") == 40)
    assert verified(path).valid


def test_what_waits_is_bounded__and_what_is_lost_is_told_and_closed_as_unknown(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MAX_KEPT_OUTCOMES", 2)

    async def main() -> list[str]:
        async with Log(path) as each:
            calls = [await each.call(None) for _ in range(3)]
            each.executor.full = True
            await asyncio.gather(*(each.port.finish(call, OK) for call in calls), return_exceptions=True)
            each.executor.full = False
            await until(lambda: statuses(path).count("ok") == 2)
        return each.problems

    assert "1 outcomes were lost: 2 wait for the store already" in run(main())
    assert statuses(path) == ["decision"] * 3 + ["ok", "ok", "unknown"]
    assert verified(path).valid


async def test_a_process_that_is_killed_takes_what_waits_with_it__its_calls_are_closed_as_unknown(path: Path) -> None:
    each = Log(path)
    call = await each.call(None)
    each.executor.full = True
    with pytest.raises(StoreUnavailable):
        await each.port.finish(call, OK)
    assert each.records._writing is not None
    each.records._writing.cancel()
    await each.die()
    async with Log(path) as later:
        await later.records.start()
    assert statuses(path) == ["decision", "unknown"]


def test_a_log_that_is_closed_tries_once_more__and_tells_what_it_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "RECORD_RETRY_SECONDS", 60.0)
    monkeypatch.setattr(log, "CLOSE_RECORDS_SECONDS", 0.1)

    async def closed(*, full: bool) -> list[str]:
        each = Log(path)
        call = await each.call(None)
        each.executor.full = True
        with pytest.raises(StoreUnavailable):
            await each.port.finish(call, OK)
        each.executor.full = full
        await each.records.aclose()
        return each.problems

    assert not any("lost" in each for each in run(closed(full=False)))
    assert statuses(path) == ["decision", "ok"]
    assert "1 records were lost: the store did not take them" in run(closed(full=True))


async def test_as_many_bytes_are_kept_as_there_is_room_for__and_room_is_given_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Log(path) as each:
        for already_ok in (0, 1):
            calls = [await each.call(None) for _ in range(2)]
            size = len(encode_for_turn(Event(calls[0], NOW_MS, OK)))
            monkeypatch.setattr(log, "MAX_KEPT_OUTCOME_BYTES", size + 10)
            each.executor.full = True
            await asyncio.gather(*(each.port.finish(call, OK) for call in calls), return_exceptions=True)
            each.executor.full = False
            await until(lambda ok=already_ok + 1: statuses(path).count("ok") == ok)
        assert each.problems.count("1 outcomes were lost: 1 wait for the store already") == 2
