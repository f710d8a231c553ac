"""Who may write the store fills nobody's memory by it: what is longer than it can be is not read, and is damage, or
nothing that is remembered, in a file as in a database."""

from pathlib import Path

import pytest
from tests.world.logs import Log, by_database_thread, by_thread, each_executor, read, records_in, verified
from tests.world.postgres import database_for
from tests.world.raw_server import until
from tests.world.records import GATEWAY, NOW_MS, decided, gateway
from tests.world.running import run
from tests.world.stores import NOW, URLS, opened_tasks
from tests.world.thief import Thief

from accredit.attest import CallDecision, Fault, recorded_params
from accredit.errors import AttestationError
from accredit.limits import MAX_ATTESTATION_BYTES, MAX_STATEMENT_BYTES
from accredit.ports import Task
from accredit.stores.audit_log import queue, tables
from accredit.stores.audit_log.pruning import prune as prune_file
from accredit.stores.audit_log.requests import MAX_RECORD_BYTES
from accredit.stores.postgres import log_tables
from accredit.stores.postgres.log_pruning import prune as prune_database
from accredit.stores.tasks import MAX_TASK_BYTES

__all__ = ["each_executor"]

DEAD = "f0" * 16
pytestmark = [
    pytest.mark.parametrize("each_executor", [by_thread, by_database_thread], ids=["file", "database"], indirect=True),
    pytest.mark.usefixtures("each_executor"),
]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(queue, "LOG_LOOK_SECONDS", 0.02)
    return tmp_path / "accredit.db"


def zeros(thief: Thief, count: int) -> str:
    """So many bytes, in SQL."""
    return f"zeroblob({count})" if thief.has_file else f"convert_to(repeat('0', {count}), 'UTF8')"


def add_long_entry(thief: Thief) -> str:
    """A record of another chain, as long as its payload and its signature together may not be."""
    thief.add_writer(DEAD, 1, "ab" * 32)
    columns, values = ("writer, number, key", "w.writer, 1, k.key")
    if not thief.has_file:
        columns, values = f"kind, day, {columns}", f"0, (now() AT TIME ZONE 'UTC')::date, {values}"
    thief.run(
        f"INSERT INTO log_entries ({columns}, payload, ed25519)"
        f" SELECT {values}, {zeros(thief, MAX_ATTESTATION_BYTES - 8)}, {zeros(thief, 64)}"
        " FROM log_writers w, log_keys k WHERE w.name = ?",
        DEAD,
    )
    return f"{DEAD}/1"


@pytest.mark.slow
@pytest.mark.holds("stores/audit_log/reader")
@pytest.mark.holds("stores/audit_log/schema")
@pytest.mark.holds("stores/audit_log/author", "open-calls")
@pytest.mark.holds("stores/postgres/log_reader", "large-entries")
async def test_an_entry_that_is_too_long_is_damage__and_the_call_that_is_open_by_it_is_left(path: Path) -> None:
    async with Log(path) as log:
        await log.call()
        thief = Thief(path)
        place = add_long_entry(thief)
        thief.open("dd" * 16, DEAD, DEAD, 1)
        await until(lambda: log.records.unverified() is not None)
        assert "damaged" in str(log.records.unverified())
        await log.call()
        assert verified(path).fault == Fault(place, f"{place} is damaged")
    with pytest.raises(AttestationError, match=f"{DEAD}/1 is damaged"):
        pruned(path)


@pytest.mark.holds("stores/audit_log/author", "open-calls")
@pytest.mark.parametrize("most", [1, None])
async def test_of_the_records_of_an_open_call_no_more_is_read_than_a_call_has__and_it_is_left_open(
    most: int | None, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def phases(call: CallDecision) -> list[str]:
        return [each.phase for each in records_in(path) if each.call.id == call.call.id]

    log = Log(path)
    call = await log.call(None)
    await log.die()
    if most is not None:
        for module in (tables, log_tables):
            monkeypatch.setattr(module, "MAX_RECORDS_OF_A_CALL_BYTES", most)
    async with Log(path) as log:
        await log.call()
        await until(lambda: log.records.unverified() is not None or len(phases(call)) > 1)
        told = log.records.unverified()
    assert phases(call) == (["decision", "outcome"] if most is None else ["decision"])
    told = None if told is None else str(told)
    assert (told is None) == (most is None)
    assert told is None or "more records name it than a call has" in told


@pytest.mark.slow
@pytest.mark.holds("stores/audit_log/schema")
async def test_what_is_longer_than_a_record_is_not_read_as_one_of_an_open_call(path: Path) -> None:
    log = Log(path)
    await log.call(None)
    await log.die()
    thief = Thief(path)
    thief.add_writer(DEAD)
    columns, values = "writer, number, key", "w.writer, 1, e.key"
    payload = "CAST(e.payload || replace(hex(zeroblob(?)), '0', ' ') AS BLOB)"
    if not thief.has_file:
        columns, values = f"kind, day, {columns}", f"0, e.day, {values}"
        payload = "e.payload || convert_to(repeat(' ', 2 * ?), 'UTF8')"
    thief.run(
        f"INSERT INTO log_entries ({columns}, payload, ed25519)"
        f" SELECT {values}, {payload}, {zeros(thief, 64)} FROM log_writers w, log_entries e"
        " WHERE w.name = ? AND e.number = 1 AND e.ml_dsa_65 IS NULL",
        *(MAX_ATTESTATION_BYTES // 2, DEAD),
    )
    async with Log(path) as log:
        await log.call()
        await until(lambda: thief.run("SELECT count(*) FROM log_open") == [(0,)])


def pruned(path: Path) -> None:
    if path.exists():
        prune_file(path, gateway()[0], before_ms=NOW_MS + 1, now_ms=NOW_MS, on_progress=lambda _: None)
        return
    with database_for(path.parent) as database:
        prune_database(database, gateway()[0], before_ms=NOW_MS + 1, now_ms=NOW_MS, on_progress=lambda _: None)


def test_a_chain_of_certificates_that_is_too_long_is_damage(path: Path) -> None:
    async def main() -> None:
        async with Log(path) as log:
            await log.call()

    run(main())
    thief = Thief(path)
    long = f"INSERT INTO log_delegations (sha256, certificates) VALUES (?, {zeros(thief, MAX_STATEMENT_BYTES + 1)})"
    thief.run(long, "ee" * 32)
    if thief.has_file:
        thief.run("INSERT INTO log_delegations (sha256, certificates) VALUES (?, ?)", "ef" * 32, "a text")
    with read(path) as log, pytest.raises(AttestationError, match="damaged"):
        log.certificates("ee" * 32)
    with read(path) as log:  # who reads all of them counts it, and fails for none
        assert sorted(log.chains()) == [b""] * (1 + thief.has_file) + [b"[]"]


@pytest.mark.slow
async def test_what_no_reader_would_read_is_not_recorded(path: Path) -> None:
    long = b'{"name":"t","arguments":{"a":"%b"}}' % (b"x" * MAX_RECORD_BYTES)
    async with Log(path) as log:
        with pytest.raises(AttestationError, match="more than"):
            await log.port.begin(decided(params=recorded_params(long, token_argument=False, full=True)))
        await log.call()
    assert [each.gateway for each in records_in(path)] == [GATEWAY] * 2


@pytest.mark.holds("stores/tasks")
@pytest.mark.parametrize("column", ["owner", "method", "target", "facts", "flow"])
def test_a_task_that_is_too_long_is_none(path: Path, column: str) -> None:
    columns = ("owner", "method", "target", "facts", "flow")
    known = Task(bytes(32), "", "", b"", "")

    async def main(url: str) -> None:
        async with opened_tasks(url, path.parent) as tasks:
            await tasks.keep(b"k" * 32, known, keep_until=NOW + 60, now=NOW)
            thief = Thief(path)
            for size, found in ((MAX_TASK_BYTES, True), (MAX_TASK_BYTES + 1, False)):
                values = ", ".join(zeros(thief, size if each == column else 0) for each in columns)
                key = bytes([size & 1]) * 32
                thief.run(f"INSERT INTO tasks (key, {', '.join(columns)}, keep_until) VALUES (?, {values}, {NOW})", key)
                assert (await tasks.find(key, now=NOW) is not None) is found
            assert await tasks.owned(bytes(32), now=NOW) == {b"k" * 32}

    if Log.executors is by_thread:
        path.touch()
    run(main(f"sqlite:///{path.name}" if path.exists() else URLS[2]))
