"""The thread that works on a file: batches, failures that stay with their job, and an end to every wait."""

import asyncio
import sqlite3
from collections.abc import Callable, Generator
from contextlib import aclosing, closing
from pathlib import Path
from threading import Event, Thread, active_count
from typing import Any

import pytest
from tests.world.raw_server import PATIENCE, until
from tests.world.running import run

from accredit.errors import ConfigurationError, StoreUnavailable
from accredit.stores.sqlite.database import Database
from accredit.stores.sqlite.store import Worker

pytestmark = pytest.mark.holds("stores/sqlite/store")

Opening = aclosing[Worker]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def opening(file: Path) -> Opening:
    return aclosing(Worker(file))


class Gate:
    """A job that holds the thread up until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = Event(), Event()

    def job(self, _: sqlite3.Connection) -> None:
        self.reached.set()
        assert self.opened.wait(PATIENCE)


@pytest.fixture
def gate() -> Generator[Gate]:
    made = Gate()
    yield made
    made.opened.set()


def note(number: int) -> Callable[[sqlite3.Connection], int]:
    def job(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO spent VALUES (?, 0)", (number.to_bytes(4, "big"),))
        return number

    return job


def noted(file: Path) -> int:
    with closing(sqlite3.connect(file)) as other:
        return other.execute("SELECT count(*) FROM spent").fetchone()[0]


async def queue(worker: Worker, gate: Gate, *jobs: Callable[[sqlite3.Connection], Any]) -> list[asyncio.Task[Any]]:
    """Has jobs wait behind the gate, so that they are one batch."""
    first = asyncio.create_task(worker.run(gate.job))
    await until(gate.reached.is_set)
    tasks = [asyncio.create_task(worker.run(job)) for job in jobs]
    await asyncio.sleep(0)
    gate.opened.set()
    await first
    return tasks


async def test_an_answer_comes_after_its_commit(file: Path, opening: Opening) -> None:
    async with opening as worker:
        for number in range(20):
            assert await worker.run(note(number)) == number
            assert noted(file) == number + 1


async def test_jobs_that_wait_share_a_commit__or_each_call_would_pay_for_its_own(gate: Gate, opening: Opening) -> None:
    async with opening as worker:
        statements: list[str] = []
        await worker.run(lambda connection: connection.set_trace_callback(statements.append))
        tasks = await queue(worker, gate, *map(note, range(100)))
        assert await asyncio.gather(*tasks) == list(range(100))
        # one for the gate, one for all the others
        assert [each for each in statements if each in ("BEGIN IMMEDIATE", "COMMIT")][-4:] == [
            "BEGIN IMMEDIATE",
            "COMMIT",
        ] * 2
        assert statements.count("BEGIN IMMEDIATE") == 2


def fails(_: sqlite3.Connection) -> None:
    raise sqlite3.IntegrityError("on purpose")


def refuses(_: sqlite3.Connection) -> None:
    raise ConfigurationError("on purpose", "none")


def overflows(connection: sqlite3.Connection) -> None:
    connection.execute("SELECT ?", (2**70,))


async def test_a_job_that_fails_spoils_no_other(file: Path, gate: Gate, opening: Opening) -> None:
    async with opening as worker:
        tasks = await queue(worker, gate, note(1), fails, note(2), refuses, overflows, note(1), note(3))
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert [answers[0], answers[2], answers[6]] == [1, 2, 3]
        assert [type(answers[number]) for number in (1, 3, 4, 5)] == [
            StoreUnavailable,
            ConfigurationError,
            StoreUnavailable,
            StoreUnavailable,
        ]
        assert noted(file) == 3


async def test_what_a_failed_job_did_is_undone(file: Path, opening: Opening) -> None:
    def half(connection: sqlite3.Connection) -> None:
        note(1)(connection)
        refuses(connection)

    async with opening as worker:
        with pytest.raises(ConfigurationError):
            await worker.run(half)
        assert await worker.run(note(2)) == 2
        assert noted(file) == 1


@pytest.mark.parametrize("wait", ["STORE_WAIT_SECONDS", "STORE_LOCK_SECONDS"])
async def test_a_disk_that_hangs_holds_nobody_up_for_ever(
    wait: str, file: Path, gate: Gate, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opening as worker:
        await worker.run(note(0))
        if wait == "STORE_WAIT_SECONDS":
            monkeypatch.setattr("accredit.stores.sqlite.store.STORE_WAIT_SECONDS", 0.05)
        hanging = asyncio.create_task(worker.run(gate.job))
        await until(gate.reached.is_set)
        if wait == "STORE_LOCK_SECONDS":
            # The next job's own time is over when the thread comes to it.
            monkeypatch.setattr("accredit.stores.sqlite.store.STORE_LOCK_SECONDS", 0.0)
        behind = asyncio.create_task(worker.run(note(1)))
        if wait == "STORE_LOCK_SECONDS":
            await asyncio.sleep(0)
            gate.opened.set()
            await hanging
            expected = "locked or busy"
        else:
            with pytest.raises(StoreUnavailable, match="has not answered"):
                await hanging
            expected = "has not answered"
        with pytest.raises(StoreUnavailable, match=expected):
            await behind
        monkeypatch.undo()
        gate.opened.set()
        assert await worker.run(note(2)) == 2


async def test_more_jobs_than_there_is_room_for_are_refused_at_once(
    gate: Gate, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opening as worker:
        first = asyncio.create_task(worker.run(gate.job))
        await until(gate.reached.is_set)
        monkeypatch.setattr("accredit.stores.sqlite.store.MAX_STORE_JOBS", 5)
        waiting = [asyncio.create_task(worker.run(note(number))) for number in range(5)]
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable, match="5 jobs are waiting"):
            await worker.run(note(99))
        gate.opened.set()
        await first
        assert await asyncio.gather(*waiting) == list(range(5))


async def test_a_caller_that_goes_away_spoils_nothing(gate: Gate, opening: Opening) -> None:
    async with opening as worker:
        first = asyncio.create_task(worker.run(gate.job))
        await until(gate.reached.is_set)
        left, stays = (asyncio.create_task(worker.run(note(number))) for number in (1, 2))
        await asyncio.sleep(0)
        left.cancel()
        gate.opened.set()
        await first
        assert await stays == 2
        with pytest.raises(asyncio.CancelledError):
            await left


def test_a_loop_that_has_ended_spoils_nothing_for_the_next(file: Path) -> None:
    worker, gate = Worker(file), Gate()

    async def leaves() -> None:
        task = asyncio.create_task(worker.run(gate.job))
        await until(gate.reached.is_set)
        task.cancel()

    async def comes() -> None:
        gate.opened.set()
        assert await worker.run(note(1)) == 1
        await worker.aclose()

    run(leaves())
    run(comes())


async def test_jobs_that_wait_are_done_before_the_end(file: Path, gate: Gate) -> None:
    worker, threads = Worker(file), active_count()
    tasks = await queue(worker, gate, *map(note, range(10)))
    await worker.aclose()
    assert await asyncio.gather(*tasks) == list(range(10))
    await worker.aclose()
    with pytest.raises(StoreUnavailable, match="closed"):
        await worker.run(note(99))
    # to_thread's own may be there
    assert active_count() <= threads + 1
    assert noted(file) == 10


async def test_a_thread_that_can_not_be_started_is_a_refusal__and_is_tried_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoThread(Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    worker = Worker(file)
    monkeypatch.setattr("accredit.stores.sqlite.store.Thread", NoThread)
    with pytest.raises(StoreUnavailable, match="can't start new thread"):
        await worker.run(note(0))
    monkeypatch.undo()
    assert await worker.run(note(1)) == 1
    await worker.aclose()


def test_a_worker_that_was_never_used_ends_without_a_file(file: Path) -> None:
    run(Worker(file).aclose())
    assert not file.exists()


def test_full_is_full_and_normal_is_normal(tmp_path: Path) -> None:
    def level(connection: sqlite3.Connection) -> int:
        return connection.execute("PRAGMA synchronous").fetchone()[0]

    with closing(Database(tmp_path / "one.db")) as normal, closing(Database(tmp_path / "two.db", "FULL")) as full:
        assert normal.transact([level], writes=False) == [1]
        assert full.transact([level], writes=False) == [2]


def rows(connection: sqlite3.Connection) -> int:
    return connection.execute("SELECT count(*) FROM spent").fetchone()[0]


async def test_a_look_sees_at_once_what_another_has_written__and_waits_for_nobody_who_writes(
    file: Path, opening: Opening
) -> None:
    async with opening as worker:
        assert [await worker.look(rows), await worker.look(rows)] == [0, 0]
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("INSERT INTO spent VALUES (x'01', 1)")
            assert await worker.look(rows) == 1
            other.execute("BEGIN EXCLUSIVE")
            other.execute("INSERT INTO spent VALUES (x'02', 1)")
            assert await worker.look(rows) == 1


async def test_a_look_in_another_thread_and_one_that_fails_are_run_like_other_jobs(opening: Opening) -> None:
    async with opening as worker:
        await worker.look(rows)
        assert await asyncio.to_thread(asyncio.run, worker.look(rows)) == 0
        with pytest.raises(StoreUnavailable, match="no such table"):
            await worker.look(lambda connection: connection.execute("SELECT * FROM nowhere").fetchone())
        assert await worker.look(rows) == 0


async def test_a_look_at_a_file_that_was_replaced_is_refused__it_knows_of_nothing_that_was_spent(
    file: Path, tmp_path: Path, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accredit.stores.sqlite.database.STORE_FILE_CHECK_SECONDS", 0.0)

    async with opening as worker:
        await worker.look(rows)
        (tmp_path / "another").touch()
        (tmp_path / "another").rename(file)
        with pytest.raises(StoreUnavailable, match="was replaced"):
            await worker.look(rows)
        assert file.read_bytes() == b""
