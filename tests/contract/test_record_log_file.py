"""The file of a log: what was changed in it does not verify, and what was pruned from it is gone."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.world.logs import Log, records_in
from tests.world.raw_server import until
from tests.world.recorded import thread, verified
from tests.world.records import NOW_MS, OK, Chained, decided, gateway
from tests.world.running import run

from accredit.attest import LogReport, Stored, recorded_params, verify_log
from accredit.errors import AttestationError, StoreUnavailable
from accredit.stores.audit_log.file_tables import LOG_TAIL_ENTRIES
from accredit.stores.audit_log.pruning import prune
from accredit.stores.audit_log.reader import LogFile
from accredit.stores.audit_log.requests import Sign

pytestmark = [pytest.mark.holds("stores/audit_log/reader"), pytest.mark.holds("stores/audit_log/requests")]

SIGNER, KEY = gateway()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "accredit.db"


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
        "INSERT INTO log_entries SELECT entry + 100, writer, number, key, payload, ed25519, ml_dsa_65, digest, members,"
        " proof FROM log_entries WHERE entry = 3",
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


@pytest.mark.parametrize("records", [0, 4])
def test_the_row_of_a_writer_that_was_taken_back_does_not_verify(path: Path, records: int) -> None:
    """Its chain came as far as the row says, and further: who reads the row alone would believe it."""
    make_log(path)
    before = records_in(path)[records]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE log_writers SET records = ?, head = ?", (records, before.log.previous))
    fault = verified(path).fault
    assert fault == (f"{before.log.writer}/{records + 1}", "it is there, and the row of its writer does not count it")


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


def entries_from(path: Path, count: Callable[[LogReport], int]) -> int:
    report = verified(path)
    assert report.valid, report.fault
    return count(report)


def pruned(path: Path, before_ms: int) -> int:
    return prune(path, SIGNER, before_ms=before_ms, now_ms=NOW_MS, on_progress=lambda _: None).records


@pytest.mark.holds("stores/audit_log/pruning", "records", "digests")
async def test_a_pruned_log_verifies_and_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.stores.audit_log.pruning.PRUNE_ENTRIES", 3)
    now = [NOW_MS]

    async with Log(path, clock=lambda: now[0]) as first, Log(path, clock=lambda: now[0]) as second:
        calls = [await each.call() for each in (first, second, first, second)]
        now[0] += 1_000
        await first.call()
        await second.call(None)
        assert pruned(path, NOW_MS + 500) == 8
        await first.call()
        old = calls[0]
    assert entries_from(path, lambda report: sum(writer.pruned for writer in report.writers)) == 8
    assert old.call.id[:16].encode() not in path.read_bytes()
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


@pytest.mark.holds("stores/audit_log/pruning", "checkpoints")
def test_pruning_never_frees_the_newest_number__who_follows_the_log_would_miss_what_gets_it(path: Path) -> None:
    make_log(path)
    with LogFile(path) as log_file:
        *_, newest = (each.number for each in log_file.entries())
    assert pruned(path, NOW_MS + 1) == 8
    assert verified(path).valid
    assert pruned(path, NOW_MS + 1) == 0
    make_log(path, 1)
    with LogFile(path) as log_file:
        assert [type(each.entry) for each in log_file.entries_after(newest)] == [Stored] * 3
    assert pruned(path, NOW_MS + 1) == 2
    assert verified(path).valid


async def test_of_what_was_pruned_no_byte_is_left_in_any_file__also_while_a_gateway_is_at_work(path: Path) -> None:
    now = [NOW_MS]

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
    assert verified(path).valid


async def test_that_a_reader_keeps_what_was_pruned_is_told__and_pruning_again_takes_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accredit.stores.audit_log.pruning.EMPTY_LOG_SECONDS", 0.05)

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


@pytest.mark.holds("stores/audit_log/pruning", "records")
async def test_a_call_that_is_open_is_not_pruned__it_could_not_be_closed(path: Path) -> None:
    async with Log(path) as each:
        await each.call()
        call = decided()
        await each.port.begin(call)
        await each.call()
        assert pruned(path, NOW_MS + 1) == 2
        await each.port.finish(call, OK)
    assert entries_from(path, lambda report: report.writers[0].pruned) == 2


@pytest.mark.holds("stores/audit_log/pruning", "digests")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log_entries SET digest = zeroblob(32) WHERE entry = 2",
        "DELETE FROM log_entries WHERE entry = 2",
        "DELETE FROM log_entries WHERE digest IS NOT NULL",
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


@pytest.mark.holds("stores/audit_log/pruning", "records")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log_entries SET digest = zeroblob(32) WHERE entry = 2",
        "UPDATE log_entries SET digest = 'a text, no digest' WHERE entry = 2",
        "DELETE FROM log_entries WHERE entry = 2",
        "UPDATE log_entries SET payload = CAST(payload || ' ' AS BLOB) WHERE number = 6 AND ml_dsa_65 IS NULL",
        "DELETE FROM log_entries WHERE number = 6 AND ml_dsa_65 IS NULL",
        "UPDATE log_entries SET ed25519 = zeroblob(64) WHERE number = 8 AND ml_dsa_65 IS NULL",
        "UPDATE log_entries SET ml_dsa_65 = zeroblob(3309) WHERE number = 4 AND ml_dsa_65 IS NOT NULL",
    ],
)
async def test_what_was_changed_is_never_signed_for__by_pruning_it(path: Path, statement: str) -> None:
    now = [NOW_MS]

    async with Log(path, clock=lambda: now[0]) as log:
        for _ in range(2):
            await log.call()
        now[0] += 1_000
        for _ in range(2):
            await log.call()
    assert pruned(path, NOW_MS + 500) == 4
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    with pytest.raises(AttestationError):
        pruned(path, NOW_MS + 5_000)
    assert not verified(path).valid


_OPEN_WRITERS = "SELECT count(*) FROM log_writers WHERE over = 0"


@pytest.mark.parametrize("apart", [0, LOG_TAIL_ENTRIES + 1])
async def test_a_writer_that_was_idle_long_before_it_died_is_ended__and_not_told_of_as_one_of_which_something_is_gone(
    path: Path, monkeypatch: pytest.MonkeyPatch, apart: int
) -> None:
    """Who can write to the file makes no more work of it by other numbers: dead writers are ended one by one."""
    monkeypatch.setattr("accredit.stores.audit_log.file_tables.LOG_TAIL_ENTRIES", 3)
    async with Log(path) as busy:
        idle = Log(path)
        await idle.call()
        for _ in range(4):
            await busy.call()
        await idle.die()
        with closing(sqlite3.connect(path)) as connection, connection:
            for entry in range(10, 2, -1):
                connection.execute("UPDATE log_entries SET entry = entry + entry * ? WHERE entry = ?", (apart, entry))
        async with Log(path) as later:
            await later.records.start()
            with closing(sqlite3.connect(path)) as connection:  # either of the two may have found the dead one
                await until(lambda: connection.execute(_OPEN_WRITERS).fetchone() == (2,))
            assert later.records.unverified() is None
            assert sum(isinstance(each, Sign) for log in (busy, later) for each in log.executor.asked) <= 6
    assert verified(path).valid


async def test_a_process_that_goes_on_with_a_chain_finds_its_end_behind_what_others_wrote__and_accuses_nobody(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accredit.stores.audit_log.file_tables.LOG_TAIL_ENTRIES", 3)
    async with Log(path) as log, Log(path) as other:
        await log.call()
        for _ in range(4):
            await other.call()
        await log.executor.inner.aclose()
        log.executor.inner = thread(path, SIGNER)
        await log.call()
        assert log.problems == []
    assert len({record.log.writer for record in records_in(path)}) == 2
    assert verified(path).valid


async def test_a_file_in_which_a_trigger_deletes_the_writer_is_no_store__and_nobody_tries_without_end(
    path: Path,
) -> None:
    async with Log(path) as log:
        await log.records.start()
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM log_writers")
            connection.execute("CREATE TRIGGER gone AFTER INSERT ON log_writers BEGIN DELETE FROM log_writers; END")
        with pytest.raises(StoreUnavailable, match="is not kept"):
            await log.call()


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


async def test_a_log_is_read_as_it_was_at_the_first_look__and_no_longer_once_it_is_closed(path: Path) -> None:
    async with Log(path) as log:
        for _ in range(3):
            await log.call()
        with LogFile(path) as reading:
            left_half_read = reading.newest_first()
            newest = next(left_half_read).number
            late = await log.call()
            assert [each.number for each in reading.entries_after(newest)] == []
        with LogFile(path) as reading:
            found = [record.call.id for each in reading.entries_after(newest) if (record := each.record())]
        assert found == [late.call.id] * 2
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        del left_half_read  # it is alive until here
