"""A log in a database is pruned: what was pruned is gone, and what is left verifies, wherever it was stopped."""

import asyncio
import datetime
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.contract.test_record_log_file import marked_call
from tests.contract.test_record_log_file import pruned as pruned_file
from tests.world.copied_logs import copy_log
from tests.world.logs import Log
from tests.world.postgres import a_user, cluster
from tests.world.records import NOW_MS, OK, decided, gateway
from tests.world.running import run

from accredit.attest import LogReport
from accredit.errors import AttestationError, StoreUnavailable
from accredit.stores import PostgresDatabase, SqliteFile
from accredit.stores.audit_log.reading import LogAway
from accredit.stores.postgres import log_pruning
from accredit.stores.postgres.driver import Connection, DatabaseFailed
from accredit.stores.postgres.log_pruning import prune
from accredit.stores.postgres.schema import LOG_COPIED
from accredit.stores.postgres.session import run_once

pytestmark = [pytest.mark.slow, pytest.mark.holds("stores/postgres/log_pruning")]

SIGNER, KEY = gateway()
OLD, NEW = NOW_MS, NOW_MS + 1_000
LONG_AGO = datetime.date(2026, 1, 1)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two writers with old and with new records: 5 calls each, 3 of which are old, one of them large; and checkpoints
    among them."""
    monkeypatch.setattr("accredit.stores.audit_log.author.CHECKPOINT_RECORDS", 4)
    path = tmp_path / "accredit.db"
    now = [OLD]

    async def main() -> None:
        async with Log(path, clock=lambda: now[0]) as first, Log(path, clock=lambda: now[0]) as second:
            for log in (first, second):
                await log.call()
                await marked_call(log, b"old-swordfish", 20_000)
                await log.call()
            now[0] = NEW
            for log in (first, second):
                await log.call()
                await marked_call(log, b"new-swordfish", 10)

    run(main())
    return path


@pytest.fixture
def database(path: Path) -> PostgresDatabase:
    database = cluster().fresh()
    copy_log(path, database)
    return database


def pruned(
    database: PostgresDatabase, before_ms: int = NOW_MS + 500, told: Callable[[int], None] = lambda _: None
) -> Any:
    return prune(database, SIGNER, before_ms=before_ms, now_ms=NOW_MS, on_progress=told)


def pruned_once_free(database: PostgresDatabase) -> None:
    """Prunes as soon as the database has noticed that who pruned before is gone."""
    while True:
        with suppress(LogAway):
            pruned(database)
            return


def verified(database: PostgresDatabase) -> LogReport:
    with database.open_log() as log:
        return log.verify([KEY])


def rows(database: PostgresDatabase, query: str) -> Any:
    return cluster().run(query, database=database.database)


def in_tables(database: PostgresDatabase, text: bytes) -> bool:
    """Whether a text is in a file of the database's tables."""
    ((oid,),) = rows(database, "SELECT oid FROM pg_database WHERE datname = current_database()")
    rows(database, "CHECKPOINT")
    folder = cluster().folder / "data" / "base" / str(oid)
    return subprocess.run(["grep", "-rqF", text, str(folder)], check=False).returncode == 0


@pytest.mark.holds("stores/audit_log/pruning", "checkpoints")
def test_a_database_is_pruned_as_a_file_is(path: Path, database: PostgresDatabase) -> None:
    told: list[int] = []
    assert pruned(database, told=told.append) == (12, True)
    assert told[-1] == 12
    assert pruned_file(path, NOW_MS + 500) == 12
    with SqliteFile(path).open_log() as log:
        expected = log.verify([KEY])
    report = verified(database)
    assert report.valid, report.fault
    assert sorted(report.writers) == sorted(expected.writers)
    assert [writer.pruned for writer in report.writers] == [6, 6]
    assert pruned(database) == (0, True)
    assert pruned(database, NOW_MS + 5_000) == (8, True)
    assert [(writer.records, writer.pruned) for writer in verified(database).writers] == [(10, 10)] * 2


def test_of_what_was_pruned_no_byte_is_left_in_a_table(database: PostgresDatabase) -> None:
    assert in_tables(database, b"old-swordfish")
    assert pruned(database).overwritten
    assert not in_tables(database, b"old-swordfish")
    assert in_tables(database, b"new-swordfish")


def test_that_a_reader_keeps_what_was_pruned_is_told__and_pruning_again_takes_it(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pruning, "EMPTY_LOG_SECONDS", 0.05)
    with database.open_log() as log:
        assert pruned(database) == (12, False)
        assert log.verify([KEY]).valid  # as it was
    assert verified(database).valid
    assert in_tables(database, b"old-swordfish")
    assert pruned(database) == (0, True)
    assert not in_tables(database, b"old-swordfish")


@pytest.mark.holds("stores/audit_log/pruning", "records", "digests")
def test_a_log_verifies_after_every_step(database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_pruning, "PRUNE_ENTRIES", 2)
    seen: list[int] = []

    def look(count: int) -> None:
        report = verified(database)
        assert report.valid, report.fault
        seen.append(sum(writer.pruned for writer in report.writers))
        assert seen[-1] == count

    assert pruned(database, told=look) == (12, True)
    assert seen == [2, 4, 6, 6, 8, 10, 12, 12]
    assert len(rows(database, "SELECT FROM log_pruned")) == 6


def test_whatever_statement_it_dies_at__the_log_verifies_and_pruning_again_finishes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pruning, "PRUNE_ENTRIES", 3)
    fetch = Connection.fetch
    for last in range(5, 200, 3):
        database = cluster().fresh()
        copy_log(path, database)
        left = [last]

        async def dying(self: Connection, statement: str, *values: object, left: list[int] = left) -> Any:
            left[0] -= 1
            if left[0] == 0:
                self.terminate()
            return await fetch(self, statement, *values)

        with monkeypatch.context() as patch:
            patch.setattr(Connection, "fetch", dying)
            try:
                pruned(database)
            except StoreUnavailable:
                pass
            else:
                assert left[0] > 0, "it went on without its connection"
                break
        report = verified(database)
        assert report.valid, report.fault
        pruned_once_free(database)
        assert sum(writer.pruned for writer in verified(database).writers) == 12
        assert not in_tables(database, b"old-swordfish")
    else:
        raise AssertionError("it never came to its end")


@pytest.mark.holds("stores/audit_log/pruning", "records")
def test_a_call_that_is_open_is_not_pruned__it_could_not_be_closed(tmp_path: Path) -> None:
    path = tmp_path / "accredit.db"

    async def main() -> None:
        log = Log(path)
        await log.call()
        await log.call(None)
        await log.call()
        await log.die()

    run(main())
    database = cluster().fresh()
    copy_log(path, database, lambda entry: LONG_AGO)
    assert pruned(database, NOW_MS + 1) == (2, True)
    assert verified(database).valid
    assert rows(database, f"SELECT count(*) FROM log_entries WHERE day = '{LONG_AGO}'")[0][0] == 3
    with database.open_log() as log:
        assert len(list(log.open_calls())) == 1


@pytest.mark.parametrize("where", ["file", "database"])
def test_a_log_verifies_after_pruning_where_a_clock_was_set_back_within_a_call(where: str, tmp_path: Path) -> None:
    """Its decision said it was made before the call came: it was pruned, and the outcome was called a forgery."""
    path, now = tmp_path / "accredit.db", [OLD]

    async def main() -> None:
        async with Log(path, clock=lambda: now[0]) as log:
            await log.call()
            call = decided(received_ms=NEW)
            await log.port.begin(call)
            now[0] = OLD + 600
            await log.port.finish(call, OK)

    run(main())
    store: SqliteFile | PostgresDatabase = SqliteFile(path)
    if where == "file":
        pruned_file(path, OLD + 500)
    else:
        store = cluster().fresh()
        copy_log(path, store)
        pruned(store, OLD + 500)
    with store.open_log() as log:
        report = log.verify([KEY])
    assert (report.fault, report.records) == (None, 4)
    assert sum(each.pruned for each in report.writers) == 2


def test_the_table_of_a_day_of_which_nothing_is_left_is_taken_out(path: Path) -> None:
    database = cluster().fresh()
    copy_log(path, database, lambda entry: LONG_AGO + datetime.timedelta(entry // 7))
    days = rows(database, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'log_entries'::regclass")[0][0]
    assert pruned(database) == (12, True)
    assert verified(database).valid
    assert (
        rows(database, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'log_entries'::regclass")[0][0] == days - 2
    )
    assert not in_tables(database, b"old-swordfish")


def test_gateways_do_not_wait_while_much_is_copied(database: PostgresDatabase) -> None:
    today = "(clock_timestamp() AT TIME ZONE 'UTC')::date"
    rows(
        database,
        "INSERT INTO log_entries (day, writer, kind, number, key, payload, ed25519)"
        f" SELECT {today}, 99, 0, n, 1, '', '' FROM generate_series(1, {LOG_COPIED}) AS n",
    )
    assert rows(database, f"SELECT log_clear_day({today})") == [(False,)]
    rows(database, "DELETE FROM log_entries WHERE writer = 99")
    assert rows(database, f"SELECT log_clear_day({today})") == [(True,)]
    assert rows(database, "SELECT log_clear_day('1999-01-01')") == [(True,)]
    assert verified(database).valid


@pytest.mark.parametrize("role", ["", "IN ROLE accredit_gateway"])
def test_who_may_not_prune_is_told_so__and_changes_nothing(database: PostgresDatabase, role: str) -> None:
    before = rows(database, "SELECT count(*) FROM log_entries")
    user = a_user(role)
    with pytest.raises(StoreUnavailable):
        pruned(cluster().named(database.database, user))
    with pytest.raises(DatabaseFailed, match="42501"):
        cluster().run("SELECT log_clear_day('2026-01-01')", database=database.database, user=user)
    assert rows(database, "SELECT count(*) FROM log_entries") == before


def test_an_administrators_role_is_enough(database: PostgresDatabase) -> None:
    assert pruned(cluster().named(database.database, a_user("IN ROLE accredit_admin"))) == (12, True)
    assert verified(database).valid


def test_two_that_prune_at_once_do_not_remove_each_others_digests(database: PostgresDatabase) -> None:
    def second(_: int) -> None:
        with pytest.raises(StoreUnavailable, match="somebody else prunes"):
            pruned(database)

    assert pruned(database, told=second) == (12, True)


def test_somebody_who_holds_the_lock_under_which_days_are_made_holds_no_pruning_for_ever(
    database: PostgresDatabase,
) -> None:
    """Any user of the database can. Whoever prunes learns what to look for."""

    async def hold(connection: Connection) -> None:
        await connection.fetch("SELECT pg_advisory_lock(hashtext('accredit log_make_days'))")
        with pytest.raises(StoreUnavailable, match=r"days are made .*: nothing was pruned"):
            await asyncio.to_thread(pruned, database)

    run_once(database, hold)
    assert pruned(database) == (12, True)


@pytest.mark.holds("stores/audit_log/pruning", "records")
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE log_entries SET payload = payload || ' ' WHERE kind = 0",
        "UPDATE log_entries SET payload = (SELECT payload FROM log_entries WHERE (writer, number, kind) = (1, 3, 0))"
        " WHERE (writer, number, kind) = (1, 2, 0)",
        "DELETE FROM log_entries WHERE (writer, number, kind) = (1, 2, 0)",
        "UPDATE log_entries SET payload = '{}' WHERE (writer, number, kind) = (1, 2, 0)",
        "UPDATE log_entries SET ed25519 = decode(repeat('00', 64), 'hex') WHERE kind = 0",
    ],
)
def test_what_was_changed_is_never_signed_for(database: PostgresDatabase, change: str) -> None:
    rows(database, change)
    with pytest.raises(AttestationError):
        pruned(database)
    assert not verified(database).valid


@pytest.mark.holds("stores/audit_log/pruning", "digests")
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE log_pruned SET digests = set_byte(digests, 40, get_byte(digests, 40) # 1)",
        "UPDATE log_pruned SET digests = substr(digests, 1, length(digests) - 32), last = last - 1",
        "UPDATE log_pruned SET digests = digests || digests",
        "UPDATE log_pruned SET first = first + 1, last = last + 1",
        "UPDATE log_pruned SET writer = writer + 100",
        "UPDATE log_pruned SET last = 1000000000000",
        "DELETE FROM log_pruned WHERE writer = 1",
        "DELETE FROM log_entries WHERE kind = 2",
        "UPDATE log_entries SET kind = 1 WHERE kind = 2",
        "INSERT INTO log_pruned SELECT writer, last + 1, last + 1, substr(digests, 1, 32) FROM log_pruned",
    ],
)
def test_what_is_left_of_pruned_records_is_held_against_the_note(database: PostgresDatabase, change: str) -> None:
    assert pruned(database).records == 12
    rows(database, change)
    assert not verified(database).valid
    with suppress(AttestationError):
        pruned(database, NOW_MS + 5_000)
    assert not verified(database).valid
