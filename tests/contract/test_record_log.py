"""The log keeps what `ports.Records` promises: nothing forwarded or answered without its record, and no record lost;
whether a thread writes it or a process."""

import asyncio
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest
from msgspec.structs import replace
from tests.world.logs import FILES, Log, each_executor, full_disk, in_short, no_store, records_in, verified
from tests.world.raw_server import until
from tests.world.records import DENY, OK, SECRET, decided, gateway
from tests.world.running import run

from accredit.attest import (
    Call,
    CallDecision,
    Checkpoint,
    LogReport,
    LogSigner,
    RecordSigner,
    Signature,
    recorded_params,
)
from accredit.errors import AttestationError, StoreUnavailable
from accredit.stores.audit_log import places
from accredit.stores.audit_log import queue as log
from accredit.stores.audit_log.author import CHECKPOINT_RECORDS
from accredit.stores.audit_log.places import acquire
from accredit.stores.audit_log.reader import LogFile

__all__ = ["each_executor"]

SIGNER, KEY = gateway()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("each_executor"),
    pytest.mark.holds("stores/audit_log/queue"),
    pytest.mark.holds("stores/audit_log/author"),
    pytest.mark.holds("stores/audit_log/tables"),
    pytest.mark.holds("stores/audit_log/file_tables"),
    pytest.mark.holds("stores/audit_log/writer"),
    pytest.mark.holds("stores/audit_log/places"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "accredit.db"


@pytest.mark.parametrize("durable", [True, False])
async def test_a_call_has_a_record_of_its_decision_and_one_of_its_outcome(path: Path, durable: bool) -> None:
    async with Log(path, durable=durable) as each:
        first, denied = await each.call(), decided(decision=DENY)
        await each.port.begin(denied)
        first, denied = [first, denied]
    assert in_short(records_in(path)) == [
        (first.call.id, "decision"),
        (first.call.id, "ok"),
        (denied.call.id, "decision"),
    ]
    report = verified(path)
    assert report.valid
    assert [writer.checkpointed for writer in report.writers] == [3]
    if path.exists():
        assert SECRET.encode() not in path.read_bytes()
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.holds("stores/audit_log/queue", "begin", "finish")
async def test_a_durable_record_is_in_the_file_before_the_answer(path: Path) -> None:
    async with Log(path) as each:
        call = decided()
        await each.port.begin(call)
        assert in_short(records_in(path)) == [(call.call.id, "decision")]
        await each.port.finish(call, OK)
        assert in_short(records_in(path))[1:] == [(call.call.id, "ok")]


async def test_many_calls_at_once_make_one_chain_without_gaps(path: Path) -> None:
    async with Log(path) as each:
        await asyncio.gather(*(each.call() for _ in range(300)))
    report = verified(path)
    assert report.valid
    assert report.records == 600
    assert len({record.call.id for record in records_in(path)}) == 300


@FILES
@pytest.mark.holds("stores/audit_log/queue", "checkpoint")
async def test_a_checkpoint_comes_after_so_many_records(path: Path) -> None:
    async with Log(path) as each:
        await asyncio.gather(*(each.call() for _ in range(CHECKPOINT_RECORDS // 2 + 1)))
        with LogFile(path) as log_file:
            (found,) = log_file.summaries()
        statement = found.statement()
        assert statement is not None
        assert isinstance(statement.predicate, Checkpoint)
        assert statement.predicate.count == CHECKPOINT_RECORDS
    assert verified(path).valid


@FILES
@pytest.mark.holds("stores/audit_log/queue", "checkpoint")
async def test_a_checkpoint_comes_after_some_time__even_if_no_call_does(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "CHECKPOINT_SECONDS", 0.02)

    def covered() -> int:
        with LogFile(path) as log_file:
            return sum(writer.checkpointed for writer in log_file.verify([KEY]).writers)

    async with Log(path) as each:
        await each.call()
        await until(lambda: covered() == 2)
        await each.call()
        await until(lambda: covered() == 4)
    assert verified(path).valid


@FILES
async def test_each_head_that_is_signed_is_told_once__and_it_is_one_to_keep(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "CHECKPOINT_SECONDS", 0.02)

    dead = Log(path)
    await dead.call(None)
    await dead.die()
    async with Log(path) as each:
        await each.call()
        await until(lambda: each.heads[-1].sequence == 3)
        await each.call()
    heads = each.heads
    assert len({head.writer for head in heads}) == 2  # the one that it buried, and its own
    assert len(heads) == len(set(heads))
    assert heads[-1].sequence == 5  # its end
    with LogFile(path) as log_file:
        assert log_file.verify([KEY], heads).valid
        assert not log_file.verify([KEY], [heads[-1]._replace(sequence=6)]).valid


async def test_an_outcome_is_recorded_once__and_only_of_a_call_that_is_open(path: Path) -> None:
    async with Log(path) as each:
        call = await each.call()
        for other in (call, decided()):
            with pytest.raises(AttestationError, match="is not open"):
                await each.port.finish(other, OK)
        call = await each.call(None)
        finishing = [each.port.finish(call, OK) for _ in range(3)]  # in one turn
        answers = await asyncio.gather(*finishing, return_exceptions=True)
        assert [type(answer) for answer in answers] == [type(None), AttestationError, AttestationError]
    assert len(records_in(path)) == 4


async def test_an_outcome_is_recorded_though_nobody_waits_for_it(path: Path) -> None:
    async with Log(path) as each:
        call = await each.call(None)

        async def wait() -> None:
            await each.port.finish(call, OK)

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
    assert [status for _, status in in_short(records_in(path))] == ["decision", "ok"]


async def test_one_record_that_cannot_be_written_does_not_keep_those_beside_it_from_being_written(path: Path) -> None:
    async with Log(path) as each:
        bad = decided(call=Call(id="ab" * 16, method="tools/call", target="\ud800"))
        beginning = [each.port.begin(call) for call in (decided(), bad, decided())]
        first, second, third = await asyncio.gather(*beginning, return_exceptions=True)
    assert (first, third) == (None, None)
    assert isinstance(second, AttestationError)
    report = verified(path)
    assert (report.valid, report.records) == (True, 4)  # both were open at the end


async def test_all_who_wait_are_told_when_the_store_fails__and_the_chain_goes_on_after(path: Path) -> None:
    async with Log(path) as each:
        await each.call()
        with no_store(path):
            beginning = [each.port.begin(decided()) for _ in range(600)]
            answers = await asyncio.gather(*beginning, return_exceptions=True)
        assert all(isinstance(answer, StoreUnavailable) for answer in answers)
        await each.call_when_it_is_back()
    report = verified(path)
    assert (report.valid, report.records) == (True, 4)


async def test_calls_that_a_dead_writer_left_open_are_closed_as_unknown_by_a_later_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "LOG_LOOK_SECONDS", 0.02)  # a database has no lock that is gone at once

    dead = Log(path)
    done, cut_off = await dead.call(), await dead.call(None)
    await dead.die()
    async with Log(path) as later:
        await later.records.start()
        await until(lambda: "unknown" in [status for _, status in in_short(records_in(path))])
        await later.call()
    records = records_in(path)
    assert in_short(records)[:4] == [
        (done.call.id, "decision"), (done.call.id, "ok"), (cut_off.call.id, "decision"), (cut_off.call.id, "unknown"),
    ]  # fmt: skip
    assert records[3].log.writer != records[2].log.writer
    report = verified(path)
    assert report.valid
    assert all(writer.checkpointed == writer.records for writer in report.writers)
    assert not path.exists() or not list((path.parent / "accredit.db-writers").iterdir())


@pytest.mark.holds("stores/audit_log/closing", "live-writers")
async def test_calls_of_a_writer_that_is_alive_are_left_alone(path: Path) -> None:
    async with Log(path) as first, Log(path) as second:
        call = decided()
        await first.port.begin(call)
        await second.call()
        await first.port.finish(call, OK)
    assert "unknown" not in [status for _, status in in_short(records_in(path))]
    assert len(verified(path).writers) == 2


async def test_a_call_whose_answer_comes_to_another_writer_is_claimed__and_its_outcome_is_in_that_chain(
    path: Path,
) -> None:
    resume, call = b"r" * 32, replace(decided(), resume=b"r" * 32)

    async with Log(path) as first, Log(path) as second:
        await first.port.begin(call)
        await second.call()
        assert await second.port.claim(b"x" * 32) is None
        claimed = await second.port.claim(resume)
        assert claimed is not None
        await second.port.finish(claimed, OK)
        assert await second.port.claim(resume) is None
        with pytest.raises(AttestationError, match="is not open"):
            await first.port.finish(call, OK)
        await first.call()
    found = [each for each in records_in(path) if each.call.id == call.call.id]
    assert in_short(found) == [(call.call.id, "decision"), (call.call.id, "ok")]
    decision, outcome = found
    assert decision.log.writer != outcome.log.writer
    for name in ("gateway", "call", "policy"):
        assert getattr(decision, name) == getattr(outcome, name)
    assert decision.times.received == outcome.times.received
    assert verified(path).valid


async def test_a_call_that_two_writers_end_at_once_has_one_outcome(path: Path) -> None:
    calls = [replace(decided(), resume=bytes([number]) * 32) for number in range(8)]

    async def claim(log: Log, call: CallDecision) -> None:
        claimed = await log.port.claim(call.resume or b"")
        if claimed is not None:
            await log.port.finish(claimed, OK)

    async with Log(path) as first, Log(path) as second:
        for call in calls:
            await first.port.begin(call)
        both = [(first.port.finish(call, OK), claim(second, call)) for call in calls]
        answers = await asyncio.gather(*(each for pair in both for each in pair), return_exceptions=True)
    assert all(answer is None or isinstance(answer, AttestationError) for answer in answers)
    statuses = in_short(records_in(path))
    assert sorted(id for id, status in statuses if status == "ok") == sorted(call.call.id for call in calls)
    assert len(statuses) == 2 * len(calls)
    assert verified(path).valid


async def test_two_calls_that_one_answer_could_be_for_are_claimed_by_nobody(path: Path) -> None:
    one, two = (replace(decided(), resume=b"r" * 32) for _ in range(2))

    async with Log(path) as first, Log(path) as second:
        await first.port.begin(one)
        await first.port.begin(two)
        with pytest.raises(AttestationError, match="2 open calls"):
            await second.port.claim(b"r" * 32)
        await first.port.finish(one, OK)
        assert await second.port.claim(b"r" * 32) is not None
    assert in_short(records_in(path))[-1] == (two.call.id, "unknown")  # by the second, as it ended


async def test_a_log_that_is_closed_closes_its_own_calls(path: Path) -> None:
    async with Log(path) as each:
        await each.call(None)
    with pytest.raises(StoreUnavailable, match="closed"):
        await each.port.begin(decided())
    assert [status for _, status in in_short(records_in(path))] == ["decision", "unknown"]


@FILES
async def test_a_writer_without_calls_leaves_nothing_behind(path: Path) -> None:
    async with Log(path) as each:
        assert await each.port.ready()
    assert verified(path) == LogReport(0, (), None)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM log_writers").fetchone() == (0,)


async def test_who_writes_is_drawn_when_it_begins__forked_workers_would_share_a_chain(path: Path) -> None:
    async with Log(path) as each:
        assert each.records.writer is None
        await each.records.start()
        assert each.records.writer is not None


@FILES
@pytest.mark.parametrize("durable", [True, False])
async def test_that_a_writer_gets_no_lock_is_told(durable: bool, path: Path) -> None:
    in_the_way = path.with_name("accredit.db-writers")
    in_the_way.touch()
    async with Log(path, durable=durable) as each:
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await each.port.begin(decided())
        assert each.problems == [f"can't lock a file in {in_the_way}: File exists"]  # once
        assert each.port.problem() == each.problems[0]
        in_the_way.unlink()
        await each.call()
        await until(lambda: each.port.problem() is None)


@FILES
@pytest.mark.parametrize("how", ["cancelled", "late"])
async def test_a_lock_that_comes_when_nobody_waits_for_it_is_given_up(
    how: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "STORE_WAIT_SECONDS", 0.05 if how == "late" else 10)
    busy = Event()

    writers = path.with_name("accredit.db-writers")
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
    assert verified(path).valid


@FILES
async def test_a_log_that_is_closed_while_it_begins_leaves_no_life_behind(path: Path) -> None:
    async with Log(path) as first:
        await first.call()
        later = Log(path)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            starting = asyncio.create_task(later.records.start())
            await until(lambda: bool(later.executor.asked))
            ending = asyncio.create_task(later.records.aclose())
            await asyncio.sleep(0)
            other.execute("COMMIT")
        await asyncio.gather(starting, ending)
        assert [each.name for each in path.with_name("accredit.db-writers").iterdir()] == [first.records.writer]


@FILES
def test_one_writer_is_one_process__two_with_one_chain_would_break_it(path: Path) -> None:
    life = acquire(path, "ab" * 16)
    assert life is not None
    assert acquire(path, "ab" * 16) is None
    life.close()
    again = acquire(path, "ab" * 16)
    assert again is not None
    again.close()


@pytest.mark.holds("stores/audit_log/queue", "begin")
async def test_a_store_that_is_full_or_away_is_a_refusal__nothing_is_forwarded_without_its_record(path: Path) -> None:
    async with Log(path) as each:
        await each.call()
        with no_store(path):
            with pytest.raises(StoreUnavailable):
                await each.port.begin(decided())
            assert each.port.problem() is not None
            assert not await each.port.ready()
        await each.call_when_it_is_back()
        assert each.port.problem() is None
        assert len(each.problems) >= 1
    report = verified(path)
    assert report.valid
    assert report.records == 4


async def test_a_log_that_has_refused_a_record_is_not_ready_because_less_than_a_record_fits(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Log(path) as each:
        assert await each.port.ready()
        for seconds, ready in ((60.0, False), (0.0, True)):
            monkeypatch.setattr(log, "UNREADY_SECONDS", seconds)
            each.executor.full = True
            with pytest.raises(StoreUnavailable):
                await each.call()
            assert await each.port.ready() is ready
            assert (each.port.problem() is None) is ready
            each.executor.full = False
            await each.call()
            assert each.port.problem() is None
            assert await each.port.ready()


@pytest.mark.holds("stores/audit_log/queue", "finish")
async def test_an_outcome_that_can_not_be_recorded_is_told__the_client_must_not_get_the_result(path: Path) -> None:
    async with Log(path) as each:
        call = decided()
        await each.port.begin(call)
        with no_store(path), pytest.raises(StoreUnavailable):
            await each.port.finish(call, OK)
    assert [status for _, status in in_short(records_in(path))] == ["decision", "ok"]  # it is known


@FILES
async def test_a_store_that_is_no_store_is_a_refusal(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(os.urandom(8192))

    for path in (garbage, tmp_path / "nowhere" / "a.db"):
        async with Log(path) as each:
            with pytest.raises(StoreUnavailable):
                await each.port.begin(decided())
            assert not await each.port.ready()


async def test_what_waits_is_written_when_the_disk_has_room_again__nothing_is_dropped(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "RECORD_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(log, "MAX_QUEUED_RECORDS", 6)

    async with Log(path, durable=False) as each:
        await each.call()
        await until(lambda: not each.records._queue)
        with no_store(path):
            for _ in range(3):
                await each.call()
            await until(lambda: each.port.problem() is not None)
            with pytest.raises(StoreUnavailable, match="wait to be written"):
                await each.port.begin(decided())
            assert not await each.port.ready()
        await until(lambda: each.port.problem() is None)
        await each.call()
    report = verified(path)
    assert report.valid
    assert report.records == 10


async def test_what_was_written_without_an_answer_is_not_written_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "RECORD_RETRY_SECONDS", 0.01)

    async with Log(path, durable=False) as each:
        await each.records.start()
        each.executor.forgets = True
        await each.call()
        await until(lambda: each.port.problem() is not None)
        await each.call()
        await each.port.begin(decided(decision=DENY))
        each.executor.forgets = False
    report = verified(path)
    assert report.valid
    assert report.records == 5
    assert len(set(in_short(records_in(path)))) == 5


def test_where_another_signer_signs_fewer_records_are_written_at_once__it_may_be_slow(path: Path) -> None:
    other = gateway("other")[0]

    def signed(message: bytes) -> Signature:
        return other.record(message).signatures[0]

    def check(signature: Signature, message: bytes) -> None:
        if signature != signed(message):
            raise AttestationError("the signature is not good")

    async def at_once(signer: LogSigner) -> int:
        async with Log(path, signer=signer) as each:
            await each.call()
            await asyncio.gather(*(each.port.begin(decided()) for _ in range(100)))
        return each.executor.at_once()

    assert run(at_once(SIGNER)) == 100
    assert run(at_once(replace(SIGNER, records=RecordSigner(other.id, signed, check)))) == 16
    assert [status for _, status in in_short(records_in(path))].count("unknown") == 200


@FILES
def test_a_call_that_was_refused_though_its_decision_was_written_is_closed_as_not_forwarded(path: Path) -> None:
    async def main() -> list[str]:
        async with Log(path) as each:
            await each.records.start()
            each.executor.forgets = True
            for _ in range(2):
                with pytest.raises(StoreUnavailable):
                    await each.port.begin(decided())
            with full_disk(), pytest.raises(StoreUnavailable):
                await each.port.begin(decided())
            each.executor.forgets = False
            await each.call()
            await each.call()
        return [f"{each.outcome.status}: {each.outcome.detail}" for each in records_in(path) if each.outcome]

    not_forwarded = "error: the log had not answered in time: it was not forwarded"
    assert run(main()) == [not_forwarded, not_forwarded, "ok: None", "ok: None"]
    assert verified(path).valid


async def test_long_arguments_that_wait_are_bounded_too__a_slow_disk_must_not_fill_the_memory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MAX_QUEUED_RECORD_BYTES", 1_000)

    async with Log(path, durable=False) as each:
        await each.port.begin(decided(certificates=b"[" + b" " * 2_000 + b"]"))
        with pytest.raises(StoreUnavailable, match="1 records wait"):
            await each.port.begin(decided())
        await until(lambda: not each.records._queue)
        await each.call()
    assert verified(path).valid


def test_what_is_lost_at_the_end_is_told__never_silently_dropped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "RECORD_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(log, "CLOSE_RECORDS_SECONDS", 0.05)

    async def main() -> list[str]:
        each = Log(path, durable=False)
        await each.call()
        await until(lambda: not each.records._queue)
        with no_store(path):
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


async def test_arguments_are_there_only_where_they_were_asked_for(path: Path) -> None:
    params = b'{"name": "x", "arguments": {"to": "bob"}}'

    async with Log(path) as each:
        for full in (False, True):
            await each.port.begin(decided(params=recorded_params(params, token_argument=True, full=full)))
    first, second, *_ = records_in(path)
    assert bytes(first.call.params) == b""
    assert bytes(second.call.params) == b'{"arguments":{"to":"bob"},"name":"x"}'
