"""The log keeps what `ports.Records` promises: nothing forwarded or answered without its record, and no record lost."""

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Self, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.world.raw_server import until
from tests.world.records import DENY, NOW_MS, OK, SECRET, Chained, decided, gateway
from tests.world.running import run

from accredit.attest import (
    Call,
    CallRecord,
    Checkpoint,
    Decided,
    Head,
    LogReport,
    LogSigner,
    Outcome,
    RecordSigner,
    Signature,
    Stored,
    recorded_params,
    verify_log,
)
from accredit.errors import AttestationError, StoreUnavailable
from accredit.limits import CHECKPOINT_RECORDS
from accredit.ports import Records
from accredit.stores import log
from accredit.stores.database import Job
from accredit.stores.log import SqliteRecords
from accredit.stores.log_file import LogFile
from accredit.stores.log_lives import hold
from accredit.stores.log_pruning import prune
from accredit.stores.log_tables import touch_writer
from accredit.stores.worker import Worker

T = TypeVar("T")
SIGNER, KEY = gateway()


class Log:
    """`async with Log(path) as log`: one writer, as the gateway has it. `problems` and `heads` are what it told."""

    def __init__(
        self,
        path: Path,
        *,
        durable: bool = True,
        clock: Callable[[], int] = lambda: NOW_MS,
        signer: LogSigner = SIGNER,
    ) -> None:
        self.problems: list[str] = []
        self.heads: list[Head] = []
        self.records = SqliteRecords(
            path,
            signer,
            durable=durable,
            on_problem=self.problems.append,
            on_checkpoint=self.heads.append,
            clock=clock,
        )
        self.port: Records = self.records

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.records.aclose()

    async def call(self, outcome: Outcome | None = OK) -> Decided:
        """One call; without an outcome, it stays open."""
        call = decided()
        await self.port.begin(call)
        if outcome is not None:
            await self.port.finish(call, outcome)
        return call

    async def die(self) -> None:
        """Ends as a process does that is killed: the lock is given up, and nothing is written."""
        assert self.records._life is not None
        self.records._life.close()
        if self.records._timer is not None:
            self.records._timer.cancel()
        await self.records._worker.aclose()


def verified(path: Path) -> LogReport:
    with LogFile(path) as log_file:
        return log_file.verify([KEY])


def records_in(path: Path) -> list[CallRecord]:
    with LogFile(path) as log_file:
        return [record for each in log_file.entries() if (record := each.record()) is not None]


def in_short(records: list[CallRecord]) -> list[tuple[str, str]]:
    return [(each.call.id, each.outcome.status if each.outcome else "decision") for each in records]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "accredit.db"


@pytest.mark.parametrize("durable", [True, False])
def test_a_call_has_a_record_of_its_decision_and_one_of_its_outcome(path: Path, durable: bool) -> None:
    async def main() -> list[Decided]:
        async with Log(path, durable=durable) as each:
            first, denied = await each.call(), decided(decision=DENY)
            await each.port.begin(denied)
            return [first, denied]

    first, denied = run(main())
    assert in_short(records_in(path)) == [
        (first.call.id, "decision"),
        (first.call.id, "ok"),
        (denied.call.id, "decision"),
    ]
    report = verified(path)
    assert report.valid
    assert [writer.checkpointed for writer in report.writers] == [3]
    assert SECRET.encode() not in path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0


def test_a_durable_record_is_in_the_file_before_the_answer(path: Path) -> None:
    async def main() -> None:
        async with Log(path) as each:
            call = decided()
            await each.port.begin(call)
            assert in_short(records_in(path)) == [(call.call.id, "decision")]
            await each.port.finish(call, OK)
            assert in_short(records_in(path))[1:] == [(call.call.id, "ok")]

    run(main())


def test_many_calls_at_once_make_one_chain_without_gaps(path: Path) -> None:
    async def main() -> None:
        async with Log(path) as each:
            await asyncio.gather(*(each.call() for _ in range(300)))

    run(main())
    report = verified(path)
    assert report.valid
    assert report.records == 600
    assert len({record.call.id for record in records_in(path)}) == 300


def test_a_checkpoint_comes_after_so_many_records(path: Path) -> None:
    async def main() -> None:
        async with Log(path) as each:
            await asyncio.gather(*(each.call() for _ in range(CHECKPOINT_RECORDS // 2 + 1)))
            with LogFile(path) as log_file:
                (found,) = log_file.summaries()
            statement = found.statement()
            assert statement is not None
            assert isinstance(statement.predicate, Checkpoint)
            assert statement.predicate.count == CHECKPOINT_RECORDS

    run(main())
    assert verified(path).valid


def test_a_checkpoint_comes_after_some_time__even_if_no_call_does(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "CHECKPOINT_SECONDS", 0.02)

    def checkpoints() -> int:
        with LogFile(path) as log_file:
            return len(list(log_file.summaries()))

    async def main() -> None:
        async with Log(path) as each:
            await each.call()
            await until(lambda: checkpoints() == 1)
            await each.call()
            await until(lambda: checkpoints() == 2)

    run(main())
    assert verified(path).valid


def test_each_head_that_is_signed_is_told_once__and_it_is_one_to_keep(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "CHECKPOINT_SECONDS", 0.02)

    async def main() -> list[Head]:
        dead = Log(path)
        await dead.call(None)
        await dead.die()
        async with Log(path) as each:
            await each.call()
            await until(lambda: len(each.heads) == 2)
            await each.call()
        return each.heads

    heads = run(main())
    assert len({head.writer for head in heads}) == 2  # the one that it buried, and its own
    assert len(heads) == len(set(heads))
    assert heads[-1].sequence == 5  # its end
    with LogFile(path) as log_file:
        assert log_file.verify([KEY], heads).valid
        assert not log_file.verify([KEY], [heads[-1]._replace(sequence=6)]).valid


def test_an_outcome_is_recorded_once__and_only_of_a_call_that_is_open(path: Path) -> None:
    async def main() -> None:
        async with Log(path) as each:
            call = await each.call()
            await each.port.finish(call, OK)
            await each.port.finish(decided(), OK)
            call = await each.call(None)
            await asyncio.gather(*(each.port.finish(call, OK) for _ in range(3)))  # in one turn

    run(main())
    assert len(records_in(path)) == 4


def test_an_outcome_is_recorded_though_nobody_waits_for_it(path: Path) -> None:
    async def main() -> None:
        async with Log(path) as each:
            call = await each.call(None)

            async def wait() -> None:
                await each.port.finish(call, OK)

            waiting = asyncio.create_task(wait())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert waiting.cancelled()

    run(main())
    assert [status for _, status in in_short(records_in(path))] == ["decision", "ok"]


def test_one_record_that_cannot_be_written_does_not_keep_those_beside_it_from_being_written(path: Path) -> None:
    async def main() -> list[BaseException | None]:
        async with Log(path) as each:
            bad = decided(call=Call(id="ab" * 16, method="tools/call", target="\ud800"))
            beginning = [each.port.begin(call) for call in (decided(), bad, decided())]
            return await asyncio.gather(*beginning, return_exceptions=True)

    first, second, third = run(main())
    assert (first, third) == (None, None)
    assert isinstance(second, AttestationError)
    report = verified(path)
    assert (report.valid, report.records) == (True, 4)  # both were open at the end


def test_all_who_wait_are_told_when_the_store_fails__and_the_chain_goes_on_after(path: Path) -> None:
    async def main() -> None:
        async with Log(path) as each:
            await each.call()
            with full_disk():
                beginning = [each.port.begin(decided()) for _ in range(600)]
                answers = await asyncio.gather(*beginning, return_exceptions=True)
            assert all(isinstance(answer, StoreUnavailable) for answer in answers)
            await each.call()

    run(main())
    report = verified(path)
    assert (report.valid, report.records) == (True, 4)


def test_calls_that_a_dead_writer_left_open_are_closed_as_unknown_by_a_later_one(path: Path) -> None:
    async def main() -> tuple[Decided, Decided]:
        dead = Log(path)
        done, cut_off = await dead.call(), await dead.call(None)
        await dead.die()
        async with Log(path) as later:
            await later.call()
        return done, cut_off

    done, cut_off = run(main())
    records = records_in(path)
    assert in_short(records)[:4] == [
        (done.call.id, "decision"), (done.call.id, "ok"), (cut_off.call.id, "decision"), (cut_off.call.id, "unknown"),
    ]  # fmt: skip
    assert records[3].log.writer != records[2].log.writer
    report = verified(path)
    assert report.valid
    assert all(writer.checkpointed == writer.records for writer in report.writers)
    assert not list((path.parent / "accredit.db-writers").iterdir())


def test_calls_of_a_writer_that_is_alive_are_left_alone(path: Path) -> None:
    async def main() -> None:
        async with Log(path) as first, Log(path) as second:
            call = decided()
            await first.port.begin(call)
            await second.call()
            await first.port.finish(call, OK)

    run(main())
    assert "unknown" not in [status for _, status in in_short(records_in(path))]
    assert len(verified(path).writers) == 2


def test_a_log_that_is_closed_closes_its_own_calls(path: Path) -> None:
    async def main() -> None:
        async with Log(path) as each:
            await each.call(None)
        with pytest.raises(StoreUnavailable, match="closed"):
            await each.port.begin(decided())

    run(main())
    assert [status for _, status in in_short(records_in(path))] == ["decision", "unknown"]


def test_a_writer_without_calls_leaves_nothing_behind(path: Path) -> None:
    async def main() -> None:
        async with Log(path) as each:
            assert await each.port.ready()

    run(main())
    assert verified(path) == LogReport(0, (), None)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM log_writers").fetchone() == (0,)


def test_who_writes_is_drawn_when_it_begins__forked_workers_would_share_a_chain(path: Path) -> None:
    async def main() -> None:
        async with Log(path) as each:
            assert each.records.writer is None
            await each.records.start()
            assert each.records.writer is not None

    run(main())


@pytest.mark.parametrize("durable", [True, False])
def test_that_a_writer_gets_no_lock_is_told(durable: bool, path: Path) -> None:
    async def main() -> None:
        async with Log(path, durable=durable) as each:
            for _ in range(2):
                with pytest.raises(StoreUnavailable):
                    await each.port.begin(decided())
            assert each.problems == [f"can't lock a file in {in_the_way}: File exists"]  # once
            assert each.port.problem() == each.problems[0]
            in_the_way.unlink()
            await each.call()
            await until(lambda: each.port.problem() is None)

    in_the_way = path.with_name("accredit.db-writers")
    in_the_way.touch()
    run(main())


@pytest.mark.parametrize("how", ["cancelled", "late"])
def test_a_lock_that_comes_when_nobody_waits_for_it_is_given_up(
    how: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "STORE_WAIT_SECONDS", 0.05 if how == "late" else 10)
    busy = Event()

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        each = Log(path)
        first = asyncio.create_task(asyncio.to_thread(busy.wait))
        await asyncio.sleep(0)
        starting = asyncio.create_task(each.records.start())
        if how == "cancelled":
            await asyncio.sleep(0)
            starting.cancel()
        await asyncio.wait([starting])
        assert starting.cancelled() or isinstance(starting.exception(), StoreUnavailable)
        busy.set()
        await first
        await asyncio.to_thread(Event)  # it comes after the lock
        await until(lambda: not list(writers.iterdir()))
        monkeypatch.undo()
        await each.call()
        await each.records.aclose()

    writers = path.with_name("accredit.db-writers")
    run(main())
    assert verified(path).valid


def test_a_log_that_is_closed_while_it_begins_leaves_no_life_behind(path: Path) -> None:
    async def main() -> None:
        async with Log(path) as first:
            await first.call()
            later = Log(path)
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                starting = asyncio.create_task(later.records.start())
                await until(lambda: later.records._worker._thread is not None)
                ending = asyncio.create_task(later.records.aclose())
                await asyncio.sleep(0)
                other.execute("COMMIT")
            await asyncio.gather(starting, ending)
            assert [each.name for each in path.with_name("accredit.db-writers").iterdir()] == [first.records.writer]

    run(main())


def test_one_writer_is_one_process__two_with_one_chain_would_break_it(path: Path) -> None:
    life = hold(path, "ab" * 16)
    assert life is not None
    assert hold(path, "ab" * 16) is None
    life.close()
    again = hold(path, "ab" * 16)
    assert again is not None
    again.close()


@contextmanager
def full_disk() -> Generator[None]:
    """No file of this process may grow meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_a_refusal__nothing_is_forwarded_without_its_record(path: Path) -> None:
    async def main() -> None:
        async with Log(path) as each:
            await each.call()
            with full_disk():
                with pytest.raises(StoreUnavailable):
                    await each.port.begin(decided())
                assert each.port.problem() is not None
                assert not await each.port.ready()
            await each.call()
            assert each.port.problem() is None
            assert len(each.problems) >= 1

    run(main())
    report = verified(path)
    assert report.valid
    assert report.records == 4


class Full(Worker):
    """A worker on whose disk no record fits any more, while `full` is set; the touch of `ready` still does."""

    full = False

    async def run(self, job: Job[T], *, writes: bool = True) -> T:
        if self.full and not (isinstance(job, partial) and job.func is touch_writer):
            raise StoreUnavailable("database or disk is full")
        return await super().run(job, writes=writes)


def test_a_log_that_has_refused_a_record_is_not_ready_because_less_than_a_record_fits(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        worker = Full(path)
        async with Log(path) as each:
            each.records._worker = worker
            assert await each.port.ready()
            for seconds, ready in ((60.0, False), (0.0, True)):
                monkeypatch.setattr(log, "UNREADY_SECONDS", seconds)
                worker.full = True
                with pytest.raises(StoreUnavailable):
                    await each.call()
                assert await each.port.ready() is ready
                assert (each.port.problem() is None) is ready
                worker.full = False
                await each.call()
                assert each.port.problem() is None
                assert await each.port.ready()

    run(main())


def test_an_outcome_that_can_not_be_recorded_is_told__the_client_must_not_get_the_result(path: Path) -> None:
    async def main() -> None:
        async with Log(path) as each:
            call = decided()
            await each.port.begin(call)
            with full_disk(), pytest.raises(StoreUnavailable):
                await each.port.finish(call, OK)

    run(main())
    assert [status for _, status in in_short(records_in(path))] == ["decision", "unknown"]


def test_a_store_that_is_no_store_is_a_refusal(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(os.urandom(8192))

    async def main() -> None:
        for path in (garbage, tmp_path / "nowhere" / "a.db"):
            async with Log(path) as each:
                with pytest.raises(StoreUnavailable):
                    await each.port.begin(decided())
                assert not await each.port.ready()

    run(main())


def test_what_waits_is_written_when_the_disk_has_room_again__nothing_is_dropped(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "RECORD_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(log, "MAX_QUEUED_RECORDS", 6)

    async def main() -> None:
        async with Log(path, durable=False) as each:
            await each.call()
            await until(lambda: not each.records._queue)
            with full_disk():
                for _ in range(3):
                    await each.call()
                await until(lambda: each.port.problem() is not None)
                with pytest.raises(StoreUnavailable, match="wait to be written"):
                    await each.port.begin(decided())
                assert not await each.port.ready()
            await until(lambda: each.port.problem() is None)
            await each.call()

    run(main())
    report = verified(path)
    assert report.valid
    assert report.records == 10


class Forgetful(Worker):
    """A worker whose answers are lost, though it has done what was asked, while `forgets` is set."""

    forgets = False

    async def run(self, job: Job[T], *, writes: bool = True) -> T:
        answer = await super().run(job, writes=writes)
        if self.forgets:
            raise StoreUnavailable("it has not answered in time")
        return answer


def test_what_was_written_without_an_answer_is_not_written_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "RECORD_RETRY_SECONDS", 0.01)

    async def main() -> None:
        worker = Forgetful(path)
        async with Log(path, durable=False) as each:
            each.records._worker = worker
            await each.records.start()
            worker.forgets = True
            await each.call()
            await until(lambda: each.port.problem() is not None)
            await each.call()
            await each.port.begin(decided(decision=DENY))
            worker.forgets = False

    run(main())
    report = verified(path)
    assert report.valid
    assert report.records == 5
    assert len(set(in_short(records_in(path)))) == 5


class Watched(Worker):
    """A worker that notes how many records come at once."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.at_once: list[int] = []

    async def run(self, job: Job[T], *, writes: bool = True) -> T:
        if isinstance(job, partial) and "events" in job.keywords:
            self.at_once.append(len(job.keywords["events"]))
        return await super().run(job, writes=writes)


def test_where_another_signer_signs_fewer_records_are_written_at_once__it_may_be_slow(path: Path) -> None:
    other = gateway("other")[0]

    def signed(message: bytes) -> Signature:
        return Signature("other", other.ed25519(message))

    async def at_once(signer: LogSigner) -> int:
        worker = Watched(path)
        async with Log(path, signer=signer) as each:
            each.records._worker = worker
            await each.call()
            await asyncio.gather(*(each.port.begin(decided()) for _ in range(100)))
        return max(worker.at_once)

    assert run(at_once(SIGNER)) == 100
    assert run(at_once(replace(SIGNER, records=RecordSigner("other", signed)))) == 16
    assert [status for _, status in in_short(records_in(path))].count("unknown") == 200


def test_a_call_that_was_refused_though_its_decision_was_written_is_closed_as_not_forwarded(path: Path) -> None:
    async def main() -> list[str]:
        worker = Forgetful(path)
        async with Log(path) as each:
            each.records._worker = worker
            await each.records.start()
            worker.forgets = True
            for _ in range(2):
                with pytest.raises(StoreUnavailable):
                    await each.port.begin(decided())
            with full_disk(), pytest.raises(StoreUnavailable):
                await each.port.begin(decided())
            worker.forgets = False
            await each.call()
            await each.call()
        return [f"{each.outcome.status}: {each.outcome.detail}" for each in records_in(path) if each.outcome]

    not_forwarded = "error: the log had not answered in time: it was not forwarded"
    assert run(main()) == [not_forwarded, not_forwarded, "ok: None", "ok: None"]
    assert verified(path).valid


def test_long_arguments_that_wait_are_bounded_too__a_slow_disk_must_not_fill_the_memory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MAX_QUEUED_RECORD_BYTES", 1_000)

    async def main() -> None:
        async with Log(path, durable=False) as each:
            await each.port.begin(decided(certificates=b"[" + b" " * 2_000 + b"]"))
            with pytest.raises(StoreUnavailable, match="1 records wait"):
                await each.port.begin(decided())
            await until(lambda: not each.records._queue)
            await each.call()

    run(main())
    assert verified(path).valid


def test_what_is_lost_at_the_end_is_told__never_silently_dropped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "RECORD_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(log, "CLOSE_RECORDS_SECONDS", 0.05)

    async def main() -> list[str]:
        each = Log(path, durable=False)
        await each.call()
        await until(lambda: not each.records._queue)
        with full_disk():
            await each.call()
            await each.records.aclose()
        return each.problems

    assert "2 records were lost: the store did not take them" in run(main())


def test_a_text_that_no_record_can_hold_is_refused_at_once__it_would_block_what_waits(path: Path) -> None:
    async def main(durable: bool) -> None:
        async with Log(path, durable=durable) as each:
            with pytest.raises(AttestationError):
                await each.port.begin(decided(call=Call(id="ab" * 16, method="tools/call", target="\ud800")))
            await each.call()

    for durable in (True, False):
        run(main(durable))
    assert verified(path).records == 4


def test_arguments_are_there_only_where_they_were_asked_for(path: Path) -> None:
    params = b'{"name": "x", "arguments": {"to": "bob"}}'

    async def main() -> None:
        async with Log(path) as each:
            for full in (False, True):
                await each.port.begin(decided(params=recorded_params(params, token_argument=True, full=full)))

    run(main())
    first, second, *_ = records_in(path)
    assert bytes(first.call.params) == b""
    assert bytes(second.call.params) == b'{"arguments":{"to":"bob"},"name":"x"}'


def make_log(path: Path, calls: int = 4) -> None:
    async def main() -> None:
        async with Log(path) as each:
            for _ in range(calls):
                await each.call()

    run(main())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log_entries SET number = number + 1 WHERE entry = 9",
        "UPDATE log_entries SET writer = writer + 1 WHERE entry = 3",
        "UPDATE log_entries SET key = NULL WHERE entry = 3",
        "UPDATE log_entries SET payload = NULL, digest = zeroblob(32) WHERE entry = 3",
        "UPDATE log_entries SET payload = NULL, key = NULL, ed25519 = NULL, digest = zeroblob(32) WHERE entry = 3",
        "UPDATE log_entries SET payload = CAST(payload AS TEXT) WHERE entry = 3",
        "UPDATE log_entries SET digest = zeroblob(32) WHERE entry = 3",
        "UPDATE log_entries SET ed25519 = zeroblob(64) WHERE entry = 3",
        "UPDATE log_entries SET ml_dsa_65 = NULL WHERE ml_dsa_65 IS NOT NULL",
        "UPDATE log_entries SET ml_dsa_65 = ed25519 WHERE entry = 3",
        "DELETE FROM log_entries WHERE entry = 3",
        "DELETE FROM log_entries WHERE entry > 5",
        "DELETE FROM log_entries",
        "INSERT INTO log_entries SELECT entry + 100, writer, number, key, payload, ed25519, ml_dsa_65, digest, members"
        " FROM log_entries WHERE entry = 3",
        "UPDATE log_writers SET name = 'other'",
        "DELETE FROM log_writers",
        "DELETE FROM log_keys",
        "DROP TABLE log_keys",
    ],
)
def test_a_file_that_was_changed_does_not_verify(path: Path, statement: str) -> None:
    make_log(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    report = verified(path)
    assert not report.valid


@pytest.mark.parametrize(
    "change",
    [
        "payload = CAST(payload AS TEXT)",
        "payload = replace(payload, 'allow', 'alloW')",
        "payload = CAST(replace(payload, 'allow', 'alloW') AS BLOB)",
        "payload = NULL",
        "digest = zeroblob(32)",
        "ed25519 = zeroblob(64)",
        "key = NULL",
    ],
)
def test_a_bad_record_is_named_by_its_writer_and_number(path: Path, change: str) -> None:
    make_log(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        ((writer, number),) = connection.execute(
            "SELECT name, number FROM log_entries JOIN log_writers USING (writer) WHERE entry = 3"
        ).fetchall()
        connection.execute(f"UPDATE log_entries SET {change} WHERE entry = 3")
    fault = verified(path).fault
    assert fault is not None
    assert fault.place == f"{writer}/{number}"


def content(path: Path) -> list[object]:
    with LogFile(path) as log_file:
        return [each.entry for each in log_file.entries()]


def test_no_flipped_bit_of_the_file_changes_what_it_says_unnoticed(path: Path, tmp_path: Path) -> None:
    make_log(path)
    whole, original = path.read_bytes(), content(path)
    payloads = [entry.envelope.payload for entry in original if isinstance(entry, Stored)]
    places = [whole.index(payload[:60]) for payload in payloads if payload[:60] in whole]
    assert places
    changed = tmp_path / "changed.db"

    @settings(max_examples=150)
    @given(st.integers(0, 8 * len(whole) - 1) | st.integers(8 * min(places) - 800, 8 * max(places) + 4_000))
    def check(bit: int) -> None:
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        for each in tmp_path.glob("changed.db*"):
            each.unlink()
        changed.write_bytes(flipped)
        with suppress(StoreUnavailable):  # it is no database any more
            assert not verified(changed).valid or content(changed) == original

    check()


def entries_from(path: Path, count: Callable[[LogReport], int]) -> int:
    report = verified(path)
    assert report.valid, report.fault
    return count(report)


def pruned(path: Path, before_ms: int) -> int:
    return prune(path, SIGNER, before_ms=before_ms, now_ms=NOW_MS, on_progress=lambda _: None).records


def test_a_pruned_log_verifies_and_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.stores.log_pruning.PRUNE_ENTRIES", 3)
    now = [NOW_MS]

    async def main() -> Decided:
        async with Log(path, clock=lambda: now[0]) as first, Log(path, clock=lambda: now[0]) as second:
            calls = [await each.call() for each in (first, second, first, second)]
            now[0] += 1_000
            await first.call()
            await second.call(None)
            assert pruned(path, NOW_MS + 500) == 8
            await first.call()
            return calls[0]

    old = run(main())
    assert entries_from(path, lambda report: sum(writer.pruned for writer in report.writers)) == 8
    assert old.call.id.encode() not in path.read_bytes()
    assert old.call.id not in [record.call.id for record in records_in(path)]
    assert pruned(path, NOW_MS + 500) == 0
    assert pruned(path, NOW_MS + 5_000) == entries_from(path, lambda report: report.records) - 8
    assert entries_from(path, lambda report: sum(writer.pruned for writer in report.writers)) == 14
    with LogFile(path) as log_file:
        exported = [each.entry for each in log_file.entries() if isinstance(each.entry, Stored)]
    assert verify_log(exported, [KEY]).valid


def in_files(path: Path, text: bytes) -> list[str]:
    """The files of a store in which there is a text. Another process looks: to close a file that SQLite has open would
    give up its locks."""
    look = (
        "import pathlib, sys; [print(f) for f in sys.argv[2:] if sys.argv[1].encode() in pathlib.Path(f).read_bytes()]"
    )
    files = sorted(each.name for each in path.parent.glob(f"{path.name}*") if each.is_file())
    command = [sys.executable, "-c", look, text.decode(), *files]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=path.parent).stdout.split()


async def marked_call(log: Log, mark: bytes, size: int) -> None:
    """A call that is recorded with its arguments: a mark at their beginning and at their end."""
    arguments = b'{"name":"t","arguments":{"a":"%b","b":"%b","c":"%b"}}' % (mark, b"x" * size, mark)
    call = decided(params=recorded_params(arguments, token_argument=False, full=True))
    await log.port.begin(call)
    await log.port.finish(call, OK)


def test_of_what_was_pruned_no_byte_is_left_in_any_file__also_while_a_gateway_is_at_work(path: Path) -> None:
    now = [NOW_MS]

    async def main() -> None:
        async with Log(path, clock=lambda: now[0]) as each:
            for size in (0, 300, 900, 2_500, 9_000, 70_000, 1_500, 3_900, 40, 5_000) * 5:  # on a page, and beyond it
                await marked_call(each, b"old-swordfish", size)
            now[0] += 1_000
            for size in (10, 6_000):
                await marked_call(each, b"new-swordfish", size)
            assert in_files(path, b"old-swordfish")
            done = prune(path, SIGNER, before_ms=NOW_MS + 500, now_ms=NOW_MS, on_progress=lambda _: None)
            assert done == (100, True)
            assert in_files(path, b"old-swordfish") == []
            await marked_call(each, b"new-swordfish", 10)
        assert in_files(path, b"old-swordfish") == []
        assert in_files(path, b"new-swordfish") == [path.name]

    run(main())
    assert verified(path).valid


def test_that_a_reader_keeps_what_was_pruned_is_told__and_pruning_again_takes_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accredit.stores.log_pruning.EMPTY_LOG_SECONDS", 0.05)

    async def main() -> None:
        async with Log(path) as each:
            await marked_call(each, b"old-swordfish", 5_000)
            with closing(sqlite3.connect(path, isolation_level=None)) as reader:
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM log_entries").fetchone()
                done = prune(path, SIGNER, before_ms=NOW_MS + 1, now_ms=NOW_MS, on_progress=lambda _: None)
                assert done == (2, False)
                await each.call()  # who writes is not held up
                assert in_files(path, b"old-swordfish")
            assert prune(path, SIGNER, before_ms=NOW_MS, now_ms=NOW_MS, on_progress=lambda _: None) == (0, True)
            assert in_files(path, b"old-swordfish") == []

    run(main())


def test_a_call_that_is_open_is_not_pruned__it_could_not_be_closed(path: Path) -> None:
    async def main() -> None:
        async with Log(path) as each:
            await each.call()
            call = decided()
            await each.port.begin(call)
            await each.call()
            assert pruned(path, NOW_MS + 1) == 2
            await each.port.finish(call, OK)

    run(main())
    assert entries_from(path, lambda report: report.writers[0].pruned) == 2


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log_entries SET digest = zeroblob(32) WHERE entry = 2",
        "DELETE FROM log_entries WHERE entry = 2",
        "DELETE FROM log_entries WHERE ml_dsa_65 IS NOT NULL",
        "UPDATE log_entries SET number = 3 WHERE entry = 2",
    ],
)
def test_what_is_left_of_pruned_records_is_held_against_the_note(path: Path, statement: str) -> None:
    make_log(path)
    assert pruned(path, NOW_MS + 1) == 8
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    assert not verified(path).valid


def test_a_log_of_another_gateway_is_not_taken_for_ours(path: Path) -> None:
    make_log(path)
    with LogFile(path) as log_file:
        report = log_file.verify([Chained("stranger").key])
    assert report.fault is not None
    assert "not known" in report.fault.reason


def test_a_file_without_a_log_is_told_from_an_empty_one(tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    empty.touch()
    for each in (empty, tmp_path / "none.db"):
        with pytest.raises(StoreUnavailable), LogFile(each):
            pass
    assert not (tmp_path / "none.db").exists()
